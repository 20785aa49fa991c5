# Noticing that what is waited for has ended. A script that waits calls begin_clock and begin_watch once, then look_around now and then,
# and defines `fail REASON MESSAGE`, which ends it: died (EXIT_CODE is answered when it is known), gone, replaced.

begin_clock() {
  now_ms
  BEGAN_MS=$NOW_MS NEXT_BEAT_MS=$((NOW_MS + 5000))
}

# Leaves a fresh NOW_MS. Ends the script when nobody listens any more; ELAPSED_MS every 5 s finds that out too.
look_around() {
  now_ms
  watch_workload
  watch_container
  ! session_gone || exit 1
  if ((NOW_MS >= NEXT_BEAT_MS)); then
    NEXT_BEAT_MS=$((NOW_MS + 5000))
    answer ELAPSED_MS "$((NOW_MS - BEGAN_MS))"
  fi
}

begin_watch() {
  resolve_places
  INSPECT_FD='' INSPECT_AT_MS=0 CONTAINER=''
  [[ -n $WATCH_NAME ]] || return 0
  load_workload "$WATCH_NAME" || fail gone "there is no record of $WATCH_NAME on $HOSTNAME"
  WATCHED=$W_PID:$W_TICKS
  watch_workload
}

watch_workload() {
  [[ -n $WATCH_NAME ]] || return 0
  load_workload "$WATCH_NAME" || fail gone "the record of $WATCH_NAME was removed"
  [[ $W_PID:$W_TICKS == "$WATCHED" ]] || fail replaced "another process has taken the name $WATCH_NAME"
  if [[ -z $W_EXIT ]]; then
    unset MEMBERS
    judge_workload
    [[ $W_STATE != running ]] || return 0
    # It may have ended between the two looks.
    load_workload "$WATCH_NAME" || fail gone "the record of $WATCH_NAME was removed"
  fi
  [[ ! -e $PID_PATH.stop ]] || fail gone "$WATCH_NAME is being stopped"
  answer EXIT_CODE "$W_EXIT"
  fail died "$WATCH_NAME ended${W_EXIT:+ with exit code $W_EXIT} before it was ready"
}

# Asks docker in the background, every 0.25 s: a docker that hangs must not stop the clock, and says nothing of the container.
watch_container() {
  local said=''
  [[ -n $WATCH_CONTAINER ]] || return 0
  if [[ -z $INSPECT_FD ]]; then
    ((NOW_MS >= INSPECT_AT_MS)) || return 0
    exec {INSPECT_FD}< <(quietly inspect_container)
    return
  fi
  read -r -t 0 -u "$INSPECT_FD" || return 0
  IFS= read -r -u "$INSPECT_FD" said || :
  exec {INSPECT_FD}<&-
  INSPECT_FD='' INSPECT_AT_MS=$((NOW_MS + 250))
  judge_container "$said"
}

# One line: "ID STARTED_AT RUNNING EXIT_CODE OOM_KILLED", or what docker complains of.
inspect_container() {
  local said
  said=$(timeout 5 docker inspect --type container \
    -f '{{.Id}} {{.State.StartedAt}} {{.State.Running}} {{.State.ExitCode}} {{.State.OOMKilled}}' -- "$WATCH_CONTAINER" 2>&1) || :
  printf '%s\n' "${said//$'\n'/ }"
}

judge_container() {
  local id started running code oom rest
  if [[ $1 =~ [Nn]o\ such\ (container|object) ]]; then
    [[ -z $CONTAINER ]] || fail gone "container $WATCH_CONTAINER was removed"
    fail gone "there is no container $WATCH_CONTAINER on $HOSTNAME"
  fi
  read -r id started running code oom rest <<<"$1" || :
  [[ $running =~ ^(true|false)$ && -z $rest ]] || return 0
  CONTAINER=${CONTAINER:-$id $started}
  [[ $CONTAINER == "$id $started" ]] || fail replaced "container $WATCH_CONTAINER was restarted or replaced"
  [[ $running == false ]] || return 0
  answer EXIT_CODE "$code"
  [[ $oom != true ]] || answer OOM_KILLED 1
  fail died "container $WATCH_CONTAINER ended with exit code $code before it was ready"
}
