# What the Hugging Face hub cache of this host holds: every model with its refs, links and blobs, pins and usage, and the room on the disk.
#
# Parameters
#   HF_HOME_OVERRIDE  Hugging Face home to look in instead of this host's own
#   MARK              1: give a cache on a network file system a marker, if it has none and can be written
#
# Answers, in section CACHE: HUB, CACHE_ID (see hub_place.sh), MARKED=1 when the marker is new, NOW (seconds of the epoch), HUB_HERE (1, 0), WRITABLE (1, 0), FREE_KIB,
# TOTAL_KIB, LINKED (name and target) of a model's folder that is a link; and in the order of a walk
#   ENTRY       "KIND KIND_OF_TARGET BYTES BLOCKS MODIFIED ACCESSED DEVICE:INODE LINKS PATH" of each file, link and folder, path from the hub,
#               blocks of 512 bytes, times as seconds of the epoch; the kinds are those of find: f, d, l, N for a target that is missing
#   LINK        where the link of the ENTRY before leads
#   OUTSIDE     "BYTES PATH" of a link whose target is not in the hub
#   UNREADABLE  a folder that this user may not read
#   REF         "COMMIT PATH" of each file in refs
#   PIN         "FOLDER TEXT"
#   USED        "FOLDER SECONDS" when a launch used it last
#   GONE        "FOLDER REVISION/FILE" that was removed because it was damaged (model_change.sh), and is not back
# REASON, MESSAGE and HINT when it cannot be told.
#
# Exit codes (REASON): 0 looked; 1 find_missing.

main() {
  resolve_home
  resolve_hub
  section CACHE
  need_find
  tell_identity
  exec {DISK_FD}< <(quietly disk_room)
  answer NOW "$EPOCHSECONDS"
  if CDPATH='' cd -- "$HUB" 2>/dev/null; then
    answer HUB_HERE 1
    [[ -w . ]] && answer WRITABLE 1 || answer WRITABLE 0
    walk
    tell_outside
    tell_refs
    tell_records
  else
    [[ ! -d $HUB ]] || refuse 1 unreadable "$HUB on $HOSTNAME cannot be read" "let this user read it"
    answer HUB_HERE 0
  fi
  tell_room
  end_section
}

disk_room() {
  timeout 5 df -P -k -- "$HUB_PLACE" | { read -r _ && read -r _ total _ free _ && printf '%s %s\n' "$total" "$free"; }
}

tell_room() {
  local total free
  read -r total free <&"$DISK_FD" || return 0
  answer TOTAL_KIB "$total"
  answer FREE_KIB "$free"
}

# Names of files come from repositories and may hold anything: records end with NUL until they are lines of answers.
as_answers() {
  sed -z -e 's/\\/\\\\/g' -e 's/\n/\\n/g' -e 's/\r/\\r/g' | tr '\0' '\n'
}

walk() {
  local folder places=(models--* datasets--* spaces--* blobs .sparkrun-incoming/models--*/ .sparkrun-incoming/removing.*/)
  PLACES=()
  for folder in "${places[@]}"; do
    folder=${folder%/}
    [[ -d $folder ]] || continue
    PLACES+=("$folder")
    [[ ! -L $folder ]] || answer LINKED "$folder $(readlink -- "$folder")"
  done
  ((${#PLACES[@]})) || return 0
  # A folder that vanishes meanwhile is not here any more: find says so and goes on.
  "$FIND" -H "${PLACES[@]}" -name .no_exist -prune -o -type d '(' ! -readable -o ! -executable ')' -printf 'UNREADABLE=%p\0' -prune -o \
    -printf 'ENTRY=%y %Y %s %b %T@ %A@ %D:%i %n %p\0' -type l -printf 'LINK=%l\0' 2>/dev/null | as_answers || :
}

# The client's own links all lead to a blob of the same repository or of the cache.
tell_outside() {
  ((${#PLACES[@]})) || return 0
  "$FIND" -H "${PLACES[@]}" -type l ! -lname '*../blobs/*' ! -xtype l -exec stat -L --printf 'OUTSIDE=%s %n\0' -- '{}' + 2>/dev/null | as_answers || :
}

tell_refs() {
  local file
  shopt -s globstar
  for file in models--*/refs/**; do
    [[ -f $file ]] && first_line "$file" || continue
    answer REF "${REPLY%%[[:space:]]*} $file"
  done
  shopt -u globstar
}

tell_records() {
  local file
  for file in "$HUB_STATE"/pins/models--*; do
    slurp "$file" || :
    answer PIN "${file##*/} $REPLY"
  done
  for file in "$HUB_STATE"/used/models--*; do
    REPLY=$(stat -c %Y -- "$file" 2>/dev/null) || continue
    answer USED "${file##*/} $REPLY"
  done
  for file in "$HUB_STATE"/missing/models--*; do
    ! slurp "$file" || tell_gone "${file##*/}" "$REPLY"
  done
}

# FOLDER LINES
tell_gone() {
  local file
  while IFS= read -r file; do
    [[ $file != ?*/?* || ! -d $1/snapshots/${file%%/*} || -e $1/snapshots/$file ]] || answer GONE "$1 $file"
  done <<<"$2"
}

main
