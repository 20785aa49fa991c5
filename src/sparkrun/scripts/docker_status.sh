# What our containers do on this host.
#
# Parameters
#   NAMES  array of container names (empty: all that carry our label)
#   CACHE  sparkrun cache folder (default: this host's own)
#
# Answers: section WORKLOADS with COUNT, and MISSING once for each name without a container; then one section WORKLOAD each:
#   NAME, STATE (docker's word: running, exited, created, paused, restarting, dead; exited also for one that was given up), EXIT_CODE of
#   one that has ended, OOM=1 when the kernel killed it for memory, PID, OWNER, CLUSTER_ID, LAUNCH, CONTAINER_ID, IMAGE, IMAGE_ID,
#   STARTED_AT (ISO 8601), UPTIME_S, RESTARTS, LABELS (JSON; of a container of an earlier version what its single labels say),
#   ALLOCATIONS (base64 of JSON), AUTO_REMOVE (true for one that goes by itself once it is dead), GATE (waiting, passed, gave_up) where it has one, RSS_KIB (sum over its processes);
#   when LABELS has a "port", and it is the head (no other rank than 0) and runs: PORT, PORT_STATE (listening, closed), and HEALTH, the
#   HTTP status of a GET of the labels' "health_path" (default /health), 0 when nothing answered within 1 s.
# REASON, MESSAGE and HINT when docker cannot be asked: what runs here is then unknown. A host without docker, on which there are no
# traces of one either, runs nothing.
#
# Exit codes: 0 looked; 2 wrong parameters; 3 to 7 as docker_start.

main() {
  local container
  require_names
  resolve_docker_folder
  MISSING=("${NAMES[@]}") FOUND=()
  if find_docker || ever_used; then
    need_docker
    find_containers
  fi
  section WORKLOADS
  answer COUNT "${#FOUND[@]}"
  for container in "${MISSING[@]}"; do answer MISSING "$container"; done
  end_section
  ((${#FOUND[@]} == 0)) || load_sockets
  for container in "${!FOUND[@]}"; do begin_health "$container"; done
  for container in "${!FOUND[@]}"; do tell "$container"; done
}

# Whether containers may run here although there is no docker to ask.
ever_used() {
  [[ -e $DOCKER_FOLDER || -e /run/docker.sock || -d /var/lib/docker/containers ]]
}

require_names() {
  local name
  for name in "${NAMES[@]}"; do require_container_name "$name"; done
}

# Sets FOUND, the answers of each container as one text, and MISSING.
find_containers() {
  ask_containers "${NAMES[@]}" || refuse_docker "$?" "$DOCKER_SAID"
  split_answers "$REPLY"
  note_missing
}

note_missing() {
  local name container
  MISSING=()
  for name in "${NAMES[@]}"; do
    for container in "${FOUND[@]}"; do
      [[ $container != *"NAME=${name}"$'\n'* && $container != *"NAME=/${name}"$'\n'* ]] || continue 2
    done
    MISSING+=("$name")
  done
}

# INDEX: asks for the health of a listening port, all at the same time.
begin_health() {
  local path=/health fd
  declare -gA HEALTH_FD PORT_OF
  read_answers "${FOUND[$1]}"
  [[ ${A[STATE]} == running && ${A[RANK]:-0} == 0 ]] || return 0
  [[ ${A[LABELS]} =~ \"port\"[[:space:]]*:[[:space:]]*\"?([0-9]{1,5})[\",}[:space:]] ]] || return 0
  PORT_OF[$1]=$((10#${BASH_REMATCH[1]}))
  [[ ! ${A[LABELS]} =~ \"health_path\"[[:space:]]*:[[:space:]]*\"(/[^\"\\[:space:]]*)\" ]] || path=${BASH_REMATCH[1]}
  tcp_listener "${PORT_OF[$1]}" || return 0
  exec {fd}< <(health_status "$LISTEN_ADDRESS" "${PORT_OF[$1]}" "$path" 2>/dev/null)
  HEALTH_FD[$1]=$fd
}

# INDEX
tell() {
  read_answers "${FOUND[$1]}"
  section WORKLOAD
  answer_container
  tell_times
  tell_memory
  [[ -z ${PORT_OF[$1]:-} ]] || tell_port "${PORT_OF[$1]}" "${HEALTH_FD[$1]:-}"
  end_section
}

tell_times() {
  local started
  [[ ${A[STARTED_AT]} != 0001-* ]] && started=$(date -d "${A[STARTED_AT]}" +%s 2>/dev/null) || return 0
  iso_time "$started"
  answer STARTED_AT "$REPLY"
  [[ ${A[STATE]} != running ]] || answer UPTIME_S "$((EPOCHSECONDS > started ? EPOCHSECONDS - started : 0))"
}

# All processes of the container's cgroup; what they share counts for each.
tell_memory() {
  local line group pid kib=0
  [[ -n ${A[PID]} ]] && slurp "/proc/${A[PID]}/cgroup" || return 0
  while IFS= read -r line; do
    case $line in
      0::*) group=/sys/fs/cgroup${line#0::} ;;
      *:memory:*) group=/sys/fs/cgroup/memory${line#*:memory:} && break ;;
    esac
  done <<<"$REPLY"
  slurp "${group:-}/cgroup.procs" && [[ -n $REPLY ]] || return 0
  for pid in $REPLY; do
    slurp "/proc/$pid/status" && [[ $REPLY =~ VmRSS:[[:space:]]+([0-9]+) ]] || continue
    ((kib += BASH_REMATCH[1], 1))
  done
  answer RSS_KIB "$kib"
}

main
