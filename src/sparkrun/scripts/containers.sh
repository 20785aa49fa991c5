# What docker says of containers: one text each, and what of it is told of a workload.

# One answer a line; a label of ours holds no line break. Go's `json` writes texts in JSON, which makes labels of an older container JSON too.
CONTAINER_ANSWERS='CONTAINER_ID={{.Id}}
NAME={{.Name}}
STATE={{.State.Status}}
EXIT_CODE={{.State.ExitCode}}
OOM={{.State.OOMKilled}}
PID={{.State.Pid}}
STARTED_AT={{json .State.StartedAt}}
RESTARTS={{.RestartCount}}
IMAGE={{.Config.Image}}
IMAGE_ID={{.Image}}
OWNER={{index .Config.Labels "sparkrun.distribution"}}
CLUSTER_ID={{index .Config.Labels "sparkrun.cluster_id"}}
LAUNCH={{index .Config.Labels "sparkrun.launch"}}
RANK={{index .Config.Labels "sparkrun.rank"}}
AUTO_REMOVE={{index .Config.Labels "sparkrun.auto_remove"}}
ALLOCATIONS={{index .Config.Labels "sparkrun.gpu_allocations"}}
LABELS={{with index .Config.Labels "sparkrun.job"}}{{.}}{{else}}{{with index .Config.Labels "sparkrun.cluster_id"}}{"cluster_id":{{json .}}'
for REPLY in intent_id recipe runtime model served_model_name; do
  CONTAINER_ANSWERS+=",\"$REPLY\":{{json (index \$.Config.Labels \"sparkrun.$REPLY\")}}"
done
CONTAINER_ANSWERS+='}{{end}}{{end}}
END=1'

# NAME...: leaves in REPLY what docker answers of these containers, or without names of all that carry our label. Otherwise its exit code,
# and DOCKER_SAID.
ask_containers() {
  local status=0 wanted=("$@")
  if (($# == 0)); then
    ask_docker 8 ps -a -q --no-trunc --filter label=sparkrun.cluster_id || return
    # shellcheck disable=SC2206
    wanted=($REPLY)
  fi
  REPLY=
  ((${#wanted[@]})) || return 0
  ask_docker 8 inspect --type container -f "$CONTAINER_ANSWERS" -- "${wanted[@]}" || status=$?
  # One that is removed between the two looks is no trouble.
  ((status == 0)) || [[ $DOCKER_SAID =~ [Nn]o\ such\ (container|object) ]] || return "$status"
}

# TEXT: sets FOUND, the answers of each container as one text.
split_answers() {
  local line text=''
  FOUND=()
  while IFS= read -r line; do
    if [[ $line == END=1 ]]; then
      FOUND+=("$text")
      text=
    elif [[ $line == *=* ]]; then
      text+=$line$'\n'
    fi
  done <<<"${1//<no value>/}"
}

# TEXT: its answers in A.
read_answers() {
  local key value
  declare -gA A=()
  while IFS='=' read -r key value; do
    [[ -z $key ]] || A[$key]=$value
  done <<<"$1"
  A[NAME]=${A[NAME]#/}
  A[STARTED_AT]=${A[STARTED_AT]//\"/}
}

# Tells who it is and how it is, from A.
answer_container() {
  local key
  find_gate
  [[ ${A[GATE]:-} != gave_up ]] || A[STATE]=exited
  [[ ${A[STATE]} != running ]] || A[EXIT_CODE]=
  [[ ${A[OOM]} != true ]] || answer OOM 1
  ((A[PID])) || A[PID]=
  for key in NAME STATE EXIT_CODE PID OWNER CLUSTER_ID LAUNCH CONTAINER_ID IMAGE IMAGE_ID RESTARTS LABELS ALLOCATIONS AUTO_REMOVE GATE; do
    answer "$key" "${A[$key]:-}"
  done
}

# Sets A[GATE] from what the gate left in its folder.
find_gate() {
  local folder=$DOCKER_FOLDER/${A[NAME]}.${A[LAUNCH]} mark
  for mark in waiting passed gave_up; do
    [[ ! -e $folder/$mark ]] || A[GATE]=$mark
  done
}
