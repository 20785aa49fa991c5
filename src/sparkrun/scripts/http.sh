# HTTP over /dev/tcp: one exchange at a time, in a child that can be ended at any moment, since bash cannot bound a connect.
#
# A caller sets HTTP_HOST, HTTP_PORT and DEADLINE_MS (may be shadowed by a local one), and may define on_tick, which is called at
# least every TICK_S while waiting.

# Lengths count bytes.
LC_ALL=C
TICK_S=0.1
MAX_BODY_BYTES=1048576
HTTP_PID='' HTTP_FD=''

on_tick() { :; }

# METHOD PATH [BODY]: begins an exchange. Without arguments it only connects, and says "open".
http_open() {
  http_close
  exec {HTTP_FD}< <(quietly http_child "$@")
  HTTP_PID=$!
  CHUNKED='' LENGTH='' RETRY_AFTER='' STATUS='' ENDED=''
}

http_child() {
  local socket
  exec {socket}<>"/dev/tcp/$HTTP_HOST/$HTTP_PORT" || exit 7
  if (($# == 0)); then
    echo open
    exit
  fi
  http_request "$@" >&"$socket"
  exec cat <&"$socket"
}

# METHOD PATH [BODY]
http_request() {
  local host=$HTTP_HOST
  [[ $host != *:* ]] || host=[$host]
  printf '%s %s HTTP/1.1\r\nHost: %s:%s\r\nAccept: */*\r\nConnection: close\r\n' "$1" "$2" "$host" "$HTTP_PORT"
  [[ -z ${API_KEY:-} ]] || printf 'Authorization: Bearer %s\r\n' "$API_KEY"
  [[ -z ${3:-} ]] || printf 'Content-Type: application/json\r\nContent-Length: %d\r\n' "${#3}"
  printf '\r\n%s' "${3:-}"
}

# Ends the exchange, wherever it is.
http_close() {
  [[ -z $HTTP_PID ]] || kill -KILL "$HTTP_PID" 2>/dev/null || :
  [[ -z $HTTP_FD ]] || exec {HTTP_FD}<&-
  HTTP_PID='' HTTP_FD=''
}

# Reads the status line and the headers: sets STATUS, CHUNKED, LENGTH and RETRY_AFTER.
# 1: no answer (refused, reset, or not HTTP); 2: not before the deadline.
http_head() {
  local line
  while :; do
    http_line || return
    [[ $LINE =~ ^HTTP/1\.[01]\ ([1-9][0-9][0-9])(\ |$) ]] || return 1
    STATUS=${BASH_REMATCH[1]}
    while :; do
      http_line || return
      [[ -n $LINE ]] || break
      line=${LINE,,}
      case $line in
        transfer-encoding:*chunked*) CHUNKED=1 ;;
        content-length:*) [[ ! $line =~ ([0-9]{1,15})[[:space:]]*$ ]] || LENGTH=$((10#${BASH_REMATCH[1]})) ;;
        retry-after:*) [[ ! $line =~ :[[:space:]]*([0-9]{1,9})[[:space:]]*$ ]] || RETRY_AFTER=$((10#${BASH_REMATCH[1]})) ;;
      esac
    done
    [[ $STATUS == 1?? ]] || return 0
  done
}

# Next piece of the body in PIECE. 1: there is no more, and ENDED tells a whole body (1) from one that may be cut ('');
# 2: not before the deadline.
http_piece() {
  PIECE=
  if [[ -n $CHUNKED ]]; then
    http_chunk
  elif [[ -n $LENGTH ]]; then
    ((LENGTH)) || { ENDED=1 && return 1; }
    http_bytes "$((LENGTH < 4096 ? LENGTH : 4096))" || return
    ((LENGTH -= ${#DATA}, 1))
    PIECE=$DATA
  else
    http_line || return
    PIECE=$LINE$'\n'
  fi
}

http_chunk() {
  local size
  http_line || return
  size=${LINE%%[; ]*}
  [[ $size =~ ^[0-9A-Fa-f]{1,7}$ ]] || return 1
  size=$((16#$size))
  ((size)) || { ENDED=1 && return 1; }
  http_bytes "$size" || return
  PIECE=$DATA
  http_line || return
}

# The whole body, up to MAX_BODY_BYTES of it, in BODY. 2: not before the deadline.
http_body() {
  local status=0
  BODY=
  while ((${#BODY} < MAX_BODY_BYTES)); do
    http_piece || { status=$? && break; }
    BODY+=$PIECE
  done
  ((status != 2)) || return 2
}

# Next line in LINE, without its end. 1: end of the stream; 2: not before the deadline.
http_line() {
  local part
  LINE=
  while http_read; do
    LINE+=$part
    [[ $READ_STATUS != 0 ]] || { LINE=${LINE%$'\r'} && return 0; }
  done
  LINE+=$part
  ((READ_STATUS == 1)) || return 2
  [[ -n $LINE ]]
}

# COUNT: exactly that many bytes in DATA. 1: the stream ended before; 2: not before the deadline.
# Not with -N: bash reads ahead for it, and forgets what it has when TICK_S ends amid that.
http_bytes() {
  local part
  DATA=
  while http_read -d "" -n "$(($1 - ${#DATA}))"; do
    DATA+=$part
    ((${#DATA} < $1)) || return 0
  done
  DATA+=$part
  return "$READ_STATUS"
}

# One read of at most TICK_S into the caller's part. True: go on (READ_STATUS 0: read all that was asked for); false: READ_STATUS
# 1 says end of the stream, 2 deadline.
http_read() {
  part='' READ_STATUS=0
  IFS= read -r -t "$TICK_S" -u "$HTTP_FD" "$@" part || READ_STATUS=$?
  tick || { READ_STATUS=2 && return 1; }
  ((READ_STATUS == 0 || READ_STATUS > 128)) || { READ_STATUS=1 HTTP_PID='' && return 1; }
}

# Whether there is time left. Looks around first, at most every TICK_S.
tick() {
  now_ms
  if ((NOW_MS >= ${NEXT_TICK_MS:-0})); then
    on_tick
    now_ms
    NEXT_TICK_MS=$((NOW_MS + 100))
  fi
  ((NOW_MS < DEADLINE_MS))
}

# TEXT: as the inside of a JSON string.
json_escape() {
  local text=$1 at char code
  text=${text//'\'/'\\'}
  text=${text//'"'/'\"'}
  text=${text//$'\n'/'\n'}
  text=${text//$'\r'/'\r'}
  text=${text//$'\t'/'\t'}
  REPLY=$text
  [[ $text == *[$'\x01'-$'\x1f']* ]] || return 0
  REPLY=
  for ((at = 0; at < ${#text}; at++)); do
    char=${text:at:1}
    printf -v code '%d' "'$char"
    ((code < 1 || code > 31)) || printf -v char '\\u%04x' "$code"
    REPLY+=$char
  done
}
