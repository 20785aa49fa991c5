# Noticing that what is waited for has ended. A script that waits calls begin_clock and begin_watch once, then look_around now and then,
# and defines `fail REASON MESSAGE`, which ends it: died (EXIT_CODE is answered when it is known), gone, replaced, docker_gone (docker does not
# run any more, or says nothing: DOCKER=silent when that is first seen, DOCKER=back when it was not for long). end_watch belongs into its trap.

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
  INSPECT_FD='' INSPECT_AT_MS=$((BEGAN_MS + 2000)) CONTAINER='' ENDED='' ENDS_FD='' ENDS_PID='' SILENT_MS=''
  trap end_watch EXIT
  [[ -z $WATCH_CONTAINER ]] || await_container_end
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

end_watch() {
  [[ -z ${ENDS_PID:-} ]] || kill "$ENDS_PID" 2>/dev/null || :
}

# Docker itself says when the container ends; what it looks like is asked then, and now and then. All of it goes on in the background: a docker
# that hangs must not stop the clock.
watch_container() {
  local said=''
  [[ -n $WATCH_CONTAINER ]] || return 0
  [[ -z $ENDS_FD ]] || ! read -r -t 0 -u "$ENDS_FD" || take_container_end
  if [[ -z $INSPECT_FD ]]; then
    ((NOW_MS >= INSPECT_AT_MS)) || return 0
    exec {INSPECT_FD}< <(quietly inspect_container)
    return
  fi
  read -r -t 0 -u "$INSPECT_FD" || return 0
  IFS= read -r -u "$INSPECT_FD" said || :
  exec {INSPECT_FD}<&-
  INSPECT_FD='' INSPECT_AT_MS=$((NOW_MS + 3000))
  judge_container "${said%% *}" "${said#* }"
}

await_container_end() {
  find_docker || DOCKER=docker
  exec {ENDS_FD}< <(container_end)
  ENDS_PID=$!
}

# Its exit code once it ends; nothing when docker ends.
container_end() {
  exec </dev/null 2>/dev/null
  exec "$DOCKER" wait -- "$WATCH_CONTAINER"
}

take_container_end() {
  ! IFS= read -r -u "$ENDS_FD" REPLY || ENDED=1
  exec {ENDS_FD}<&-
  ENDS_FD='' ENDS_PID='' INSPECT_AT_MS=0
}

# One line: docker's exit code, and "ID STARTED_AT RUNNING EXIT_CODE OOM_KILLED" or what docker complains of.
inspect_container() {
  local said status=0
  said=$(timeout 5 "$DOCKER" inspect --type container \
    -f '{{.Id}} {{.State.StartedAt}} {{.State.Running}} {{.State.ExitCode}} {{.State.OOMKilled}}' -- "$WATCH_CONTAINER" 2>&1) || status=$?
  printf '%s %s\n' "$status" "${said//$'\n'/ }"
}

# EXIT_CODE TEXT
judge_container() {
  local id started running code oom
  if [[ $2 =~ [Nn]o\ such\ (container|object) ]]; then
    [[ -z $CONTAINER ]] || fail gone "container $WATCH_CONTAINER was removed"
    fail gone "there is no container $WATCH_CONTAINER on $HOSTNAME"
  fi
  (($1 == 0)) || { doubt_docker "$1" "$2" && return; }
  [[ -z $SILENT_MS ]] || { SILENT_MS='' && answer DOCKER back; }
  # podman's moments hold blanks.
  [[ $2 =~ ^([^ ]+)\ (.+)\ (true|false)\ ([0-9]+)\ (true|false)$ ]] || return 0
  id=${BASH_REMATCH[1]} started=${BASH_REMATCH[2]} running=${BASH_REMATCH[3]} code=${BASH_REMATCH[4]} oom=${BASH_REMATCH[5]}
  CONTAINER=${CONTAINER:-$id $started}
  [[ $CONTAINER == "$id $started" && ($running == false || -z $ENDED) ]] || fail replaced "container $WATCH_CONTAINER was restarted or replaced"
  if [[ $running == true ]]; then
    [[ -n $ENDS_FD ]] || await_container_end
    return
  fi
  answer EXIT_CODE "$code"
  [[ $oom != true ]] || answer OOM_KILLED 1
  fail died "container $WATCH_CONTAINER ended with exit code $code before it was ready"
}

# EXIT_CODE TEXT: docker does not say how the container is. It may be restarted just now, or have much to do: only for a while.
doubt_docker() {
  local patience_ms=3000 said=${2#"${2%%[![:space:]]*}"}
  # timeout(1) ended it: it says nothing at all.
  (($1 != 124)) || patience_ms=25000
  INSPECT_AT_MS=$((NOW_MS + 250))
  [[ -n $SILENT_MS ]] || { SILENT_MS=$NOW_MS && answer DOCKER silent; }
  ((NOW_MS - SILENT_MS < patience_ms)) || fail docker_gone "docker on $HOSTNAME is gone (${said:-no answer})"
}
