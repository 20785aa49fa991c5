# Hands a stream of bytes to this host's own script and, at the same time, on to the next host, which does the same: a chain of any length
# costs about as much as one host.
#
# Parameters
#   TEXT      this script with its prelude, for the next host
#   SINK      script that takes the stream from its stdin, the same on every host
#   FEED      command whose output is the stream (default: what comes on stdin)
#   LIFELINE  1: end when stdin does (only with FEED)
#   IDLE_S    how long nothing may move before it is given up (default 60)
#   FINISH_S  how long what takes the stream may go on once it has all of it (default 1800)
#   HOSTS     array of names, of this host and of those after it
#   VALUES    array, by host, of assignments before SINK; empty on a host that only feeds
#   WAYS      array, by host, of the ssh command that reaches it from the host before
#
# Answers, each behind the name of its host and a tab: what SINK prints; RETURNED, its exit code; SSH, what ssh complains of on the way to
# that host; LOST, the exit code of that ssh; FEED, the exit code of a feed that failed, and FEED_SAID, what it complained of; BYTES, what
# has gone through this host so far, every 2 s; STALLED=1.
#
# Exit codes: 0 the stream came to its end, whatever became of it; 10 cancelled; 20 nothing moved for too long.

# As tee -p, in large pieces, which costs a third of the processor's time. arguments: file descriptors to write to
HAND_ON='
import fcntl, os, sys

takers = [int(number) for number in sys.argv[1:]]
for number in (0, *takers):
    try:
        fcntl.fcntl(number, 1031, 1 << 20)  # F_SETPIPE_SZ
    except OSError:
        pass
while takers and (piece := os.read(0, 1 << 20)):
    for number in tuple(takers):
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[os.write(number, rest):]
        except OSError:
            takers.remove(number)
'

main() {
  watch_session
  # Whoever takes the stream may leave early: the others go on.
  trap '' PIPE
  trap end_group EXIT
  NAME=${HOSTS[0]}
  OWN='' OWN_FD='' NEXT='' NEXT_FD='' FEEDER=''
  open_own
  open_next
  begin_copy
  follow_copy
  finish
}

# HOST LINE
tell_of() {
  printf '%s\t%s\n' "$1" "$2"
}

# HOST: each line of stdin, told of that host.
tell_lines() {
  local line
  while IFS= read -r line || [[ -n $line ]]; do tell_of "$1" "${2:-}$line"; done
}

open_own() {
  [[ -n ${VALUES[0]} ]] || return 0
  exec {OWN_FD}> >(take)
  OWN=$!
}

take() {
  set +e
  bash /dev/fd/9 9<<<"${VALUES[0]}"$'\n'"$SINK" 2>&1 | tell_lines "$NAME"
  tell_of "$NAME" "RETURNED=${PIPESTATUS[0]}"
}

open_next() {
  ((${#HOSTS[@]} > 1)) || return 0
  compose_next
  exec {NEXT_FD}> >(pass_on)
  NEXT=$!
  { printf '%s' "$NEXT_TEXT" >&"$NEXT_FD"; } 2>/dev/null || :
}

pass_on() {
  local status=0 words=()
  set +e
  [[ -z $OWN_FD ]] || exec {OWN_FD}>&-
  eval "words=(${WAYS[1]})"
  exec {SAID_FD}> >(tell_lines "${HOSTS[1]}" SSH=)
  SAID=$!
  "${words[@]}" bash -s 2>&"$SAID_FD"
  status=$?
  exec {SAID_FD}>&-
  wait "$SAID"
  ((status == 0)) || tell_of "${HOSTS[1]}" "LOST=$status"
}

# Sets NEXT_TEXT: a first line that reads the script in one go, then the script.
compose_next() {
  local name value text=''
  for name in TEXT SINK IDLE_S FINISH_S; do
    printf -v value '%q' "${!name}"
    text+=$name=$value$'\n'
  done
  text+="FEED='' LIFELINE=''"$'\n'
  for name in HOSTS VALUES WAYS; do
    local -n all=$name
    printf -v value '%q ' "${all[@]:1}"
    text+="$name=($value)"$'\n'
    unset -n all
  done
  text+=$TEXT
  local LC_ALL=C
  NEXT_TEXT="set +x; eval \"\$(head -c ${#text})\"; exit 70"$'\n'$text
}

begin_copy() {
  local to=()
  [[ -z $OWN_FD ]] || to+=("$OWN_FD")
  [[ -z $NEXT_FD ]] || to+=("$NEXT_FD")
  TAKERS=${#to[@]}
  # (bash 5.2 crashes on a copy of the stdin that it reads its script from.)
  if [[ -n $FEED ]]; then
    exec {IN_FD}< <(feed)
    FEEDER=$!
    hand_on "${to[@]}" <&"$IN_FD" &
  else
    hand_on "${to[@]}" <&0 &
  fi
  COPY=$!
  [[ -z ${IN_FD:-} ]] || exec {IN_FD}<&-
  [[ -z $OWN_FD ]] || exec {OWN_FD}>&-
  [[ -z $NEXT_FD ]] || exec {NEXT_FD}>&-
}

# FILE_DESCRIPTORS...: ends when all of them are gone.
hand_on() {
  if find_tool python3 && "$REPLY" -I -S -c '' 2>/dev/null; then
    exec "$REPLY" -I -S -c "$HAND_ON" "$@" 2>/dev/null
  fi
  local FILES=("${@/#//dev/fd/}")
  exec 2>/dev/null
  exec tee -p "${FILES[@]:1}" >&"$1"
}

feed() {
  [[ -z $OWN_FD ]] || exec {OWN_FD}>&-
  [[ -z $NEXT_FD ]] || exec {NEXT_FD}>&-
  trap - PIPE
  exec bash -c "$FEED" </dev/null 2> >(tell_lines "$NAME" FEED_SAID= >&"$TOLD_FD")
}

follow_copy() {
  local ticks=0 last='' still=0
  while alive "$COPY"; do
    nap 0.1
    ! session_gone || exit 10
    ((++ticks % 20 == 0)) || continue
    count_bytes
    [[ $REPLY == "$last" ]] || { last=$REPLY still=0 && tell_of "$NAME" "BYTES=$last"; }
    ((still += 2, still < ${IDLE_S:-60})) || { tell_of "$NAME" STALLED=1 && exit 20; }
  done
}

# What every taker has been given.
count_bytes() {
  local key value
  REPLY=0
  while read -r key value; do [[ $key != wchar: ]] || REPLY=$((value / TAKERS)); done 2>/dev/null <"/proc/$COPY/io" || :
}

# The takers have all they get; what they do with it takes its own time, such as that of the disk.
finish() {
  local status=0 pid last=$((SECONDS + ${FINISH_S:-1800}))
  if [[ -n $FEEDER ]]; then
    wait "$FEEDER" || status=$?
    ((status == 0)) || tell_of "$NAME" "FEED=$status"
  fi
  for pid in $OWN $NEXT; do
    while alive "$pid"; do
      nap 0.05
      ! session_gone || exit 10
      ((SECONDS < last)) || { tell_of "$NAME" STALLED=1 && exit 20; }
    done
  done
}

# Whatever ends this ends all that it started.
end_group() {
  local pid
  trap '' TERM
  if process_stat "$$" && [[ $STAT_GROUP == "$$" ]]; then
    kill -TERM 0 2>/dev/null || :
  else
    for pid in "${COPY:-}" $OWN $NEXT $FEEDER; do [[ -z $pid ]] || kill "$pid" 2>/dev/null || :; done
  fi
}

exec {TOLD_FD}>&1
main
