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
  if ((${#SUM_WORDS[@]})); then
    receive_checked
  else
    next_bytes 2>/dev/null >>"$PART" || :
  fi
  close_part
}

# Sets SUM_WORDS to what makes the blob's name out of its bytes, if something does. openssl uses the processor's own instructions for it,
# and is three times as fast where sha256sum does not (measured: 1.2 GB/s against 350 MB/s).
choose_sum() {
  local kind=''
  SUM_WORDS=()
  [[ ! $BLOB =~ ^[0-9a-f]{64}$ ]] || kind=sha256
  [[ ! $BLOB =~ ^[0-9a-f]{40}$ ]] || kind=sha1
  if [[ $kind == sha256 ]] && find_tool openssl; then
    SUM_WORDS=("$REPLY" dgst -sha256 -r)
  elif [[ -n $kind ]] && find_tool "${kind}sum"; then
    SUM_WORDS=("$REPLY")
  fi
}

# The file, and its name as it should be in SUM.
receive_checked() {
  SUM=$(
    {
      # git hashes a header with the file
      [[ ${SUM_WORDS[0]} != *sha1sum ]] || printf 'blob %s\0' "$SIZE"
      ((FROM == 0)) || cat -- "$PART"
      next_bytes | tee -a -- "$PART"
    } 2>/dev/null | "${SUM_WORDS[@]}"
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
  if ((${#SUM_WORDS[@]})) && [[ $SUM != "$BLOB" ]]; then
    rm -f -- "$PART"
    DAMAGED+=("$BLOB")
    return
  fi
  DISK_SAID=$(mv -f -- "$PART" "$GROWING/blobs/$BLOB" 2>&1) || refuse_disk "$DISK_SAID"
  ((++ARRIVED))
}

main
