# The log of a workload's current launch, as it is: no KEY=value.
#
# Parameters
#   NAME      workload name
#   LINES     no more than the last so many lines (empty: all of this launch)
#   SKIP      without the first so many lines of this launch (default 0)
#   FOLLOW    1: go on with what comes, until the workload, or the session that asked, has ended
#   LIFELINE  1: the caller keeps stdin open for as long as it listens
#   CACHE     sparkrun cache folder (default: this host's own)
#
# Exit codes: 0 printed; 2 wrong parameters; 3 no such log (the reason is on stderr).

main() {
  valid_name "$NAME" || give_up 2 "'$NAME' is not a workload name"
  [[ $LINES =~ ^[0-9]{0,9}$ && $SKIP =~ ^[0-9]{0,9}$ ]] || give_up 2 "LINES and SKIP are whole numbers, not '$LINES' and '$SKIP'"
  watch_session
  resolve_places
  load_workload "$NAME" || load_log_place "$NAME"
  find_log_part "$LINES" "${SKIP:-0}" || give_up 3 "no log of $NAME on $HOSTNAME ($W_LOG)"
  if [[ $FOLLOW == 1 ]]; then
    follow
  else
    tail -c "+$((LOG_FROM + 1))" -- "$W_LOG" </dev/null
  fi
}

give_up() {
  printf '%s\n' "$2" >&2
  exit "$1"
}

# Two tails: the one that prints reads to the end and stops once the other is gone; the other goes with this script.
follow() {
  local first=${W_PID:-}
  tail -f -s 0.5 --pid=$$ -- /dev/null </dev/null >/dev/null 2>&1 &
  SENTINEL=$!
  tail -c "+$((LOG_FROM + 1))" -F -s 0.1 --pid="$SENTINEL" -- "$W_LOG" </dev/null 2>/dev/null &
  PRINTER=$!
  trap 'kill "$SENTINEL" "$PRINTER" 2>/dev/null || :' EXIT
  trap 'exit 143' TERM INT HUP
  while kill -0 "$PRINTER" 2>/dev/null && same_launch_runs "$first"; do
    ! session_gone || exit 0
    nap 0.1
  done
  kill "$SENTINEL" 2>/dev/null || :
  wait "$SENTINEL" "$PRINTER" 2>/dev/null || :
}

same_launch_runs() {
  unset MEMBERS
  load_workload "$NAME" && [[ $W_PID == "$1" ]] || return 1
  judge_workload
  [[ $W_STATE == running ]]
}

main
