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

# What the functions below do, in one process and large pieces, which costs a third of the processor's time.
# arguments: folder, entries. Prints ARRIVED=1, DAMAGED=NAME, and CUT=NAME HAVE SIZE or FAILED=MESSAGE at its end.
RECEIVE='
import hashlib, os, sys

KINDS = {64: "sha256", 40: "sha1"}

def checked(name):
    hexadecimal = set(name) <= set("0123456789abcdef")
    return hashlib.new(KINDS[len(name)]) if hexadecimal and len(name) in KINDS else None

def pieces(source, count):
    while count and (piece := os.read(source, min(count, 1 << 20))):
        count -= len(piece)
        yield piece

def take(folder, name, size, start):
    part, digest = f"{folder}/{name}.part", checked(name)
    with open(part, "ab+", buffering=0) as file:
        file.truncate(start)
        if digest and len(name) == 40:
            digest.update(b"blob %d\0" % size)
        if digest and start:
            file.seek(0)
            for piece in pieces(file.fileno(), start):
                digest.update(piece)
        for piece in pieces(0, size - start):
            rest = memoryview(piece)
            while rest:
                rest = rest[file.write(rest):]
            if digest:
                digest.update(piece)
    have = os.stat(part).st_size
    if have != size:
        sys.exit(f"CUT={name} {have} {size}")
    if digest and digest.hexdigest() != name:
        os.remove(part)
        return f"DAMAGED={name}"
    os.replace(part, f"{folder}/{name}")
    return "ARRIVED=1"

sys.stderr = sys.stdout
try:
    for entry in sys.argv[2:]:
        name, size, start, wanted = entry.split()
        if wanted == "1":
            print(take(sys.argv[1], name, int(size), int(start)), flush=True)
        else:
            for _piece in pieces(0, int(size) - int(start)):
                pass
except OSError as error:
    sys.exit(f"FAILED={error.filename or sys.argv[1]}: {error.strerror}")
'

main() {
  local entry
  section RECEIVE
  ARRIVED=0 DAMAGED=()
  make_incoming
  for entry in "${ENTRIES[@]}"; do
    [[ ${entry%% *} =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || refuse 2 bad_parameter "'${entry%% *}' is no name of a blob"
  done
  end_others
  if find_tool python3 && "$REPLY" -I -S -c 'import hashlib' 2>/dev/null; then
    take_all "$REPLY"
  else
    take_each
  fi
  answer FILES "$ARRIVED"
  ((${#DAMAGED[@]} == 0)) || refuse 16 damaged "a file of $REPO came damaged: ${DAMAGED[0]}" \
    "run this again; when it happens again, look at the copy that it came from: sparkrun model-cache verify $REPO"
  end_section
}

# Who took these files in an earlier attempt may still wait for a stream that was cut off, and would go on writing when the network is back:
# into what has been checked by then.
end_others() {
  local pid path entry
  local -A own=()
  for entry in "${ENTRIES[@]}"; do
    [[ $entry != *' 1' ]] || own[$GROWING/blobs/${entry%% *}.part]=1
  done
  while IFS=$'\t' read -r pid path; do
    pid=${pid#/proc/}
    pid=${pid%/fd}
    [[ -n ${own[$path]:-} ]] && kill -KILL "$pid" 2>/dev/null || continue
    while alive "$pid"; do nap 0.02; done
  done < <(find /proc/[0-9]*/fd -maxdepth 1 -lname "$GROWING/blobs/*.part" -printf '%h\t%l\n' 2>/dev/null)
}

# PYTHON
take_all() {
  local line said
  said=$("$1" -I -S -c "$RECEIVE" "$GROWING/blobs" "${ENTRIES[@]}" 2>&1) || :
  while IFS= read -r line; do
    case $line in
      '') ;;
      ARRIVED=*) ((++ARRIVED)) ;;
      DAMAGED=*) DAMAGED+=("${line#*=}") ;;
      CUT=*)
        read -r BLOB HAVE SIZE <<<"${line#*=}"
        refuse_cut
        ;;
      *) refuse_disk "${line#FAILED=}" ;;
    esac
  done <<<"$said"
}

take_each() {
  for entry in "${ENTRIES[@]}"; do
    read -r BLOB SIZE FROM TAKE <<<"$entry"
    take_entry
  done
}

take_entry() {
  if [[ $TAKE != 1 ]]; then
    next_bytes >/dev/null || :
    return
  fi
  PART=$GROWING/blobs/$BLOB.part
  DISK_SAID=$({ : >>"$PART" && truncate -s "$FROM" -- "$PART"; } 2>&1) || refuse_disk "$DISK_SAID"
  choose_sum "$BLOB"
  if ((${#SUM_WORDS[@]})); then
    receive_checked
  else
    next_bytes 2>/dev/null >>"$PART" || :
  fi
  close_part
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

# BLOB has HAVE of SIZE bytes: there is no room for the rest, or the stream ended early.
refuse_cut() {
  require_room "$((SIZE - HAVE))"
  refuse 21 cut_off "the stream to $HOSTNAME ended early: $BLOB has $HAVE of $SIZE bytes" "run this again: it goes on from there"
}

# The file is here if it has its size and its sum.
close_part() {
  HAVE=$(stat -c %s -- "$PART") || refuse 1 failed "$PART is gone"
  ((HAVE == SIZE)) || refuse_cut
  if ((${#SUM_WORDS[@]})) && [[ $SUM != "$BLOB" ]]; then
    rm -f -- "$PART"
    DAMAGED+=("$BLOB")
    return
  fi
  DISK_SAID=$(mv -f -- "$PART" "$GROWING/blobs/$BLOB" 2>&1) || refuse_disk "$DISK_SAID"
  ((++ARRIVED))
}

main
