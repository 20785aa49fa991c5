# Lets docker read images as a whole, which finds layers that are missing or damaged.
#
# Parameters
#   IMAGES    array of ids
#   LIFELINE  1: end when stdin does
#
# Answers, in section VERIFY: BYTES read so far, every half second; then once for each image OK (id) or WRONG ("ID<TAB>reason"). REASON, MESSAGE and
# HINT when docker cannot be asked.
#
# Exit codes (REASON): 0 read; 3 to 7 as docker_start; 10 cancelled.

main() {
  local image
  section VERIFY
  watch_session
  need_docker
  ask_docker 20 version -f '{{.Server.Version}}' || refuse_docker "$?" "$DOCKER_SAID"
  DONE=0
  for image in "${IMAGES[@]}"; do read_image "$image"; done
  end_section
}

# ID
read_image() {
  local size='' status=0 said
  exec {SAID_FD}<> <(:)
  exec {COUNT_FD}< <(exec "$DOCKER" save -- "$1" 2>&"$SAID_FD" </dev/null | wc -c)
  READER=$!
  trap 'end_reader' EXIT
  until IFS= read -r -t 0.5 -u "$COUNT_FD" size; do
    (($? > 128)) || break
    tell_progress
  done
  wait "$READER" || status=$?
  trap - EXIT
  exec {COUNT_FD}<&-
  said=
  ! read -r -t 0 -u "$SAID_FD" || IFS= read -r -d '' -t 0.02 -u "$SAID_FD" said || :
  exec {SAID_FD}<&-
  SAID_FD=
  ((DONE += ${size:-0}, 1))
  if ((status == 0)); then
    answer OK "$1"
  else
    said=${said#*Error response from daemon: }
    answer WRONG "$1"$'\t'"${said%%$'\n'*}"
  fi
  answer BYTES "$DONE"
}

# What the counting program has read is nowhere but in /proc.
tell_progress() {
  local pid at=0
  ! session_gone || refuse 10 cancelled "nobody waits for the answer any more"
  find_readers
  for pid in "${READERS[@]}"; do
    first_line "/proc/$pid/comm" && [[ $REPLY == wc ]] && slurp "/proc/$pid/io" || continue
    [[ ! $REPLY =~ rchar:\ ([0-9]+) ]] || at=${BASH_REMATCH[1]}
  done
  answer BYTES "$((DONE + at))"
}

# Sets READERS to the processes of the pipe.
find_readers() {
  local dir
  READERS=("$READER")
  for dir in /proc/[0-9]*; do
    ! process_stat "${dir##*/}" || [[ $STAT_PARENT != "$READER" ]] || READERS+=("${dir##*/}")
  done
}

end_reader() {
  find_readers
  kill "${READERS[@]}" 2>/dev/null || :
}

main
