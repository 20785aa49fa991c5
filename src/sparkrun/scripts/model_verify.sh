# Reads files of the Hugging Face hub cache and says whether they hold what they should.
#
# Parameters
#   HUB       folder of this host's Hugging Face hub cache
#   WANTED    array of "KIND VALUE PATH", path from the hub: sha256 and its value; git, the sha1 that git gives it; or safetensors (value
#             -), whose header tells how long it has to be
#   JOBS      how many to read at the same time (default: one for each two processors, 4 at most)
#   LIFELINE  1: end when stdin does
#
# Answers, in section VERIFY: BYTES read so far, every half second; then once for each file OK, WRONG or UNREADABLE with its path, and for a wrong length
# SIZE "EXPECTED PATH".
#
# Exit codes (REASON): 0 read; 2 bad_parameter; 10 cancelled.

main() {
  section VERIFY
  watch_session
  CDPATH='' cd -- "$HUB" 2>/dev/null || refuse 2 bad_parameter "$HUB on $HOSTNAME cannot be read"
  choose_jobs
  NEXT=0 DONE=0 TOLD_MS=0 QUEUE=()
  declare -gA FD_OF=() PATH_OF=() VALUE_OF=() SIZE_OF=() SEEN_OF=()
  trap 'end_readers' EXIT
  while begin_readers && ((${#QUEUE[@]})); do
    await_reader "${QUEUE[0]}"
    QUEUE=("${QUEUE[@]:1}")
  done
  trap - EXIT
  answer BYTES "$DONE"
  end_section
}

choose_jobs() {
  [[ ! $JOBS =~ ^[1-9][0-9]?$ ]] || return 0
  JOBS=$(($(nproc) / 2))
  ((JOBS <= 4)) || JOBS=4
  ((JOBS >= 1)) || JOBS=1
}

end_readers() {
  ((${#QUEUE[@]} == 0)) || kill "${QUEUE[@]}" 2>/dev/null || :
}

# Keeps JOBS readers at work.
begin_readers() {
  local kind value path
  while ((${#QUEUE[@]} < JOBS && NEXT < ${#WANTED[@]})); do
    read -r kind value path <<<"${WANTED[NEXT]%%$'\n'*}"
    path=${WANTED[NEXT]#"$kind $value "}
    ((++NEXT))
    case $kind in
      sha256 | git) begin_reader "$kind" "$value" "$path" ;;
      safetensors) check_length "$path" ;;
      *) refuse 2 bad_parameter "WANTED holds an unknown kind: $kind" ;;
    esac
  done
}

# KIND VALUE PATH
begin_reader() {
  local fd pid size accessed
  read -r size accessed <<<"$(stat -L -c '%s %.X' -- "$3" 2>/dev/null)" || :
  if [[ -z $size || ! -r $3 ]]; then
    answer UNREADABLE "$3"
    return
  fi
  if [[ $1 == sha256 ]]; then
    exec {fd}< <(exec sha256sum 2>/dev/null <"$3")
    pid=$!
  else
    exec {fd}< <(git_sum "$size" 2>/dev/null <"$3")
    pid=$!
  fi
  QUEUE+=("$pid")
  FD_OF[$pid]=$fd PATH_OF[$pid]=$3 VALUE_OF[$pid]=$2 SIZE_OF[$pid]=$size SEEN_OF[$pid]=$accessed
}

# SIZE: what git calls the file on stdin.
git_sum() {
  { printf 'blob %s\0' "$1" && cat; } | sha1sum
}

# PID
await_reader() {
  local line='' status=0 path=${PATH_OF[$1]} fd=${FD_OF[$1]}
  while :; do
    status=0
    IFS= read -r -t 0.5 -u "$fd" line || status=$?
    ((status > 128)) || break
    tell_progress
  done
  exec {fd}<&-
  ((DONE += SIZE_OF[$1], 1))
  if [[ -z $line ]]; then
    answer UNREADABLE "$path"
  elif [[ ${line%% *} == "${VALUE_OF[$1]}" ]]; then
    answer OK "$path"
  else
    answer WRONG "$path"
  fi
  forget_reading "$path" "${SEEN_OF[$1]}"
  tell_progress
}

# PATH ACCESSED: looking after a file is no use of it, and its pages are wanted by others.
forget_reading() {
  touch -c -a -d "@$2" -- "$1" 2>/dev/null || :
  dd if="$1" iflag=nocache count=0 status=none 2>/dev/null || :
}

tell_progress() {
  local pid sum=$DONE at
  ! session_gone || refuse 10 cancelled "nobody waits for the answer any more"
  now_ms
  ((NOW_MS >= TOLD_MS + 500)) || return 0
  TOLD_MS=$NOW_MS
  for pid in "${QUEUE[@]}"; do
    slurp "/proc/$pid/fdinfo/0" && [[ $REPLY =~ pos:[[:space:]]*([0-9]+) ]] || continue
    at=${BASH_REMATCH[1]}
    ((sum += at < SIZE_OF[$pid] ? at : SIZE_OF[$pid], 1))
  done
  answer BYTES "$sum"
}

# PATH: a safetensors file is 8 bytes with the length of its header, the header, and the tensors up to the last of their ends.
check_length() {
  local size header line last=0 LC_ALL=C
  size=$(stat -L -c %s -- "$1" 2>/dev/null) && header=$(od -An -tu8 -N8 -- "$1" 2>/dev/null) || { answer UNREADABLE "$1" && return; }
  header=${header//[[:space:]]/}
  if [[ ! $header =~ ^[0-9]{1,9}$ ]] || ((header + 8 > size)); then
    answer WRONG "$1"
    return
  fi
  while IFS= read -r line; do
    [[ $line =~ ([0-9]+)\] ]] && ((BASH_REMATCH[1] > last)) && last=${BASH_REMATCH[1]}
  done < <(head -c "$((header + 8))" -- "$1" | tail -c "+9" | grep -oE '"data_offsets": ?\[[0-9]{1,18}, ?[0-9]{1,18}\]')
  if ((header + 8 + last == size)); then
    answer OK "$1"
  else
    answer SIZE "$((header + 8 + last)) $1"
  fi
}

main
