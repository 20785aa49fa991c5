# What the local executor's workloads do on this host.
#
# Parameters
#   NAMES  array of workload names (empty: all that are recorded)
#   CACHE  sparkrun cache folder (default: this host's own)
#
# Answers: section WORKLOADS with COUNT, and MISSING once for each name without a record; then one section WORKLOAD each:
#   NAME, STATE (running, exited, stale: gone without a word), PID (of the supervisor, leader of its session), OWNER, CLUSTER_ID,
#   LAUNCH, EXIT_CODE, STARTED_AT (ISO 8601), UPTIME_S, LABELS (JSON), ALLOCATIONS (base64 of JSON), LOG_FILE, LOG_OFFSET (byte),
#   PID_FILE, RSS_KIB (sum over the session; what processes share counts for each);
#   when LABELS has a "port" and it runs: PORT, PORT_STATE (listening, closed), and HEALTH, the HTTP status of a GET of the labels'
#   "health_path" (default /health), 0 when nothing answered within 1 s.
#
# Exit codes: 0 looked; 2 wrong parameters.

main() {
  local name
  declare -gA HEALTH_FD=() PORT_OF=()
  for name in "${NAMES[@]}"; do require_name "$name"; done
  resolve_places
  MISSING=()
  if ((${#NAMES[@]})); then known_names; else all_names; fi
  if ((${#NAMES[@]})); then # all processes and sockets of a busy host take a while to read
    scan_recorded
    load_sockets
  fi
  for name in "${NAMES[@]}"; do begin_health "$name"; done
  section WORKLOADS
  answer COUNT "${#NAMES[@]}"
  for name in "${MISSING[@]}"; do answer MISSING "$name"; done
  end_section
  for name in "${NAMES[@]}"; do tell "$name"; done
}

# Splits NAMES into those with a record and MISSING.
known_names() {
  local name known=()
  for name in "${NAMES[@]}"; do
    locate "$name"
    if [[ -e $PID_PATH ]]; then known+=("$name"); else MISSING+=("$name"); fi
  done
  NAMES=("${known[@]}")
}

scan_recorded() {
  local name pids=()
  for name in "${NAMES[@]}"; do
    ! load_workload "$name" || pids+=(${W_PID:+"$W_PID"})
  done
  scan_sessions "${pids[@]}"
}

# NAME: asks for the health of a listening port, all at the same time.
begin_health() {
  local path=/health fd
  load_workload "$1" || return 0
  judge_workload
  [[ $W_STATE == running ]] && slurp "$PID_PATH.labels" || return 0
  [[ $REPLY =~ \"port\"[[:space:]]*:[[:space:]]*\"?([0-9]{1,5})[\",}[:space:]] ]] || return 0
  PORT_OF[$1]=$((10#${BASH_REMATCH[1]}))
  [[ ! $REPLY =~ \"health_path\"[[:space:]]*:[[:space:]]*\"(/[^\"\\[:space:]]*)\" ]] || path=${BASH_REMATCH[1]}
  tcp_listener "${PORT_OF[$1]}" || return 0
  exec {fd}< <(quietly health_status "$LISTEN_ADDRESS" "${PORT_OF[$1]}" "$path")
  HEALTH_FD[$1]=$fd
}

tell() {
  local fd=${HEALTH_FD[$1]:-} pid kib=0
  load_workload "$1" || return 0
  judge_workload
  section WORKLOAD
  answer_workload "$1"
  for pid in $W_MEMBERS; do
    slurp "/proc/$pid/status" || continue
    [[ ! $REPLY =~ VmRSS:[[:space:]]+([0-9]+) ]] || ((kib += BASH_REMATCH[1], 1))
  done
  [[ -z $W_MEMBERS ]] || answer RSS_KIB "$kib"
  [[ -z ${PORT_OF[$1]:-} ]] || tell_port "${PORT_OF[$1]}" "$fd"
  end_section
}

main
