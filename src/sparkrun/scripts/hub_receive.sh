# Takes files of a model from the stream on stdin, one after the other without anything between them. They count only after hub_keep.
#
# Parameters
#   HUB      folder of this host's Hugging Face hub cache
#   REPO     org/name
#   ENTRIES  array of "NAME SIZE FROM TAKE": a blob, its size, where in it the stream begins, and whether (1) this host lacks it
#
# Answers, in section RECEIVE: FILES, how many have arrived; REASON, MESSAGE and HINT when it failed: what has come of a file is used by the
# next attempt.
#
# A name of 64 hexadecimal digits is the SHA-256 of the file, one of 40 git's SHA-1: such a file is checked while it comes.
#
# Exit codes (REASON): 0 all arrived; 1 failed; 2 bad_parameter; 14 cache_not_writable; 16 damaged; 17 disk_full; 21 cut_off.

main() {
  local entry
  section RECEIVE
  ARRIVED=0 DAMAGED=()
  make_incoming
  for entry in "${ENTRIES[@]}"; do
    read -r BLOB SIZE FROM TAKE <<<"$entry"
    [[ $BLOB =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || refuse 2 bad_parameter "'$BLOB' is no name of a blob"
    take_entry
  done
  answer FILES "$ARRIVED"
  ((${#DAMAGED[@]} == 0)) || refuse 16 damaged "${#DAMAGED[@]} files of $REPO came damaged to $HOSTNAME, such as ${DAMAGED[0]}" \
    "run this again; when it happens again, look at the copy that it came from: sparkrun model-cache verify $REPO"
  end_section
}

take_entry() {
  if [[ $TAKE != 1 ]]; then
    next_bytes >/dev/null || :
    return
  fi
  PART=$GROWING/blobs/$BLOB.part
  DISK_SAID=$({ : >>"$PART" && truncate -s "$FROM" -- "$PART"; } 2>&1) || refuse_disk "$DISK_SAID"
  choose_sum
  SUM_PROGRAM=$REPLY
  if [[ -n $SUM_PROGRAM ]]; then
    receive_checked "$SUM_PROGRAM"
  else
    next_bytes 2>/dev/null >>"$PART" || :
  fi
  close_part
}

# Sets REPLY to the program that makes the blob's name out of its bytes, if one does.
choose_sum() {
  REPLY=
  [[ ! $BLOB =~ ^[0-9a-f]{64}$ ]] || REPLY=sha256sum
  [[ ! $BLOB =~ ^[0-9a-f]{40}$ ]] || REPLY=sha1sum
  find_tool "${REPLY:-none}" || REPLY=
  REPLY=${REPLY##*/}
}

# PROGRAM: the file, and its name as it should be in SUM.
receive_checked() {
  SUM=$(
    {
      # git hashes a header with the file
      [[ $1 != sha1sum ]] || printf 'blob %s\0' "$SIZE"
      ((FROM == 0)) || cat -- "$PART"
      next_bytes | tee -a -- "$PART"
    } 2>/dev/null | "$1"
  ) || :
  SUM=${SUM%% *}
}

# What comes of the file, read to the byte: what follows is another's.
next_bytes() {
  dd bs=1M count="$((SIZE - FROM))" iflag=count_bytes,fullblock status=none
}

# The file is here if it has its size and its sum.
close_part() {
  local have
  have=$(stat -c %s -- "$PART") || refuse 1 failed "$PART is gone"
  if ((have != SIZE)); then
    require_room "$((SIZE - have))"
    refuse 21 cut_off "the stream to $HOSTNAME ended early: $BLOB has $have of $SIZE bytes" "run this again: it goes on from there"
  fi
  if [[ -n $SUM_PROGRAM && $SUM != "$BLOB" ]]; then
    rm -f -- "$PART"
    DAMAGED+=("$BLOB")
    return
  fi
  DISK_SAID=$(mv -f -- "$PART" "$GROWING/blobs/$BLOB" 2>&1) || refuse_disk "$DISK_SAID"
  ((++ARRIVED))
}

main
