# Waits until a TCP port listens, or until what should open it is dead.
#
# Parameters
#   PORT             the port
#   HOST             addresses, parted by blanks, at all of which it has to listen (default: this host, whatever the address)
#   TIMEOUT_S        how long to wait (default 120)
#   WATCH_NAME       workload of the local executor that must stay alive
#   WATCH_CONTAINER  docker container that must stay alive
#   LIFELINE         1: the caller keeps stdin open for as long as it listens
#   CACHE            sparkrun cache folder (default: this host's own)
#
# Answers, in section WAIT: ELAPSED_MS every 5 s; OPEN_MS and READY=1; or READY=0 with REASON (died, gone, replaced, docker_gone, port_timeout,
# bad_parameter), MESSAGE, and EXIT_CODE of what died.
#
# Exit codes: 0 it listens; 1 it does not; 2 wrong parameters.

main() {
  section WAIT
  begin_clock
  check_parameters
  to_ms "$TIMEOUT_S"
  LAST_MS=$((BEGAN_MS + REPLY))
  watch_session
  begin_watch
  until listens; do
    look_around
    ((NOW_MS < LAST_MS)) || fail port_timeout "nothing listens on port $PORT of ${PLACES[*]:-$HOSTNAME} after $TIMEOUT_S s"
    nap 0.05
  done
  now_ms
  answer OPEN_MS "$((NOW_MS - BEGAN_MS))"
  answer READY 1
  end_section
}

check_parameters() {
  TIMEOUT_S=${TIMEOUT_S:-120} HOST=${HOST//[][]/}
  [[ $PORT =~ ^[1-9][0-9]{0,4}$ ]] && ((PORT < 65536)) || bad_parameter "PORT is no TCP port (1-65535): $PORT"
  [[ $HOST =~ ^[A-Za-z0-9._:%\ -]*$ ]] || bad_parameter "HOST is no address: $HOST"
  read -r -a PLACES <<<"$HOST"
  ((${#PLACES[@]})) || PLACES=('')
  is_seconds "$TIMEOUT_S" || bad_parameter "TIMEOUT_S is no number of seconds: $TIMEOUT_S"
  [[ -z $WATCH_NAME ]] || valid_name "$WATCH_NAME" || bad_parameter "'$WATCH_NAME' is not a workload name"
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

# Whether it listens everywhere; a place where it once did is not asked again. A server that expects one kind of peer takes whoever
# connects for one: where the address is this host's own, a look at the kernel's tables has to do.
listens() {
  local place still=()
  load_sockets
  for place in "${PLACES[@]}"; do
    if [[ -z $place ]] || own_address "$place"; then
      tcp_listener "$PORT" || still+=("$place")
    else
      connects "$place" || still+=("$place")
    fi
  done
  PLACES=("${still[@]}")
  ((${#PLACES[@]} == 0))
}

# ADDRESS: whether it is one of this host's, by the kernel's tables.
own_address() {
  local table
  [[ $1 != localhost && $1 != 127.* && $1 != ::1 && $1 != "$HOSTNAME" ]] || return 0
  slurp /proc/net/fib_trie || :
  table=$REPLY
  # |-- ADDRESS, and on the next line what it is.
  [[ $table == *"-- $1"$'\n'* && ${table#*"-- $1"$'\n'} =~ ^\ */32\ host\ LOCAL ]]
}

# ADDRESS: a connect may take its time: it is made in a child, which is given 2 s.
connects() {
  local said='' child fd status until_ms=$((NOW_MS + 2000))
  HTTP_HOST=$1 HTTP_PORT=$PORT
  exec {fd}< <(quietly http_child)
  child=$!
  while :; do
    status=0
    IFS= read -r -t 0.1 -u "$fd" said || status=$?
    ((status > 128)) || break
    look_around
    ((NOW_MS < until_ms)) || break
  done
  kill -KILL "$child" 2>/dev/null || :
  exec {fd}<&-
  [[ $said == open ]]
}

main
