# The docker program of this host (or podman, which takes the same words), what may be wrong with it, and what it says of a container.

# Exit code of an engine's gate that nobody opened in time.
GATE_TIMEOUT_CODE=78

CONTAINER_FIELDS='{{.Id}}
{{.State.Status}}
{{.State.ExitCode}}
{{.State.OOMKilled}}
{{index .Config.Labels "sparkrun.distribution"}}
{{index .Config.Labels "sparkrun.launch"}}
{{index .Config.Labels "sparkrun.cluster_id"}}
{{json .State.FinishedAt}}'

# Sets DOCKER, or ends the script.
need_docker() {
  find_docker || refuse 3 docker_missing "docker is not installed on $HOSTNAME" "install it there, or use --executor local"
}

# Sets DOCKER, and PODMAN where it is that: by its own name, by a link, or by a script that calls it.
find_docker() {
  find_tool docker || find_tool podman || return 1
  DOCKER=$REPLY PODMAN=''
  { IFS= read -r -d '' -n 512 REPLY <"$DOCKER"; } 2>/dev/null || :
  [[ $DOCKER != */podman && ! $DOCKER -ef ${DOCKER%/*}/podman && $REPLY != '#!'*podman* ]] || PODMAN=1
}

# SECONDS ARGUMENTS...: leaves what docker prints in REPLY and what it complains of in DOCKER_SAID; its exit code, 124 after that time.
ask_docker() {
  local status=0
  [[ -n ${SAID_FD:-} ]] || exec {SAID_FD}<> <(:)
  REPLY=$(timeout -k 1 "$1" "$DOCKER" "${@:2}" </dev/null 2>&"$SAID_FD") || status=$?
  DOCKER_SAID=
  ! read -r -t 0 -u "$SAID_FD" || IFS= read -r -d '' -t 0.02 -u "$SAID_FD" DOCKER_SAID || :
  return "$status"
}

# EXIT_CODE TEXT: ends the script with what is wrong with docker as a whole, or with its own words.
refuse_docker() {
  local line=$2
  # podman says other things before.
  [[ $line != *$'\n'Error:* ]] || line=Error:${line#*$'\n'Error:}
  line=${line%%$'\n'*} line=${line#docker: } line=${line#Error response from daemon: }
  case $1:$2 in
    124:* | 137:*) refuse 6 docker_silent "docker does not answer on $HOSTNAME" "look at the daemon there: systemctl status docker" ;;
    *'ermission denied'*'ocker'* | *'ocker'*'ermission denied'*)
      refuse 4 docker_denied "this user may not use docker on $HOSTNAME" "add the user to the group docker there, and log in anew"
      ;;
    *'annot connect to the Docker daemon'* | *'annot connect to Podman'* | *'docker daemon running'* | *.sock*'onnection refused'* | *'nil pointer'*'struct field Info'*)
      refuse 5 docker_down "the docker daemon does not run on $HOSTNAME" "start it there: sudo systemctl start docker"
      ;;
    *) refuse 7 docker_failed "docker on $HOSTNAME: ${line:-ended with exit code $1}" ;;
  esac
}

# NAME: sets C_ID, C_STATE (docker's word), C_EXIT, C_OOM, C_OWNER, C_LAUNCH, C_CLUSTER and C_FINISHED; false when there is no such container. Ends
# the script when docker cannot say.
inspect_named() {
  local status=0 fields
  ask_docker 10 inspect --type container -f "$CONTAINER_FIELDS" -- "$1" || status=$?
  if ((status)); then
    [[ ! $DOCKER_SAID =~ [Nn]o\ such\ (container|object) ]] || return 1
    refuse_docker "$status" "$DOCKER_SAID"
  fi
  mapfile -t fields <<<"${REPLY//<no value>/}"
  C_ID=${fields[0]} C_STATE=${fields[1]} C_EXIT=${fields[2]} C_OOM=${fields[3]}
  C_OWNER=${fields[4]:-} C_LAUNCH=${fields[5]:-} C_CLUSTER=${fields[6]:-} C_FINISHED=${fields[7]//\"/}
}

# Whether the inspected container has processes.
container_lives() {
  [[ $C_STATE == running || $C_STATE == paused || $C_STATE == restarting ]]
}

# NAME: whether the inspected container is ours to remove. One of an earlier version may lack the owner's label, but then its name is ours.
owned_container() {
  [[ $C_OWNER == "${OWNER:-sparkrun}" ]] ||
    [[ -z $C_OWNER && (-n $C_CLUSTER || $1 =~ ^[a-z][a-z0-9-]{0,47}_[0-9a-f]{16}_[0-9a-f]{12}_) ]]
}

# Sets DOCKER_FOLDER, where the gates of this host's launches are.
resolve_docker_folder() {
  resolve_places
  DOCKER_FOLDER=$CACHE_DIR/docker
}

# NAME: ends the script unless it is a name of a container.
require_container_name() {
  local LC_ALL=C
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{1,127}$ ]] || refuse 2 bad_name "'$1' is not a container name (letters, digits, '_', '.', '-'; 2 to 128)"
}

# LIST K=V...: ends the script unless each has a name; a value is never shown.
require_variables() {
  local pair LC_ALL=C
  for pair in "${@:2}"; do
    [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || refuse 2 bad_parameter "an entry of $1 has no variable name before '='"
  done
}

# K=V...: lines of sh that export them, in REPLY.
export_lines() {
  local pair value text=''
  for pair in "$@"; do
    value=${pair#*=}
    text+="export ${pair%%=*}='${value//\'/\'\\\'\'}'"$'\n'
  done
  REPLY=$text
}

# NUMBER CONTAINER: its last lines of log in LOG_LINES, each cut to 2000 bytes.
read_log_tail() {
  local line LC_ALL=C
  LOG_LINES=()
  while IFS= read -r line; do
    ((${#line} <= 2000)) || line=${line: -2000}
    LOG_LINES+=("$line")
  done < <(timeout -k 1 10 "$DOCKER" logs --tail "$1" -- "$2" </dev/null 2>&1)
}
