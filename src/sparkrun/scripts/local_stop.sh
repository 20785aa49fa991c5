# Stops workloads of the local executor and confirms that nothing of them is left.
#
# Parameters
#   NAMES        array of workload names
#   GRACE_S      seconds between TERM and KILL (default 10)
#   OWNER        application that asks (default sparkrun); records of others are left alone
#   ONLY_LAUNCH  stop only what this launch started
#   CACHE        sparkrun cache folder (default: this host's own)
#
# Answers, one section STOP for each name: NAME and RESULT
#   STOPPED       it lived, and is gone, with its whole session
#   GONE          nothing of it lived; a left-over record is removed
#   OTHER_LAUNCH  another launch than ONLY_LAUNCH has the name; left alone
#   NOT_OURS      another application has the name (OWNED_BY); left alone
#   SURVIVED      processes are left after KILL (PIDS)
#   BUSY          a start or another stop has held its lock for 10 s
# with MESSAGE for the last three; KILLED=1 when TERM was not enough; FILES_LEFT=1 when the record could not be removed.
#
# Exit codes: 0 nothing of this application is left of any name; 1 something is, or may be; 2 wrong parameters, nothing was done.

main() {
  local name
  declare -gA RESULT=() TARGET=() TICKS=() KILLED=() LEFT=()
  check_parameters
  resolve_places
  for name in "${NAMES[@]}"; do begin_stop "$name"; done
  to_ms "$GRACE_S"
  wait_gone "$REPLY"
  for name in "${!TARGET[@]}"; do kill_hard "$name"; done
  wait_gone 5000
  finish
}

check_parameters() {
  local name
  OWNER=${OWNER:-sparkrun} GRACE_S=${GRACE_S:-10}
  is_seconds "$GRACE_S" || refuse 2 bad_parameter "GRACE_S is no number of seconds: $GRACE_S"
  ((${#NAMES[@]})) || refuse 2 bad_parameter "no names to stop"
  for name in "${NAMES[@]}"; do require_name "$name"; done
}

# NAME: tells a living workload to end, or settles its result. A start that is at work is waited for.
begin_stop() {
  local locked=0
  [[ -z ${RESULT[$1]:-} ]] || return 0
  lock "$1" 10 || locked=$?
  if ((locked == 1)); then
    RESULT[$1]=BUSY
    return
  fi
  judge_stop "$1"
  [[ ${RESULT[$1]} != GONE || $locked != 0 ]] || remove_record "$1" || LEFT[$1]=1
  unlock
}

judge_stop() {
  RESULT[$1]=GONE
  load_workload "$1" || return 0
  if [[ ${W_OWNER:-$OWNER} != "$OWNER" ]]; then
    RESULT[$1]=NOT_OURS
  elif [[ -n $ONLY_LAUNCH && $W_LAUNCH != "$ONLY_LAUNCH" ]]; then
    RESULT[$1]=OTHER_LAUNCH
  else
    scan_sessions ${W_PID:+"$W_PID"}
    judge_workload
    [[ -z $W_MEMBERS ]] || tell_to_end "$1"
  fi
}

# NAME: TERM to the whole group, once: to many engines a second one means "at once".
tell_to_end() {
  local stopper
  RESULT[$1]=SURVIVED TARGET[$1]=$W_PID TICKS[$1]=$W_TICKS
  first_line "$PID_PATH.stop" || :
  stopper=$REPLY
  [[ -z $stopper ]] || ! alive "${stopper%:*}" "${stopper#*:}" || return 0
  process_stat $$
  write_file "$PID_PATH.stop" "$$:$STAT_TICKS" || :
  signal_all TERM "$W_PID"
}

# SIGNAL PID: to the group of that number, and to members of its session that left the group.
signal_all() {
  local pid
  kill -s "$1" -- "-$2" 2>/dev/null || :
  for pid in ${MEMBERS[$2]}; do
    ! process_stat "$pid" || [[ $STAT_GROUP == "$2" ]] || kill -s "$1" "$pid" 2>/dev/null || :
  done
}

# MS: waits that long at most until nothing of any target lives; drops each that is gone from TARGET.
wait_gone() {
  local until_ms name pause=0.01
  now_ms
  until_ms=$((NOW_MS + $1))
  while ((${#TARGET[@]})); do
    leaders_alive || scan_sessions "${TARGET[@]}"
    for name in "${!TARGET[@]}"; do
      [[ -n ${MEMBERS[${TARGET[$name]}]-lives} ]] || stopped "$name"
    done
    now_ms
    ((${#TARGET[@]} && NOW_MS < until_ms)) || return 0
    nap "$pause"
    pause=0.04
  done
}

# Whether every target's leader lives, so that a look at all processes can wait.
leaders_alive() {
  local name
  MEMBERS=()
  for name in "${!TARGET[@]}"; do
    alive "${TARGET[$name]}" "${TICKS[$name]}" || return 1
  done
}

# NAME: removes its record, unless a new start has taken the name meanwhile.
stopped() {
  RESULT[$1]=STOPPED
  if lock "$1" 10; then
    if load_workload "$1" && [[ $W_PID == "${TARGET[$1]}" && $W_TICKS == "${TICKS[$1]}" ]]; then
      remove_record "$1" || LEFT[$1]=1
    fi
    unlock
  else
    LEFT[$1]=1
  fi
  unset "TARGET[$1]"
}

kill_hard() {
  KILLED[$1]=1
  scan_sessions "${TARGET[$1]}"
  signal_all KILL "${TARGET[$1]}"
}

finish() {
  local name failed=0
  scan_sessions "${TARGET[@]}"
  for name in "${NAMES[@]}"; do
    section STOP
    answer NAME "$name"
    answer RESULT "${RESULT[$name]}"
    explain "$name" || failed=1
    [[ -z ${KILLED[$name]:-} ]] || answer KILLED 1
    [[ -z ${LEFT[$name]:-} ]] || answer FILES_LEFT 1
    end_section
  done
  exit "$failed"
}

# NAME: false when the name is not free of our processes.
explain() {
  case ${RESULT[$1]} in
    SURVIVED)
      answer PIDS "${MEMBERS[${TARGET[$1]}]% }"
      answer MESSAGE "$1 still runs on $HOSTNAME after KILL (pids ${MEMBERS[${TARGET[$1]}]% })"
      ;;
    NOT_OURS)
      locate "$1"
      first_line "$PID_PATH.owner" || :
      answer OWNED_BY "$REPLY"
      answer MESSAGE "$1 belongs to the application '$REPLY'"
      ;;
    BUSY) answer MESSAGE "a start or another stop of $1 is at work on $HOSTNAME" ;;
    *) return 0 ;;
  esac
  return 1
}

main
