# Removes images from docker on this host, pins one, or lifts its pin.
#
# Parameters
#   REMOVE  array of "ID NAME": names to take from an image, in order; the id itself as the name takes the image
#   BRINGING  array of "NAME FILE": the lock of whoever brings an image to this host (transfer_lock.sh)
#   PIN     id of an image to pin (may be empty)
#   NOTE    what to write into the pin
#   UNPIN   id of an image whose pin to lift (may be empty)
#   CACHE   sparkrun cache folder (default: this host's own)
#
# Answers, in section CHANGE: REMOVED ("ID NAME") or KEPT ("ID NAME<TAB>reason") once for each of REMOVE: an image that any container has, running or not,
# and a name that is another image's by now, stay; PINNED, UNPINNED (1, 0); REASON, MESSAGE and HINT when nothing was done.
#
# Exit codes (REASON): 0 done as far as told; 2 bad_parameter; 3 to 7 as docker_start; 14 cache_not_writable.

main() {
  resolve_docker_folder
  section CHANGE
  check_ids
  [[ -z $PIN ]] || pin
  [[ -z $UNPIN ]] || unpin
  if ((${#REMOVE[@]})); then
    need_docker
    find_used
    remove_all
  fi
  end_section
}

check_ids() {
  local item
  for item in "$PIN" "$UNPIN" "${REMOVE[@]%% *}"; do
    [[ -z $item || $item =~ ^sha256:[0-9a-f]{64}$ ]] || refuse 2 bad_parameter "'$item' is no id of an image"
  done
}

pin() {
  local folder=$CACHE_DIR/images/pins
  { mkdir -p -- "$folder" && write_file "$folder/${PIN#sha256:}" "$NOTE"; } 2>/dev/null ||
    refuse 14 cache_not_writable "$folder on $HOSTNAME cannot be written"
  answer PINNED 1
}

unpin() {
  local file=$CACHE_DIR/images/pins/${UNPIN#sha256:}
  [[ -e $file ]] || { answer UNPINNED 0 && return; }
  rm -f -- "$file" 2>/dev/null || refuse 14 cache_not_writable "${file%/*} on $HOSTNAME cannot be written"
  answer UNPINNED 1
}

# Sets USED_BY to the containers of each image, by its id.
find_used() {
  local ids image name status=0
  declare -gA USED_BY=()
  ask_docker 20 ps -a -q --no-trunc || refuse_docker "$?" "$DOCKER_SAID"
  [[ -n $REPLY ]] || return 0
  mapfile -t ids <<<"$REPLY"
  # One that is removed between the two looks is no trouble.
  ask_docker 20 inspect --type container -f '{{.Image}} {{.Name}}' -- "${ids[@]}" || status=$?
  ((status == 0)) || [[ $DOCKER_SAID =~ [Nn]o\ such ]] || refuse_docker "$status" "$DOCKER_SAID"
  while read -r image name; do
    [[ -z $image ]] || USED_BY[$image]+="${USED_BY[$image]:+, }${name#/}"
  done <<<"$REPLY"
}

remove_all() {
  local item
  for item in "${REMOVE[@]}"; do
    remove_one "$item" "${item%% *}" "${item#* }"
  done
}

# ITEM ID NAME
remove_one() {
  local status=0
  if [[ -n ${USED_BY[$2]:-} ]]; then
    keep "$1" "container ${USED_BY[$2]} has it"
  elif being_brought "$3"; then
    keep "$1" "it is being brought right now"
  elif ask_docker 20 image inspect -f '{{.Id}}' -- "$3" || { status=$? && false; }; then
    remove_named "$@"
  else
    [[ $DOCKER_SAID =~ [Nn]o\ such\ image|not\ known ]] || refuse_docker "$status" "$DOCKER_SAID"
    answer REMOVED "$1"
  fi
}

# ITEM ID NAME, with what the name means now in REPLY
remove_named() {
  local status=0
  if [[ sha256:${REPLY#sha256:} != "$2" ]]; then
    keep "$1" "the name is another image's by now"
  elif ask_docker 600 image rm -- "$3" || { status=$? && false; }; then
    answer REMOVED "$1"
    rm -f -- "$CACHE_DIR/images/used/${2#sha256:}" 2>/dev/null || :
  else
    DOCKER_SAID=${DOCKER_SAID#*Error response from daemon: }
    [[ $status != 124 && $status != 137 ]] || DOCKER_SAID="docker has not removed it within 600 s"
    keep "$1" "${DOCKER_SAID%%$'\n'*}"
  fi
}

# NAME
being_brought() {
  local lock fd
  for lock in "${BRINGING[@]}"; do
    [[ ${lock%% *} == "$1" && -e ${lock#* } ]] && { exec {fd}<"${lock#* }"; } 2>/dev/null || continue
    lock_now "$fd" || return 0
  done
  return 1
}

# ITEM REASON
keep() {
  answer KEPT "$1"$'\t'"$2"
}

main
