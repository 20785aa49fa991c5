# Starts a workload of the local executor: a plain process in a session of its own, which outlives the session that starts it.
#
# Parameters
#   NAME            workload name
#   COMMAND         shell text that runs the engine
#   CLUSTER_ID      cluster id to note
#   OWNER           application that starts it (default sparkrun)
#   LAUNCH          word that names this launch, for a later stop of this launch alone
#   ENVS            array of K=V to export
#   SECRET_ENVS     the same; never printed and never on disk
#   WORKING_DIR     folder to run in (default: home)
#   ENV_FILE        file of this host to source before ENVS are set; all it sets is exported
#   COMMAND_PREFIX  shell words before the command, such as `numactl -N 0`
#   LOG_DIR LOG_FILE PID_DIR PID_FILE
#                   other places than <cache>/local/logs and <cache>/local/pids
#   ALLOCATIONS     JSON, kept as base64
#   LABELS          JSON
#   HUB MODEL_FOLDER RUNTIME_CACHE RUNTIME_CACHES PRUNE_MINUTES DROP_CACHES
#                   what is noted of the caches beside the launch (see upkeep.sh)
#   CACHE           sparkrun cache folder (default: this host's own)
#   WAIT_EARLY_S    watch that long whether the engine dies at once (default 0)
#
# Answers, in section LAUNCH: NAME, PID, LOG_FILE, LOG_OFFSET, STARTED_AT; EXIT_CODE when the engine died within WAIT_EARLY_S;
# REASON and MESSAGE when there is no engine.
#
# Exit codes (REASON)
#    0 started
#    2 bad_name, bad_parameter
#    3 running: a live process has the name
#    4 not_ours: the record belongs to another application
#    5 no_working_dir
#    6 no_env_file, bad_env_file
#    7 cache_not_writable
#    8 busy: another start or stop of the name is at work
#    9 died: the engine ended within WAIT_EARLY_S
#   10 not_started: the supervisor did not come up, or the session that asked for it has ended
#
# The supervisor runs nothing before it is sent the command, and it is sent the command only after the record is written: a start
# that is cut off at any point has either started nothing, or left a record of what runs.

main() {
  section LAUNCH
  answer NAME "$NAME"
  check_parameters
  watch_session
  resolve_places
  USER_MASK=$(umask)
  umask 077
  ensure_places
  lock "$NAME" 5 || refuse 8 busy "another start or stop of $NAME is at work"
  check_free
  start_supervisor
  record_launch
  release_engine
  exec {UPKEEP_FD}< <(umask "$USER_MASK" && quietly upkeep)
  unlock
  watch_early
  end_section
}

check_parameters() {
  require_name "$NAME"
  OWNER=${OWNER:-sparkrun} WAIT_EARLY_S=${WAIT_EARLY_S:-0}
  [[ $COMMAND == *[![:space:]]* ]] || refuse 2 bad_parameter "no command to run"
  is_seconds "$WAIT_EARLY_S" || refuse 2 bad_parameter "WAIT_EARLY_S is no number of seconds: $WAIT_EARLY_S"
  check_envs ENVS "${ENVS[@]}"
  check_envs SECRET_ENVS "${SECRET_ENVS[@]}"
}

# LIST K=V...: checks the names; a value is never shown.
check_envs() {
  local list=$1 pair LC_ALL=C
  for pair in "${@:2}"; do
    [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || refuse 2 bad_parameter "an entry of $list has no variable name before '='"
    [[ " UID EUID PPID SHELLOPTS BASHOPTS BASH_VERSINFO " != *" ${pair%%=*} "* ]] ||
      refuse 2 bad_parameter "$list sets ${pair%%=*}, which bash keeps for itself"
  done
}

# Sets PID_TARGET and LOG_TARGET, WORKING_DIR and ENV_FILE; makes the folders.
ensure_places() {
  absolute_place CACHE "$CACHE_DIR"
  absolute_place PID_FILE "${PID_FILE:-${PID_DIR:-$PIDS}/$NAME.pid}"
  PID_TARGET=$REPLY
  absolute_place LOG_FILE "${LOG_FILE:-${LOG_DIR:-$LOGS}/$NAME.log}"
  LOG_TARGET=$REPLY
  expand_home "${WORKING_DIR:-$HOME}"
  WORKING_DIR=$REPLY
  [[ -d $WORKING_DIR && -x $WORKING_DIR ]] || refuse 5 no_working_dir "no working directory $WORKING_DIR on $HOSTNAME"
  check_env_file
  ensure_folder "$PIDS"
  ensure_folder "${PID_TARGET%/*}"
  ensure_folder "${LOG_TARGET%/*}"
  { : >>"$LOG_TARGET"; } 2>/dev/null || refuse 7 cache_not_writable "cannot write to $LOG_TARGET"
}

absolute_place() {
  expand_home "$2"
  [[ $REPLY == /* && $REPLY != *$'\n'* ]] || refuse 2 bad_parameter "$1 is no absolute path: $2"
}

check_env_file() {
  local said
  [[ -n $ENV_FILE ]] || return 0
  expand_home "$ENV_FILE"
  ENV_FILE=$REPLY
  [[ $ENV_FILE == */* ]] || ENV_FILE=$WORKING_DIR/$ENV_FILE
  [[ -f $ENV_FILE && -r $ENV_FILE ]] || refuse 6 no_env_file "no readable env file $ENV_FILE on $HOSTNAME"
  said=$("$BASH" -n -- "$ENV_FILE" 2>&1 </dev/null) || refuse 6 bad_env_file "$ENV_FILE is no shell text: ${said%%$'\n'*}"
}

ensure_folder() {
  [[ -d $1 ]] || mkdir -p -- "${1:-/}" 2>/dev/null || :
  [[ -d $1 && -w $1 && -x $1 ]] || refuse 7 cache_not_writable "cannot write to ${1:-/} on $HOSTNAME"
}

# Refuses to replace what lives or is another's; removes the record of what is dead.
check_free() {
  local tries=60
  if load_workload "$NAME"; then
    [[ ${W_OWNER:-$OWNER} == "$OWNER" ]] || refuse 4 not_ours "$NAME belongs to the application '$W_OWNER'"
    judge_workload
    # One that is ending needs no more than a moment.
    while [[ $W_STATE == running || -n $W_MEMBERS ]] && [[ -n $W_EXIT || -e $PID_PATH.stop ]] && ((tries--)); do
      nap 0.05
      unset MEMBERS
      load_workload "$NAME" && judge_workload
    done
    [[ $W_STATE != running && -z $W_MEMBERS ]] || refuse 3 running "$NAME already runs on $HOSTNAME (pid $W_PID)" "stop it first"
  fi
  rm -f -- "$PID_PATH" "${RECORD_FILES[@]/#/$PID_PATH}" "$PIDS/$NAME.pid.at"
  PID_PATH=$PID_TARGET
}

# Sets PID and TICKS of a supervisor that waits for its command, and TO, the way to send it.
start_supervisor() {
  local said='' leads=setsid
  find_tool setsid || leads=
  LEADER=$REPLY
  # Without setsid(1) it leads at least a process group.
  [[ -n $leads ]] || set -m
  coproc SUPERVISOR { become_supervisor; }
  PID=$!
  set +m
  { exec {FROM}<&"${SUPERVISOR[0]}"- {TO}>&"${SUPERVISOR[1]}"-; } 2>/dev/null || not_started
  trap '' PIPE
  declare -f supervise pass_on run_engine source_env end_leftovers scan_sessions process_stat nap >&"$TO" || not_started
  printf 'supervise "$@"\n\0' >&"$TO" || not_started
  IFS= read -r -t 10 -u "$FROM" said || :
  [[ $said == ready ]] && process_stat "$PID" && [[ $STAT_SESSION == "$PID" || $STAT_GROUP == "$PID" ]] || not_started
  TICKS=$STAT_TICKS
}

become_supervisor() {
  umask "$USER_MASK"
  exec 2>>"$LOG_TARGET"
  cd -- "$WORKING_DIR" || exit
  # shellcheck disable=SC2016
  exec ${LEADER:+"$LEADER"} "$BASH" -c 'IFS= read -r -d "" sparkrun_code && eval "$sparkrun_code"' "sparkrun:$NAME" "$PID_TARGET" "$LOG_TARGET"
}

not_started() {
  remove_record "$NAME" || :
  refuse 10 not_started "${1:-the supervisor of $NAME did not start on $HOSTNAME}"
}

# Everything but the pid file first: the record exists as soon as that does.
record_launch() {
  local boot oom='' offset=0
  first_line /proc/sys/kernel/random/boot_id || :
  boot=$REPLY
  slurp /proc/vmstat || :
  [[ ! $REPLY =~ oom_kill\ ([0-9]+) ]] || oom=${BASH_REMATCH[1]}
  STARTED=$EPOCHSECONDS
  [[ ! -s $LOG_TARGET ]] || offset=$(stat -L -c %s -- "$LOG_TARGET")
  LOG_OFFSET=$offset
  write_file "$PID_PATH.start" "$TICKS ${boot:-unknown} $STARTED $oom" &&
    write_file "$PID_PATH.owner" "$OWNER" &&
    write_file "$PID_PATH.cluster" "$CLUSTER_ID" &&
    write_file "$PID_PATH.launch" "$LAUNCH" &&
    write_file "$PID_PATH.labels" "$LABELS" &&
    write_file "$PID_PATH.log" "$LOG_TARGET"$'\n'"$LOG_OFFSET" &&
    { [[ -z $ALLOCATIONS ]] || write_file "$PID_PATH.allocations" "$(base64 -w0 <<<"$ALLOCATIONS")"; } &&
    { [[ $PID_PATH == "$PIDS/$NAME.pid" ]] || write_file "$PIDS/$NAME.pid.at" "$PID_PATH"; } &&
    write_file "$PID_PATH.new" "$PID" &&
    mv -f -T -- "$PID_PATH.new" "$PID_PATH" 2>/dev/null || {
      rm -f -- "$PID_PATH.new"
      not_started "cannot write the record of $NAME beside $PID_PATH on $HOSTNAME"
    }
}

# Answers first: when nobody hears them any more, the engine is not wanted any more.
release_engine() {
  iso_time "$STARTED"
  {
    answer PID "$PID" && answer LOG_FILE "$LOG_TARGET" && answer LOG_OFFSET "$LOG_OFFSET" && answer STARTED_AT "$REPLY"
  } 2>/dev/null && ! session_gone || not_started "the session that asked for $NAME has ended"
  { printf '%s\0' "$ENV_FILE" "$COMMAND_PREFIX" "$COMMAND" "${ENVS[@]}" "${SECRET_ENVS[@]}" go >&"$TO"; } 2>/dev/null || not_started
  exec {TO}>&-
  # Its end of the pipe closes when the log takes over.
  read -r -t 10 -u "$FROM" _ || :
}

watch_early() {
  local until_ms
  to_ms "$WAIT_EARLY_S"
  now_ms
  until_ms=$((NOW_MS + REPLY))
  while ((NOW_MS < until_ms)); do
    if first_line "$PID_PATH.exit" || ! alive "$PID" "$TICKS"; then
      first_line "$PID_PATH.exit" || :
      answer EXIT_CODE "${REPLY%% *}"
      refuse 9 died "$NAME ended within $WAIT_EARLY_S s${REPLY:+ with exit code ${REPLY%% *}}" "its log: $LOG_TARGET"
    fi
    nap 0.02
    now_ms
  done
}

# --- what follows runs in the supervisor -----------------------------------------------------------------------------------------

# PID_FILE LOG_FILE: waits for the command, runs it, and notes how it ended. Without local variables: a variable of the engine that
# has the name of one could not be exported.
supervise() {
  for sparkrun_fd in /proc/"$$"/fd/*; do
    ((${sparkrun_fd##*/} < 3)) || eval "exec ${sparkrun_fd##*/}>&-"
  done
  printf 'ready\n'
  mapfile -t -d '' sparkrun_words
  [[ ${sparkrun_words[-1]-} == go ]] || exit 1
  unset 'sparkrun_words[-1]'
  sparkrun_stop_mark=$1.stop
  trap 'pass_on TERM' TERM
  trap 'pass_on INT' INT
  trap : HUP
  run_engine "${sparkrun_words[@]}" </dev/null >>"$2" 2>&1 &
  unset sparkrun_words
  exec </dev/null >/dev/null 2>&1
  # A signal ends the wait early; bash still knows how the engine ended when asked again.
  sparkrun_again=1
  while ((sparkrun_again)); do
    sparkrun_again=0 sparkrun_code=0
    wait $! || sparkrun_code=$?
  done
  printf '%s %s\n' "$sparkrun_code" "$EPOCHSECONDS" >"$1.exit"
  end_leftovers
}

# SIGNAL: hands a signal for the supervisor alone on to the engine. A stop has told the whole group already.
pass_on() {
  sparkrun_again=1
  [[ ! -e $sparkrun_stop_mark ]] || return 0
  trap '' "$1"
  kill -s "$1" -- "-$$"
  # shellcheck disable=SC2064
  trap "pass_on $1" "$1"
}

# ENV_FILE PREFIX COMMAND K=V...: becomes the engine. Its own values are positional, which no variable of the engine can touch.
run_engine() {
  trap - TERM INT QUIT HUP
  [[ -z $1 ]] || source_env "$1"
  set -- "$BASH" "${@:2}"
  while (($# > 3)); do
    export -- "${!#}"
    set -- "${@:1:$#-1}"
  done
  # shellcheck disable=SC2016
  [[ -z $2 ]] || exec "$1" -c "$2"' "$0" -c "$1"' "$1" "$3"
  exec "$1" -c "$3"
}

source_env() {
  set -a
  # shellcheck disable=SC1090
  . "$1"
  set +a
}

# Ends what the engine left behind: TERM, and KILL after 1.5 s.
end_leftovers() {
  local tries pid
  trap '' TERM INT HUP
  for ((tries = 0; tries < 40; tries++)); do
    scan_sessions $$
    [[ ${MEMBERS[$$]} != "$$ " ]] || return 0
    for pid in ${MEMBERS[$$]}; do
      [[ $pid == "$$" ]] || case $tries in
        0) kill -TERM "$pid" ;;
        30) kill -KILL "$pid" ;;
      esac
    done
    nap 0.05
  done
}

main
