# Runs a command in a running container, such as a hook, and keeps the beginning and the end of what it prints.
#
# Parameters
#   NAME         container name
#   COMMAND      shell text; bash runs it where the image has one, else sh
#   USER_NAME    user to run as (default: root)
#   FOLDER       folder to run in (default: the image's own)
#   ENVS         array of K=V for it
#   SECRET_ENVS  the same; on no command line
#   TIMEOUT_S    whole seconds after which it is told to end (TERM), and killed 10 s later; 0: never (default)
#   HEAD TAIL    how many lines to keep of the beginning and of the end (default 20 and 80)
#   LIFELINE     1: the caller keeps stdin open for as long as it listens
#   CACHE        sparkrun cache folder (default: this host's own)
#
# Answers, in section EXEC: NAME; ELAPSED_MS every 5 s while it runs; HEAD once for each of the first lines, OMITTED, the number of lines
# left out, TAIL once for each of the last ones; EXIT_CODE, TIMED_OUT=1; REASON, MESSAGE and HINT unless it has ended with 0.
#
# Exit codes (REASON): 0 it has ended with 0; 1 failed, timed_out; 2 bad_name, bad_parameter; 3 to 7 as docker_start; 8 no_container, not_running;
# 10 session_gone: it was told to end because nobody listens any more.

main() {
  section EXEC
  answer NAME "$NAME"
  check_parameters
  watch_session
  need_docker
  resolve_docker_folder
  hold_gate
  # Ctrl-C at the caller ends this script; what it began in the container goes with it.
  LEAVE_WITH='' LEAVE_AT_MS=''
  trap 'end_command KILL' EXIT
  trap 'LEAVE_WITH=143' TERM INT HUP
  begin_command
  read_output
  finish
}

check_parameters() {
  require_container_name "$NAME"
  TIMEOUT_S=${TIMEOUT_S:-0} HEAD=${HEAD:-20} TAIL=${TAIL:-80} USER_NAME=${USER_NAME:-0}
  [[ $TIMEOUT_S =~ ^[0-9]{1,7}$ ]] || refuse 2 bad_parameter "TIMEOUT_S is no whole number of seconds: $TIMEOUT_S"
  [[ $HEAD =~ ^[0-9]{1,5}$ && $TAIL =~ ^[0-9]{1,5}$ ]] || refuse 2 bad_parameter "HEAD and TAIL are whole numbers, not '$HEAD' and '$TAIL'"
  [[ $COMMAND == *[![:space:]]* ]] || refuse 2 bad_parameter "no command to run"
  require_variables ENVS "${ENVS[@]}"
  require_variables SECRET_ENVS "${SECRET_ENVS[@]}"
}

# Everything goes in on stdin, so that nothing of it stands on a command line or in a file. A process that docker starts in a container leads
# a group of its own, whose number comes back on the first line.
begin_command() {
  local text quoted=${COMMAND//\'/\'\\\'\'}
  export_lines "${ENVS[@]}" "${SECRET_ENVS[@]}"
  text="exec 2>&1
echo \"sparkrun:\$\$\"
${REPLY}if command -v bash >/dev/null 2>&1; then exec bash -c '$quoted' </dev/null; fi
exec sh -c '$quoted' </dev/null"
  now_ms
  BEGAN_MS=$NOW_MS COMMAND_PID=
  exec {OUT_FD}< <(exec "$DOCKER" exec -i -u "$USER_NAME" ${FOLDER:+-w "$FOLDER"} -- "$NAME" sh -s <<<"$text" 2>&1)
  CLIENT_PID=$!
}

# Sets FIRST_LINES, LAST_LINES (a ring) and LINE_COUNT, until the output ends.
read_output() {
  FIRST_LINES=() LAST_LINES=() LINE_COUNT=0 TIMED_OUT='' TERM_AT_MS=0 NEXT_BEAT_MS=$((BEGAN_MS + 5000))
  each_line "$OUT_FD" 0.2 keep_line look_around
}

keep_line() {
  if [[ -z $COMMAND_PID && $1 == sparkrun:* ]]; then
    COMMAND_PID=${1#sparkrun:}
  elif ((LINE_COUNT++ < HEAD)); then
    FIRST_LINES+=("${1:0:2000}")
  elif ((TAIL)); then
    LAST_LINES[(LINE_COUNT - HEAD - 1) % TAIL]=${1:0:2000}
  fi
}

look_around() {
  now_ms
  if ((NOW_MS >= NEXT_BEAT_MS)); then
    NEXT_BEAT_MS=$((NOW_MS + 5000))
    answer ELAPSED_MS "$((NOW_MS - BEGAN_MS))"
    hold_gate
  fi
  [[ -n $LEAVE_WITH ]] || ! session_gone || LEAVE_WITH=10
  [[ -z $LEAVE_WITH ]] || leave
  ((TIMEOUT_S)) && ((NOW_MS - BEGAN_MS >= TIMEOUT_S * 1000)) || return 0
  if [[ -z $TIMED_OUT ]]; then
    TIMED_OUT=1 TERM_AT_MS=$NOW_MS
    end_command TERM
  elif ((NOW_MS - TERM_AT_MS >= 10000)); then
    end_command KILL
    kill "$CLIENT_PID" 2>/dev/null || :
  fi
}

# What is only being started in the container cannot be ended before its number is known.
leave() {
  : "${LEAVE_AT_MS:=$((NOW_MS + 10000))}"
  [[ -n $COMMAND_PID ]] || ((NOW_MS >= LEAVE_AT_MS)) || return 0
  ((LEAVE_WITH != 10)) || refuse 10 session_gone "the session that asked for it has ended"
  exit "$LEAVE_WITH"
}

# A gate that the container still waits at counts its time anew.
hold_gate() {
  local folder
  for folder in "$DOCKER_FOLDER/$NAME".*/; do
    [[ -e $folder/open || ! -w $folder ]] || : >"$folder/held"
  done
}

# SIGNAL: to the command's whole group in the container, as long as it runs.
end_command() {
  [[ -n ${COMMAND_PID:-} && -z ${ENDED:-} ]] || return 0
  timeout -k 1 10 "$DOCKER" exec -u "$USER_NAME" -- "$NAME" sh -c "kill -s $1 -- -$COMMAND_PID" </dev/null >/dev/null 2>&1 || :
}

finish() {
  trap 'exit 143' TERM INT HUP
  [[ $LEAVE_WITH != 143 ]] || exit 143
  local code=0 line at omitted=$((LINE_COUNT - ${#FIRST_LINES[@]} - ${#LAST_LINES[@]}))
  wait "$CLIENT_PID" || code=$?
  ENDED=1
  [[ -n $COMMAND_PID ]] || not_begun "$code"
  for line in "${FIRST_LINES[@]}"; do answer HEAD "$line"; done
  ((omitted == 0)) || answer OMITTED "$omitted"
  for ((at = 0; at < ${#LAST_LINES[@]}; at++)); do
    answer TAIL "${LAST_LINES[(omitted + at) % TAIL]}"
  done
  answer EXIT_CODE "$code"
  if [[ -n $TIMED_OUT ]]; then
    answer TIMED_OUT 1
    refuse 1 timed_out "it did not end within $TIMEOUT_S s" "give it longer (timeout), or correct the command in the recipe"
  fi
  ((code == 0)) || refuse 1 failed "it ended with exit code $code" "correct the command in the recipe; --keep-on-failure leaves the container for a look"
  end_section
}

# EXIT_CODE: docker has run nothing.
not_begun() {
  local said=${FIRST_LINES[*]:0:1}
  inspect_named "$NAME" || refuse 8 no_container "there is no container $NAME on $HOSTNAME"
  [[ $C_STATE == running ]] || refuse 8 not_running "container $NAME on $HOSTNAME does not run (it is $C_STATE)"
  refuse_docker "$1" "$said"
}

main
