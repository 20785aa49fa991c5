# What a launch notes of the caches that it uses, and what of the runtime cache it clears away: beside the launch, which waits for none of it.
#
# Reads HUB and MODEL_FOLDER (a model of the hub's cache), RUNTIME_CACHE (this launch's entry), RUNTIME_CACHES (the folder of all entries),
# PRUNE_MINUTES and DROP_CACHES (the kernel's switch, /proc/sys/vm/drop_caches: files that were read leave the memory first); each may be
# empty. An entry is a folder with a file .sparkrun-last-used, whose time is that of its last launch.

LAST_USED=.sparkrun-last-used

upkeep() {
  local place
  [[ -z $DROP_CACHES ]] || drop_page_cache || :
  for place in HUB RUNTIME_CACHE RUNTIME_CACHES; do
    expand_home "${!place}"
    printf -v "$place" '%s' "${REPLY%/}"
  done
  [[ -z $RUNTIME_CACHE || ! -d $RUNTIME_CACHE ]] || touch -- "$RUNTIME_CACHE/$LAST_USED" || :
  note_model_use || :
  [[ $PRUNE_MINUTES =~ ^[1-9][0-9]{0,9}$ && -d $RUNTIME_CACHES ]] || return 0
  rm -rf -- "$RUNTIME_CACHES"/.removing.*
  while IFS= read -r -d '' REPLY; do remove_entry "$REPLY" || :; done < <(stale_entries)
}

# An accelerator that shares the memory with the processor finds free what files do not hold. Root may do it, or a user whom sudo lets write
# there without a password; nobody else, and that is no failure.
drop_page_cache() {
  if [[ -w $DROP_CACHES ]]; then
    timeout -k 1 60 sync && echo 3 >"$DROP_CACHES"
  elif find_tool sudo; then
    timeout -k 1 60 sync && echo 3 | timeout -k 1 10 "$REPLY" -n tee "$DROP_CACHES" >/dev/null
  fi
}

note_model_use() {
  local folder=$HUB/.sparkrun/used mode
  [[ -n $HUB && -n $MODEL_FOLDER && -d $HUB/$MODEL_FOLDER ]] || return 0
  if [[ ! -d $folder ]]; then
    # As open as the hub itself, which several users may share.
    mode=$(stat -L -c %a -- "$HUB") && umask "$(printf '%04o' "$((0777 & ~8#${mode: -3}))")" && mkdir -p -- "$folder" || return 1
  fi
  touch -- "$folder/$MODEL_FOLDER"
}

# Entries that were not used for PRUNE_MINUTES, and that nothing which runs has mounted; each ends with NUL.
stale_entries() {
  local entry found=()
  find_tool find || return 0
  mapfile -d '' -t found < <("$REPLY" "$RUNTIME_CACHES" -mindepth 2 -maxdepth 4 -name "$LAST_USED" -type f -mmin "+$PRUNE_MINUTES" -printf '%h\0')
  ((${#found[@]} == 0)) || find_mounted || return 0
  for entry in "${found[@]}"; do
    ! mounted "$entry" && ! fresh_inside "$entry" || continue
    printf '%s\0' "$entry"
  done
}

# Sets MOUNTED to the folders that running containers have; false when that is unknown.
find_mounted() {
  local ids=()
  MOUNTED=$'\n'
  find_docker || return 0
  REPLY=$(timeout -k 1 20 "$DOCKER" ps -q --no-trunc) || return 1
  [[ -n $REPLY ]] || return 0
  mapfile -t ids <<<"$REPLY"
  MOUNTED=$'\n'$(timeout -k 1 20 "$DOCKER" inspect --type container -f '{{range .Mounts}}{{.Source}}{{"\n"}}{{end}}' -- "${ids[@]}")$'\n' || return 1
}

# FOLDER: whether a container has it, or something in it.
mounted() {
  [[ $MOUNTED == *$'\n'"$1"$'\n'* || $MOUNTED == *$'\n'"$1"/* ]]
}

# FOLDER: whether an entry below it was used of late: one cache for all models may have held one for each before.
fresh_inside() {
  find_tool find || return 0
  [[ -n $("$REPLY" "$1" -mindepth 2 -maxdepth 4 -name "$LAST_USED" ! -mmin "+$PRUNE_MINUTES" -print -quit) ]]
}

# FOLDER: it vanishes in one step, so that no launch begins with half of it.
remove_entry() {
  local aside=$RUNTIME_CACHES/.removing.$$.$RANDOM
  mv -T -- "$1" "$aside" && rm -rf -- "$aside"
}
