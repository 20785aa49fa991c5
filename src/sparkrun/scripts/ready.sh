# Watches a launch until the engine answers, on the host of its head: port open, health, first token. Every line is printed when it
# is known.
#
# Parameters
#   HOST PORT            where it will listen (default host 127.0.0.1)
#   HEALTH_PATH          path that answers 200 when healthy (default /health)
#   INFERENCE            chat (default), completions, embeddings or none
#   INFERENCE_FALLBACK   embeddings: tried once when the engine has no such endpoint (400, 404, 405)
#   SERVED_MODEL         model id to ask for (default: the first of /v1/models)
#   PROMPT               (default "Say hello.")
#   API_KEY              sent as Bearer; never printed
#   PORT_TIMEOUT_S HEALTH_TIMEOUT_S INFERENCE_TIMEOUT_S
#                        budget of each stage (default 1800, 900, 1200)
#   WATCH_NAME           workload of the local executor that must stay alive
#   WATCH_CONTAINER      docker container that must stay alive
#   POLL_MS              pause between two looks (default 100)
#   RETRY_MS             first pause before a busy engine is asked again (default 2000); doubles up to 30 s
#   LIFELINE             1: the caller keeps stdin open for as long as it listens
#   CACHE                sparkrun cache folder (default: this host's own)
#
# Answers, in section READY:
#   STAGE=port, PORT_OPEN_MS, STAGE=health, HEALTH_MS, STAGE=inference, STYLE, FIRST_TOKEN_MS
#     PORT_OPEN_MS and HEALTH_MS count from the start of this script, FIRST_TOKEN_MS from the request that was answered
#   HTTP_STATUS whenever a refused attempt's status changes; ELAPSED_MS every 5 s, which also ends the script when nobody listens
#   READY=1, or READY=0 with REASON:
#     died (EXIT_CODE when it is known), gone (record or container removed, or being stopped), replaced (another process or
#     container has the name), docker_gone (whether it runs cannot be told any more), port_timeout, health_timeout, inference_timeout, http_<status>, no_token (a whole reply without one),
#     bad_parameter; and BODY, the first 300 characters of the reply, and MESSAGE
#
# Exit codes: 0 ready; 1 not ready; 2 wrong parameters.

MAX_EVENT_BYTES=65536
# OpenAI-style keys whose text is a token, and an embedding's numbers or base64.
TOKEN='"(content|reasoning_content|reasoning|text)"[[:space:]]*:[[:space:]]*"[^"]'
EMBEDDING='"embedding"[[:space:]]*:[[:space:]]*(\[[[:space:]]*-?[0-9]|"[^"])'
FINISHED='\[DONE\]|"finish_reason"[[:space:]]*:[[:space:]]*"'

main() {
  section READY
  begin_clock
  DEADLINE_MS=$((NOW_MS + 1)) SEEN_STATUS=''
  check_parameters
  watch_session
  begin_watch
  trap 'http_close; end_watch' EXIT
  stage port "$PORT_TIMEOUT_S"
  wait_port
  since "$BEGAN_MS" PORT_OPEN_MS
  stage health "$HEALTH_TIMEOUT_S"
  wait_health
  since "$BEGAN_MS" HEALTH_MS
  if [[ $INFERENCE != none ]]; then
    stage inference "$INFERENCE_TIMEOUT_S"
    wait_inference
  fi
  # It answers, but whether its container goes on cannot be told: that is found out first.
  while [[ -n $SILENT_MS ]]; do
    nap 0.1
    look_around
  done
  answer READY 1
  end_section
}

check_parameters() {
  local budget
  HTTP_HOST=${HOST:-127.0.0.1} HTTP_PORT=$PORT HEALTH_PATH=${HEALTH_PATH:-/health} INFERENCE=${INFERENCE:-chat} POLL_MS=${POLL_MS:-100}
  RETRY_MS=${RETRY_MS:-2000}
  PORT_TIMEOUT_S=${PORT_TIMEOUT_S:-1800} HEALTH_TIMEOUT_S=${HEALTH_TIMEOUT_S:-900} INFERENCE_TIMEOUT_S=${INFERENCE_TIMEOUT_S:-1200}
  HTTP_HOST=${HTTP_HOST#[} HTTP_HOST=${HTTP_HOST%]}
  [[ $HTTP_HOST =~ ^[A-Za-z0-9._:%-]+$ ]] || bad_parameter "HOST is no address: $HTTP_HOST"
  [[ $PORT =~ ^[1-9][0-9]{0,4}$ ]] && ((PORT < 65536)) || bad_parameter "PORT is no TCP port (1-65535): $PORT"
  [[ $HEALTH_PATH =~ ^/[!-~]*$ ]] || bad_parameter "HEALTH_PATH is no path: $HEALTH_PATH"
  [[ $INFERENCE =~ ^(chat|completions|embeddings|none)$ ]] || bad_parameter "INFERENCE is not chat, completions, embeddings or none: $INFERENCE"
  [[ $INFERENCE_FALLBACK =~ ^(|embeddings)$ ]] || bad_parameter "INFERENCE_FALLBACK is not embeddings: $INFERENCE_FALLBACK"
  [[ $API_KEY != *[$'\r\n']* ]] || bad_parameter "API_KEY holds a line break"
  for budget in POLL_MS RETRY_MS; do
    [[ ${!budget} =~ ^[1-9][0-9]{0,5}$ ]] || bad_parameter "$budget is no number of milliseconds: ${!budget}"
  done
  for budget in PORT_TIMEOUT_S HEALTH_TIMEOUT_S INFERENCE_TIMEOUT_S; do
    is_seconds "${!budget}" || bad_parameter "$budget is no number of seconds: ${!budget}"
  done
  [[ -z $WATCH_NAME ]] || valid_name "$WATCH_NAME" || bad_parameter "'$WATCH_NAME' is not a workload name"
}

bad_parameter() {
  answer READY 0
  refuse 2 bad_parameter "$1"
}

# NAME SECONDS
stage() {
  now_ms
  to_ms "$2"
  DEADLINE_MS=$((NOW_MS + REPLY)) SEEN_STATUS=''
  answer STAGE "$1"
}

# BEGIN_MS KEY
since() {
  now_ms
  answer "$2" "$((NOW_MS - $1))"
}

# REASON MESSAGE: not ready.
fail() {
  http_close
  answer READY 0
  refuse 1 "$1" "$2"
}

# STAGE MESSAGE
timed_out() {
  fail "$1_timeout" "$2"
}

# MS: waits, looking around, or until the deadline (then false).
pause() {
  local until_ms left
  now_ms
  until_ms=$((NOW_MS + $1 < DEADLINE_MS ? NOW_MS + $1 : DEADLINE_MS))
  while ((NOW_MS < until_ms)); do
    left=$((until_ms - NOW_MS < 100 ? until_ms - NOW_MS : 100))
    printf -v left '0.%03d' "$left"
    nap "$left"
    tick || return 1
  done
  ((NOW_MS < DEADLINE_MS))
}

# --- stages ----------------------------------------------------------------------------------------------------------------------

wait_port() {
  until may_connect && connects; do
    pause "$POLL_MS" || timed_out port "nothing listens on port $PORT of $HOSTNAME after $PORT_TIMEOUT_S s"
  done
}

# A connect to a local port of the range for outgoing connections can meet itself, and would then look like a server and keep the
# engine from the port: there, only a port that is seen to listen is tried.
may_connect() {
  local low=32768 high=60999
  load_sockets
  ! tcp_listener "$PORT" || return 0
  ! first_line /proc/sys/net/ipv4/ip_local_port_range || read -r low high <<<"$REPLY"
  ((PORT < low || PORT > high))
}

connects() {
  local DEADLINE_MS=$DEADLINE_MS
  attempt_deadline 2000
  http_open
  http_line && [[ $LINE == open ]] || LINE=
  http_close
  [[ -n $LINE ]]
}

# MS: makes the caller's own DEADLINE_MS no later than that.
attempt_deadline() {
  now_ms
  DEADLINE_MS=$((NOW_MS + $1 < DEADLINE_MS ? NOW_MS + $1 : DEADLINE_MS))
}

# A refusal by the server itself (4xx) that stays for 3 s is final; all else is a server that is still loading.
wait_health() {
  local refused_ms='' asked_ms=$NOW_MS wait_ms
  until ask_health; do
    if [[ $STATUS == 4?? && $STATUS != 40[8] && $STATUS != 42[59] ]]; then
      refused_ms=${refused_ms:-$NOW_MS}
      ((NOW_MS - refused_ms < 3000)) || fail_http "$HEALTH_PATH"
    else
      refused_ms=
    fi
    # What loads for long need not be asked ten times a second: its log is for people.
    wait_ms=$POLL_MS
    ((NOW_MS - asked_ms < 5000 || POLL_MS > 500)) || wait_ms=500
    pause "$wait_ms" || timed_out health "$HEALTH_PATH did not answer 200 within $HEALTH_TIMEOUT_S s${SEEN_STATUS:+ (last: $SEEN_STATUS)}"
  done
}

ask_health() {
  local DEADLINE_MS=$DEADLINE_MS
  STATUS=
  may_connect || return 1
  attempt_deadline 5000
  http_open GET "$HEALTH_PATH"
  http_head || STATUS=
  saw_status
  [[ $STATUS != 4?? ]] || http_body || :
  http_close
  [[ $STATUS == 200 ]]
}

saw_status() {
  [[ -z $STATUS || $STATUS == 200 || $STATUS == "$SEEN_STATUS" ]] || answer HTTP_STATUS "$STATUS"
  SEEN_STATUS=${STATUS:-$SEEN_STATUS}
}

# PATH: the last answer, whose body has been read, is final.
fail_http() {
  answer BODY "${BODY:0:300}"
  fail "http_$STATUS" "$1 answered $STATUS"
}

# Repeats while the engine is merely busy: after RETRY_MS, doubling to 30 s, or as long as it asks for.
wait_inference() {
  local backoff_ms=$RETRY_MS style=$INFERENCE
  answer STYLE "$style"
  until ask_inference "$style"; do
    if [[ $STATUS =~ ^40[045]$ && $style != embeddings && $INFERENCE_FALLBACK == embeddings ]]; then
      style=embeddings
      answer STYLE "$style"
      continue
    fi
    [[ -z $STATUS || $STATUS =~ ^(200|408|429|502|503|504)$ ]] || fail_http "the $style request"
    pause "$((RETRY_AFTER ? RETRY_AFTER * 1000 : backoff_ms))" || inference_timeout
    backoff_ms=$((backoff_ms < 15000 ? backoff_ms * 2 : 30000))
  done
}

inference_timeout() {
  timed_out inference "no token within $INFERENCE_TIMEOUT_S s${SEEN_STATUS:+ (last status: $SEEN_STATUS)}"
}

# STYLE: true once a token has come; the stage ends the script when its time is up. Otherwise STATUS says what came instead: empty
# or 200 for a connection that was refused or cut.
ask_inference() {
  local sent_ms status=0
  [[ -n ${MODEL_JSON:-} ]] || find_model || return 1
  request "$1"
  now_ms
  sent_ms=$NOW_MS
  http_open POST "$TARGET" "$REQUEST"
  http_head || status=$?
  ((status != 2)) || inference_timeout
  saw_status
  if [[ $STATUS != 200 ]]; then
    [[ -z $STATUS ]] || http_body || inference_timeout
    http_close
    return 1
  fi
  wait_token "$1" || return 1
  since "$sent_ms" FIRST_TOKEN_MS
  http_close
}

# Sets MODEL_JSON, the model id as the inside of a JSON string.
find_model() {
  local status=0
  if [[ -n $SERVED_MODEL ]]; then
    json_escape "$SERVED_MODEL"
    MODEL_JSON=$REPLY
    return
  fi
  http_open GET /v1/models
  { http_head && http_body; } || status=$?
  ((status != 2)) || inference_timeout
  saw_status
  http_close
  [[ $STATUS == 200 ]] || return 1
  [[ $BODY =~ \"id\"[[:space:]]*:[[:space:]]*\"(([^\"\\]|\\.)+)\" ]] || fail_without no_model "/v1/models names no model"
  MODEL_JSON=${BASH_REMATCH[1]}
}

# STYLE: sets TARGET and REQUEST.
request() {
  local options='"temperature":0,"max_tokens":64,"stream":true,"stream_options":{"include_usage":true}'
  json_escape "${PROMPT:-Say hello.}"
  case $1 in
    chat) TARGET=/v1/chat/completions REQUEST="\"messages\":[{\"role\":\"user\",\"content\":\"$REPLY\"}],$options" ;;
    completions) TARGET=/v1/completions REQUEST="\"prompt\":\"$REPLY\",$options" ;;
    embeddings) TARGET=/v1/embeddings REQUEST="\"input\":\"$REPLY\"" ;;
  esac
  REQUEST="{\"model\":\"$MODEL_JSON\",$REQUEST}"
}

# STYLE: reads the reply up to its first token; ends the script when a whole reply has none. False when the reply was cut.
wait_token() {
  local window='' event_bytes=0 status wanted=$TOKEN
  [[ $1 != embeddings ]] || wanted=$EMBEDDING
  BODY=
  while status=0 && { http_piece || status=$?; } && ((status == 0)); do
    # What is looked for may be split, but is short.
    ((${#window} <= 200)) || window=${window: -200}
    window+=$PIECE
    [[ ! $window =~ $wanted ]] || return 0
    [[ ! $window =~ $FINISHED ]] || ENDED=1
    BODY+=$PIECE
    [[ $PIECE == *$'\n'* ]] && event_bytes=0 || ((event_bytes += ${#PIECE}, 1))
    [[ $event_bytes -le MAX_EVENT_BYTES || $1 == embeddings ]] && ((${#BODY} < MAX_BODY_BYTES)) || break
  done
  ((status != 2)) || inference_timeout
  [[ -n $ENDED || $status == 0 || ($1 == embeddings && -n $BODY) ]] && fail_without no_token "the engine's reply to a $1 request holds no token"
  return 1
}

# REASON MESSAGE: like fail, with what came.
fail_without() {
  answer BODY "${BODY:0:300}"
  fail "$1" "$2"
}

on_tick() {
  look_around
}

main
