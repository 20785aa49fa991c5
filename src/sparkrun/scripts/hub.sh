# A model on its way into a Hugging Face hub cache: it grows in a folder beside the others, and is moved in when all of it is here.
#
# Reads HUB (folder of the cache) and REPO (org/name).

# Sets HUB_FOLDER, FOLDER (models--org--name), INCOMING and GROWING.
name_folders() {
  local LC_ALL=C
  [[ $REPO =~ ^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$ ]] || refuse 2 bad_parameter "'$REPO' is no model of a hub"
  resolve_home
  expand_home "$HUB"
  HUB_FOLDER=${REPLY%/}
  [[ $HUB_FOLDER == /* ]] || refuse 2 bad_parameter "HUB is no absolute path: $HUB"
  FOLDER=models--${REPO//\//--} INCOMING=$HUB_FOLDER/.sparkrun-incoming
  GROWING=$INCOMING/$FOLDER
}

# Names the folders, and makes those in which a model grows.
make_incoming() {
  name_folders
  writable_folder "$HUB_FOLDER" || refuse_unwritable "$HUB_FOLDER"
  require_own
  DISK_SAID=$(mkdir -p -- "$GROWING/blobs" 2>&1) || refuse_disk "$DISK_SAID"
}

# The same, and holds the model's lock until the script ends; on a host without flock(1) nothing is locked. A lock file that its holder has
# removed meanwhile locks nothing.
open_incoming() {
  make_incoming
  until [[ -n ${LOCK_FD:-} && $GROWING.lock -ef /dev/fd/$LOCK_FD ]]; do
    [[ -z ${LOCK_FD:-} ]] || exec {LOCK_FD}>&-
    { exec {LOCK_FD}>"$GROWING.lock"; } 2>/dev/null || refuse_unwritable "$GROWING.lock"
    lock_now "$LOCK_FD" || refuse 18 busy "another launch is bringing $REPO to $HOSTNAME right now" "wait for that one, then run this again"
  done
}

# All has become a model: nothing of its way stays.
close_incoming() {
  rm -rf -- "$GROWING" "$INCOMING/.locks/$FOLDER"
  rm -d -- "$INCOMING/.locks" 2>/dev/null || :
  rm -f -- "$INCOMING/CACHEDIR.TAG" "$GROWING.lock"
}

# It ends here; what has come stays for the next attempt.
leave_incoming() {
  local files=("$GROWING"/blobs/*)
  ((${#files[@]})) || close_incoming
}

# Ends the script where a folder of the model is there that this user may not write to.
require_own() {
  local folder
  for folder in "$HUB_FOLDER/$FOLDER"{,/blobs,/snapshots,/refs} "$HUB_FOLDER/$FOLDER"/snapshots/*; do
    [[ ! -d $folder || -w $folder ]] || refuse_unwritable "$folder"
  done
}

# PATH [DETAIL]
refuse_unwritable() {
  refuse 14 cache_not_writable "$1 on $HOSTNAME cannot be written${2:+: $2}" "there: sudo chown -R $(id -un) $HUB_FOLDER; or set HF_HOME there"
}

# BLOB: sets SUM_WORDS to what makes the blob's name out of its bytes, if something does. openssl uses the processor's own instructions for it,
# and is three times as fast where sha256sum does not (measured: 1.2 GB/s against 350 MB/s).
choose_sum() {
  local kind=''
  SUM_WORDS=()
  [[ ! $1 =~ ^[0-9a-f]{64}$ ]] || kind=sha256
  [[ ! $1 =~ ^[0-9a-f]{40}$ ]] || kind=sha1
  if [[ $kind == sha256 ]] && find_tool openssl; then
    SUM_WORDS=("$REPLY" dgst -sha256 -r)
  elif [[ -n $kind ]] && find_tool "${kind}sum"; then
    SUM_WORDS=("$REPLY")
  fi
}

# BYTES: ends the script when the disk cannot take that many.
require_room() {
  local free
  [[ $1 =~ ^[1-9][0-9]*$ ]] || return 0
  free=$(timeout 3 df -P -k -- "$INCOMING" </dev/null 2>/dev/null) || return 0
  read -r _ _ _ free _ <<<"${free##*$'\n'}"
  [[ ! $free =~ ^[0-9]+$ ]] || ((free * 1024 > $1)) || refuse_full "$(($1 / 1000000)) MB are needed, $((free * 1024 / 1000000)) MB are free"
}

# What has arrived becomes a model: first what links lead to, then the links, last the names of revisions.
keep_incoming() {
  local part
  [[ -d $GROWING/snapshots ]] || refuse 1 failed "nothing of $REPO has arrived in $INCOMING"
  rm -f -- "$GROWING"/blobs/*.part "$GROWING"/blobs/*.incomplete
  for part in blobs snapshots refs; do
    [[ ! -d $GROWING/$part ]] || DISK_SAID=$(move_into "$GROWING/$part" "$HUB_FOLDER/$FOLDER/$part" 2>&1) || refuse_disk "$DISK_SAID"
  done
  close_incoming
}

# SOURCE TARGET: moves a folder, file by file where the target is there.
move_into() {
  local entry
  mkdir -p -- "${2%/*}"
  if [[ ! -d $2 || -L $2 ]]; then
    mv -f -- "$1" "$2"
    return
  fi
  for entry in "$1"/* "$1"/.[!.]*; do
    if [[ -d $entry && ! -L $entry ]]; then
      move_into "$entry" "$2/${entry##*/}" || return
    else
      mv -f -- "$entry" "$2/${entry##*/}" || return
    fi
  done
}

# TEXT: ends the script with what a program said of the disk.
refuse_disk() {
  local line=${1##*$'\n'}
  case $1 in
    *'o space left on device'* | *'uota exceeded'*) refuse_full "$line" ;;
    *'ermission denied'* | *'ead-only file system'*) refuse_unwritable "$HUB_FOLDER" "$line" ;;
    *) refuse 1 failed "${line:-unknown reason}" ;;
  esac
}

# DETAIL
refuse_full() {
  refuse 17 disk_full "the disk of $HOSTNAME with $HUB_FOLDER is full: $1" "make room there, or set HF_HOME there to a larger disk"
}
