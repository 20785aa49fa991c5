# Waits until a Ray cluster has its nodes, by `ray status` in the container of its head.
#
# Parameters
#   WATCH_CONTAINER  container of the head, which must stay alive
#   NODES            how many nodes have to be there
#   ADDRESS          address of the head, such as 10.0.0.1:46379 (default: the one that runs in the container)
#   TIMEOUT_S        how long to wait (default 120)
#   LIFELINE         1: the caller keeps stdin open for as long as it listens
#   CACHE            sparkrun cache folder (default: this host's own)
#
# Answers, in section WAIT: ALIVE whenever the number of nodes changes, ELAPSED_MS every 5 s; READY=1; or READY=0 with REASON (died, gone,
# replaced, ray_timeout, bad_parameter), MESSAGE, and EXIT_CODE of what died.
#
# Exit codes: 0 they are there; 1 they are not; 2 wrong parameters.

WATCH_NAME=

main() {
  section WAIT
  begin_clock
  ALIVE='' SAID='' STATUS_FD='' ASK_AT_MS=0
  check_parameters
  to_ms "$TIMEOUT_S"
  LAST_MS=$((BEGAN_MS + REPLY))
  watch_session
  begin_watch
  until nodes_there; do
    look_around
    ((NOW_MS < LAST_MS)) || fail ray_timeout "${ALIVE:-0} of $NODES nodes have joined Ray on $HOSTNAME after $TIMEOUT_S s${SAID:+: $SAID}"
    nap 0.05
  done
  answer READY 1
  end_section
}

check_parameters() {
  TIMEOUT_S=${TIMEOUT_S:-120}
  [[ $WATCH_CONTAINER =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{1,127}$ ]] || bad_parameter "'$WATCH_CONTAINER' is not a container name"
  [[ $NODES =~ ^[1-9][0-9]{0,4}$ ]] || bad_parameter "NODES is no number of nodes: $NODES"
  [[ $ADDRESS =~ ^[]A-Za-z0-9._:[]*$ ]] || bad_parameter "ADDRESS is no address: $ADDRESS"
  is_seconds "$TIMEOUT_S" || bad_parameter "TIMEOUT_S is no number of seconds: $TIMEOUT_S"
}

bad_parameter() {
  answer READY 0
  refuse 2 bad_parameter "$1"
}

# REASON MESSAGE
fail() {
  answer READY 0
  refuse 1 "$1" "$2"
}

# Asks in the background, one at a time: ray takes a second or two to answer.
nodes_there() {
  local lines=()
  if [[ -z $STATUS_FD ]]; then
    ((NOW_MS >= ASK_AT_MS)) || return 1
    exec {STATUS_FD}< <(quietly ray_status)
    return 1
  fi
  read -r -t 0 -u "$STATUS_FD" || return 1
  mapfile -t lines <&"$STATUS_FD"
  exec {STATUS_FD}<&-
  STATUS_FD='' ASK_AT_MS=$((NOW_MS + 200))
  count_nodes "${lines[@]}"
  ((REPLY >= NODES))
}

# Its output in one piece, so that a reader never waits for the rest.
ray_status() {
  local said
  said=$(timeout -k 1 20 docker exec ${ADDRESS:+-e "RAY_ADDRESS=$ADDRESS"} "$WATCH_CONTAINER" ray status 2>&1) || :
  printf '%s\n' "$said"
}

# LINE...: nodes of the sections before "Pending:", in REPLY; without any, the last line is kept as the reason.
count_nodes() {
  local line here='' count=0
  for line in "$@"; do
    case $line in
      Active:* | Idle:* | Healthy:*) here=1 ;;
      Pending:*) here='' ;;
      *) [[ -z $here || ! $line =~ ^[[:space:]]+([0-9]+)[[:space:]] ]] || ((count += BASH_REMATCH[1], 1)) ;;
    esac
  done
  SAID=
  ((count)) || SAID=${*: -1}
  [[ $count == "$ALIVE" ]] || answer ALIVE "$count"
  ALIVE=$count REPLY=$count
}

main
