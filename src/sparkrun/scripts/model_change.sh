# Removes from the Hugging Face hub cache what was found there, pins a model, or lifts its pin.
#
# Parameters
#   HUB      folder of this host's Hugging Face hub cache
#   REMOVE   array of "INODE PATH", path from the hub: files, links, and folders with all that is in them; what is another one by now stays
#   MISSING  array of "FOLDER REVISION/PATH": files of a model that were removed and are wanted again
#   BRINGING array of "FOLDER FILE": the lock of whoever brings a model to this host (transfer_lock.sh)
#   PIN      folder of a model to pin (may be empty)
#   NOTE     what to write into the pin
#   UNPIN    folder of a model whose pin to lift (may be empty)
#
# Answers, in section CHANGE: REMOVED (path) or KEPT ("PATH<TAB>reason") once for each of REMOVE; PINNED, UNPINNED (1, 0); REASON, MESSAGE and HINT when
# nothing was done.
#
# Exit codes (REASON): 0 done as far as told; 1 failed; 2 bad_parameter; 14 cache_not_writable.

main() {
  section CHANGE
  CDPATH='' cd -- "$HUB" 2>/dev/null || refuse 2 bad_parameter "$HUB on $HOSTNAME cannot be read"
  [[ -w . ]] || refuse 14 cache_not_writable "$HUB on $HOSTNAME cannot be written by this user" "make it writable for this user, or name another with -H user@host"
  check_paths
  read_inodes
  declare -gA LOCKED=()
  ulimit -n "$(ulimit -H -n)" 2>/dev/null || :
  [[ -z $PIN ]] || pin
  [[ -z $UNPIN ]] || unpin
  note_missing
  remove_all
  end_section
}

check_paths() {
  local item
  for item in "${REMOVE[@]}"; do
    [[ $item =~ ^[0-9]+\ (.+)$ ]] || refuse 2 bad_parameter "REMOVE holds '$item'"
    case /${BASH_REMATCH[1]}/ in
      */../* | */./* | *//*) refuse 2 bad_parameter "REMOVE holds '$item', which leads elsewhere" ;;
      /models--?*/* | /blobs/??/?*/ | /.sparkrun-incoming/models--?*/* | /.sparkrun-incoming/removing.?*/) ;;
      *) refuse 2 bad_parameter "REMOVE holds '$item', which is no part of a model" ;;
    esac
  done
  for item in "$PIN" "$UNPIN"; do
    [[ -z $item ]] || require_folder "$item"
  done
}

require_folder() {
  [[ $1 =~ ^models--[^/]+$ ]] || refuse 2 bad_parameter "'$1' is no folder of a model"
}

# Sets INODE_OF of every path that is here, in one look.
read_inodes() {
  local inode path paths=()
  declare -gA INODE_OF=()
  for path in "${REMOVE[@]}"; do paths+=("${path#* }"); done
  ((${#paths[@]})) || return 0
  while IFS=' ' read -r -d '' inode path; do INODE_OF[$path]=$inode; done < <(printf '%s\0' "${paths[@]}" | xargs -0 stat --printf '%i %n\0' -- 2>/dev/null)
}

pin() {
  open_state pins && write_file "$HUB_STATE/pins/.$PIN.$$" "$NOTE" && mv -f -- "$HUB_STATE/pins/.$PIN.$$" "$HUB_STATE/pins/$PIN" ||
    refuse 14 cache_not_writable "$HUB/$HUB_STATE on $HOSTNAME cannot be written"
  answer PINNED 1
}

unpin() {
  [[ -e $HUB_STATE/pins/$UNPIN ]] || { answer UNPINNED 0 && return; }
  rm -f -- "$HUB_STATE/pins/$UNPIN" 2>/dev/null || refuse 14 cache_not_writable "$HUB/$HUB_STATE/pins on $HOSTNAME cannot be written"
  answer UNPINNED 1
}

# A snapshot without a link must not pass for whole: observe looks here.
note_missing() {
  local item folder
  for item in "${MISSING[@]}"; do
    folder=${item%% *}
    require_folder "$folder"
    open_state missing && printf '%s\n' "${item#* }" >>"$HUB_STATE/missing/$folder" ||
      refuse 14 cache_not_writable "$HUB/$HUB_STATE on $HOSTNAME cannot be written"
  done
}

remove_all() {
  local item path
  for item in "${REMOVE[@]}"; do
    path=${item#* }
    if [[ ! -e $path && ! -L $path ]]; then
      answer REMOVED "$path"
    elif [[ -z ${INODE_OF[$path]:-} ]]; then
      keep "$path" "it cannot be looked at"
    elif [[ ${INODE_OF[$path]} != "${item%% *}" ]]; then
      keep "$path" "it has changed meanwhile"
    elif busy "$path"; then
      keep "$path" "it is being fetched right now"
    else
      remove "$path"
    fi
  done
}

# PATH REASON
keep() {
  answer KEPT "$1"$'\t'"$2"
}

# PATH: a folder vanishes in one step, so that nobody sees half of a model.
remove() {
  local said aside
  if [[ -d $1 && ! -L $1 && $1 == models--* ]]; then
    aside=.sparkrun-incoming/removing.$$.$RANDOM
    said=$({ mkdir -p -- .sparkrun-incoming && mv -T -- "$1" "$aside"; } 2>&1) || { keep "$1" "${said##*: }" && return; }
    said=$(rm -rf -- "$aside" 2>&1) || { keep "$1" "moved to $aside, but ${said##*: }" && return; }
    [[ $1 == */* ]] || rm -rf -- ".locks/$1" "$HUB_STATE/used/$1" "$HUB_STATE/missing/$1" 2>/dev/null || :
  else
    said=$(rm -rf -- "$1" 2>&1) || { keep "$1" "${said##*: }" && return; }
  fi
  answer REMOVED "$1"
}

# PATH: whether somebody brings what it belongs to: another launch, or the hub's client, which locks each file it fetches.
busy() {
  local folder=${1#.sparkrun-incoming/} name=${1##*/}
  folder=${folder%%/*}
  case $1 in
    blobs/*) ! free_lock "$1.lock" ;;
    models--*/blobs/*) ! free_lock ".sparkrun-incoming/$folder.lock" || ! free_lock ".locks/$folder/${name%%.*}.lock" ;;
    models--* | .sparkrun-incoming/models--*) ! free_model "$folder" ;;
    *) return 1 ;;
  esac
}

# FOLDER
free_model() {
  local lock
  [[ -z ${LOCKED[$1]:-} ]] || { [[ ${LOCKED[$1]} == free ]] && return; }
  LOCKED[$1]=busy
  for lock in ".sparkrun-incoming/$1.lock" ".locks/$1"/*.lock; do
    free_lock "$lock" || return 1
  done
  for lock in "${BRINGING[@]}"; do
    [[ ${lock%% *} != "$1" ]] || free_lock "${lock#* }" || return 1
  done
  LOCKED[$1]=free
}

# FILE: takes the lock if it is there, until the script ends; false when somebody has it.
free_lock() {
  local fd
  [[ -e $1 && -z ${LOCKED[$1]:-} ]] || return 0
  { exec {fd}>>"$1"; } 2>/dev/null || { exec {fd}<"$1"; } 2>/dev/null || return 0
  lock_now "$fd" || return 1
  LOCKED[$1]=mine
}

main
