# The log of a container, as it is: no KEY=value. A container is one launch, so all of its log is of this launch.
#
# Parameters
#   NAME      container name
#   LINES     no more than the last so many lines (empty: all)
#   SKIP      without the first so many lines (default 0)
#   SINCE     only what came since: ISO 8601, or an age such as 10m
#   DATED     1: each line begins with its time
#   FOLLOW    1: go on with what comes, until the container, or the session that asked, has ended
#   LIFELINE  1: the caller keeps stdin open for as long as it listens
#
# Exit codes: 0 printed, or the container has been removed meanwhile; 1 docker broke off; 2 wrong parameters; 3 to 7 as docker_start; 8 no such
# container. The reason is on stderr.

main() {
  local options=()
  [[ $LINES =~ ^[0-9]{0,9}$ && $SKIP =~ ^[0-9]{0,9}$ ]] || give_up 2 "LINES and SKIP are whole numbers, not '$LINES' and '$SKIP'"
  [[ $SINCE =~ ^[0-9A-Za-z:.+-]*$ ]] || give_up 2 "SINCE is neither a moment nor an age: $SINCE"
  { check_container; } >&2
  watch_session
  [[ -z $SINCE ]] || options+=(--since "$SINCE")
  [[ $DATED != 1 ]] || options+=(--timestamps)
  # Lines to skip are counted from the start, so that the last ones have to be told apart here.
  if ((${SKIP:-0} == 0)) && [[ -n $LINES ]]; then options+=(--tail "$LINES"); fi
  if [[ $FOLLOW == 1 ]]; then
    follow "${options[@]}"
  elif ((${SKIP:-0})) && [[ -n $LINES ]]; then
    print_logs "${options[@]}" | tail -n "+$((SKIP + 1))" | tail -n "$LINES"
  elif ((${SKIP:-0})); then
    print_logs "${options[@]}" | tail -n "+$((SKIP + 1))"
  else
    print_logs "${options[@]}"
  fi
}

give_up() {
  printf '%s\n' "$2" >&2
  exit "$1"
}

check_container() {
  require_container_name "$NAME"
  need_docker
  inspect_named "$NAME" || refuse 8 no_container "there is no container $NAME on $HOSTNAME"
}

print_logs() {
  "$DOCKER" logs "$@" -- "$C_ID" </dev/null 2>&1
}

# docker ends by itself with the container; here it is ended with the session.
follow() {
  if ((${SKIP:-0})); then
    exec {LOG_FD}> >(tail -n "+$((SKIP + 1))")
  else
    exec {LOG_FD}>&1
  fi
  "$DOCKER" logs -f "$@" -- "$C_ID" </dev/null >&"$LOG_FD" 2>&1 &
  PRINTER=$!
  exec {LOG_FD}>&-
  trap 'kill "$PRINTER" 2>/dev/null || :' EXIT
  trap 'exit 143' TERM INT HUP
  while kill -0 "$PRINTER" 2>/dev/null; do
    ! session_gone || exit 0
    nap 0.1
  done
  local status=0
  wait "$PRINTER" || status=$?
  trap - EXIT
  ((status == 0)) || { tell_break "$status"; } >&2
  wait
}

# EXIT_CODE
tell_break() {
  inspect_named "$NAME" || exit 0
  refuse 1 log_broken "docker ended the log of $NAME with exit code $1"
}

main
