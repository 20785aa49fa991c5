# Makes what hub_receive took a model of the hub cache: all of it at once, or nothing.
#
# Parameters
#   HUB       folder of this host's Hugging Face hub cache
#   REPO      org/name
#   SNAPSHOT  commit
#   LINKS     array of "SIZE<tab>NAME<tab>PATH": the files of the snapshot and the blobs that hold them
#   REFS      array of names that stand for the commit, such as main
#
# Answers, in section KEEP: FOLDER, where the model is now; REASON, MESSAGE and HINT when it failed.
#
# What was copied leaves the memory of this host (posix_fadvise, by dd), which an accelerator with unified memory needs for itself.
#
# Exit codes (REASON): 0 in place; 1 failed; 2 bad_parameter; 14 cache_not_writable; 17 disk_full; 18 busy.

main() {
  section KEEP
  [[ $SNAPSHOT =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || refuse 2 bad_parameter "'$SNAPSHOT' is no commit"
  open_incoming
  require_blobs
  move_blobs
  link_files
  name_commit
  close_incoming
  answer FOLDER "$HUB_FOLDER/$FOLDER"
  end_section
}

# Every file is here, in its full size, before any of them counts.
require_blobs() {
  local link size name path have
  for link in "${LINKS[@]}"; do
    IFS=$'\t' read -r size name path <<<"$link"
    [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ && $path != /* && /$path/ != */../* ]] || refuse 2 bad_parameter "'$name' or '$path' leaves the cache"
    have=$(stat -c %s -- "$GROWING/blobs/$name" 2>/dev/null) || have=$(stat -c %s -- "$HUB_FOLDER/$FOLDER/blobs/$name" 2>/dev/null) || have=none
    [[ $have == "$size" ]] || refuse 1 failed "$path of $REPO has not arrived on $HOSTNAME ($have of $size bytes)" "run this again: it goes on from there"
  done
}

move_blobs() {
  local blob blobs=$HUB_FOLDER/$FOLDER/blobs
  DISK_SAID=$(mkdir -p -- "$blobs" 2>&1) || refuse_disk "$DISK_SAID"
  for blob in "$GROWING"/blobs/*; do
    [[ $blob != *.part ]] || continue
    DISK_SAID=$(mv -f -- "$blob" "$blobs/${blob##*/}" 2>&1) || refuse_disk "$DISK_SAID"
    forget "$blobs/${blob##*/}"
  done
}

# FILE: its pages leave the memory once they are on the disk.
forget() {
  sync -d -- "$1" 2>/dev/null || return 0
  dd if="$1" iflag=nocache count=0 status=none 2>/dev/null || :
}

link_files() {
  local link size name path up at=$HUB_FOLDER/$FOLDER/snapshots/$SNAPSHOT making
  making=$at
  [[ -d $at ]] || making=$HUB_FOLDER/$FOLDER/snapshots/.$SNAPSHOT.sparkrun
  for link in "${LINKS[@]}"; do
    IFS=$'\t' read -r size name path <<<"$link"
    up=${path//[!\/]/}
    DISK_SAID=$({ [[ $path != */* ]] || mkdir -p -- "$making/${path%/*}"; mkdir -p -- "$making"; } 2>&1) || refuse_disk "$DISK_SAID"
    DISK_SAID=$({ ln -sfn -- "../../${up//\//../}blobs/$name" "$making/$path.sparkrun" && mv -fT -- "$making/$path.sparkrun" "$making/$path"; } 2>&1) ||
      refuse_disk "$DISK_SAID"
  done
  [[ $making == "$at" ]] || DISK_SAID=$(mv -T -- "$making" "$at" 2>&1) || refuse_disk "$DISK_SAID"
}

name_commit() {
  local ref at refs=$HUB_FOLDER/$FOLDER/refs
  for ref in "${REFS[@]}"; do
    at=$refs
    [[ $ref =~ ^[A-Za-z0-9][A-Za-z0-9._/-]*$ && /$ref/ != */../* ]] || continue
    [[ $ref != */* ]] || at=$refs/${ref%/*}
    DISK_SAID=$({ mkdir -p -- "$at" && printf '%s' "$SNAPSHOT" >"$refs/$ref.sparkrun" && mv -f -- "$refs/$ref.sparkrun" "$refs/$ref"; } 2>&1) ||
      refuse_disk "$DISK_SAID"
  done
}

main
