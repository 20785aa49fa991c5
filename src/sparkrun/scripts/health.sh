# What a listening port says of its engine's health.

# ADDRESS PORT PATH: prints the HTTP status of a GET, 0 when nothing answered within 1 s.
health_status() {
  HTTP_HOST=$1 HTTP_PORT=$2
  now_ms
  DEADLINE_MS=$((NOW_MS + 1000))
  http_open GET "$3"
  http_head || STATUS=0
  http_close
  echo "${STATUS:-0}"
}

# PORT [FD]: FD yields the health of a port that listens.
tell_port() {
  answer PORT "$1"
  if [[ -z $2 ]]; then
    answer PORT_STATE closed
    return
  fi
  answer PORT_STATE listening
  read -r -t 2 -u "$2" REPLY || REPLY=0
  answer HEALTH "$REPLY"
}
