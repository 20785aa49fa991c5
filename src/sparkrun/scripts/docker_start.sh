# Starts the container of a rank. Its main process waits at a gate, and then becomes the engine.
#
# Parameters
#   NAME              container name
#   LAUNCH            word that names this launch
#   OWNER             application that starts it (default sparkrun)
#   IMAGE             image, which has to be here
#   RUN               array: the words of `docker run`, with shell text in place of what only this host knows (see below)
#   GATE              folder name of this launch's gate, below <cache>/docker
#   GATED             1: wait for docker_gate; 0: become the engine at once
#   GATE_TIMEOUT_S    how long the gate waits, counted from the last command that docker_exec ran meanwhile (default 600)
#   SECRET_ENVS       array of K=V for the engine; neither on a command line nor in what docker keeps of the container
#   FIXED_ENTRYPOINT  1: RUN says what to do with the image's entrypoint
#   RESTARTS          1: docker restarts it: it passes the open gate again by itself, until it has failed 5 times within a minute of its start
#   MISSING_SOURCE    a mount whose source is not here: fail (default), warn, or ignore
#   DEAD              array of names of containers of earlier launches, which are removed unless they live
#   TRIAL             1: start nothing; only find out whether docker would take the container, under another name, while NAME still runs
#   CREATE            array of sources to make as folders where they are missing
#   CHECKED           array of sources that must not lead into this host's own folders
#   HUB MODEL_FOLDER RUNTIME_CACHE RUNTIME_CACHES PRUNE_MINUTES DROP_CACHES
#                     what is noted of the caches, and cleared away from them, beside the launch (see upkeep.sh)
#   CACHE             sparkrun cache folder (default: this host's own)
#
# Answers, in section LAUNCH: NAME, WARN once for each missing source, ENTRYPOINT (none, kept, cleared, given), CONTAINER_ID, IMAGE_ID,
# STARTED_AT, GATE (waiting, open); REASON, MESSAGE and HINT when there is no container, with EXIT_CODE and LOG of one that died.
#
# Exit codes (REASON)
#    0 started
#    2 bad_name, bad_parameter
#    3 docker_missing    4 docker_denied    5 docker_down    6 docker_silent    7 docker_failed
#    8 not_ours: a container of that name belongs to another application
#    9 died: it ended before it reached its gate
#   10 not_started: the session that asked for it has ended, or the launch was taken back meanwhile
#   11 running: a live container has the name
#   12 no_image
#   13 no_source, denied_source
#   14 cache_not_writable
#   15 no_gpu_support, no_device    16 no_shell    17 disk_full
#
# What stands in RUN for a value that only this host knows: the same texts as in sparkrun.orchestration.docker.
# shellcheck disable=SC2016
HOST_USER='$(id -u):$(id -g)' HOST_FOLDER='$SPARKRUN_DOCKER' HOST_HOME='$HOME' \
  HOST_INFINIBAND='$(test -e /dev/infiniband && echo --device=/dev/infiniband)' \
  HOST_KFD_GROUP='$(test -e /dev/kfd && stat -c --group-add=%g /dev/kfd)'

IMAGE_FIELDS='IMAGE {{.Id}}
ENTRYPOINT {{json .Config.Entrypoint}}'

main() {
  section LAUNCH
  answer NAME "$NAME"
  check_parameters
  watch_session
  need_docker
  resolve_docker_folder
  exec {IMAGE_FD}< <(image_facts)
  check_image
  resolve_words
  check_sources
  choose_entrypoint
  if [[ $TRIAL == 1 ]]; then
    try_container
    return
  fi
  ensure_folders
  begin_upkeep
  remove_left
  start_container
  confirm
  end_section
}

check_parameters() {
  require_container_name "$NAME"
  OWNER=${OWNER:-sparkrun} GATE_TIMEOUT_S=${GATE_TIMEOUT_S:-600} MISSING_SOURCE=${MISSING_SOURCE:-fail}
  [[ $GATE =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$ ]] || refuse 2 bad_parameter "GATE is no folder name: $GATE"
  [[ $GATE_TIMEOUT_S =~ ^[1-9][0-9]{0,6}$ ]] || refuse 2 bad_parameter "GATE_TIMEOUT_S is no number of seconds: $GATE_TIMEOUT_S"
  [[ $MISSING_SOURCE =~ ^(fail|warn|ignore)$ ]] || refuse 2 bad_parameter "MISSING_SOURCE is not fail, warn or ignore: $MISSING_SOURCE"
  [[ -n $IMAGE ]] || refuse 2 bad_parameter "no image to run"
  [[ ${RUN[*]:0:4} == 'docker run -d --init' ]] || refuse 2 bad_parameter "RUN does not begin with: docker run -d --init"
  require_variables SECRET_ENVS "${SECRET_ENVS[@]}"
}

# --- what is here ----------------------------------------------------------------------------------------------------------------

image_facts() {
  local status=0
  timeout -k 1 10 "$DOCKER" image inspect -f "$IMAGE_FIELDS" -- "$IMAGE" </dev/null 2>&1 || status=$?
  printf '\nEXIT %s\n' "$status"
}

# NAME: removes a dead container of ours, with its gate; refuses to replace what lives or is another's. False when there is none.
remove_dead() {
  inspect_named "$1" || return 1
  owned_container "$1" || refuse 8 not_ours "container $1 on $HOSTNAME belongs to ${C_OWNER:-somebody else}" "remove it there, or choose another name"
  ! container_lives || refuse 11 running "container $1 already runs on $HOSTNAME" "stop it first"
  remove_container "$C_ID"
  [[ -z $C_LAUNCH ]] || rm -rf -- "$DOCKER_FOLDER/$1.$C_LAUNCH"
}

# What is left of earlier launches. What cannot be removed stays: it is in nobody's way.
remove_left() {
  local name
  for name in "${DEAD[@]}"; do
    [[ $name == "$NAME" ]] || (remove_dead "$name") >/dev/null || :
  done
}

# ID: by its id, so that it can be no other that has the name by now.
remove_container() {
  local status=0
  ask_docker 30 rm -f -- "$1" || status=$?
  ((status == 0)) || [[ $DOCKER_SAID =~ [Nn]o\ such\ container|already\ in\ progress ]] || refuse_docker "$status" "$DOCKER_SAID"
}

# Sets IMAGE_ID and IMAGE_ENTRYPOINT, its words.
check_image() {
  local line said='' status=1
  IMAGE_ID='' IMAGE_ENTRYPOINT=()
  while IFS= read -r line; do
    case $line in
      'IMAGE '*) IMAGE_ID=${line#IMAGE } ;;
      'ENTRYPOINT '*) read_entrypoint "${line#ENTRYPOINT }" ;;
      'EXIT '*) status=${line#EXIT } ;;
      *) said+=${line:+$line$'\n'} ;;
    esac
  done <&"$IMAGE_FD"
  ((status)) || return 0
  [[ ! $said =~ [Nn]o\ such\ image|not\ known|[Nn]o\ such\ object ]] ||
    refuse 12 no_image "image $IMAGE is not on $HOSTNAME" "pull it there: docker pull $IMAGE"
  refuse_docker "$status" "$said"
}

# JSON: a list of words, null or [].
read_entrypoint() {
  local text=${1#'['}
  text=${text%']'}
  [[ $1 == '['*']' && -n $text ]] || return 0
  IFS=, read -r -a IMAGE_ENTRYPOINT <<<"${text//\"/}"
}

# Sets WORDS: RUN with this host's own values.
resolve_words() {
  local word
  WORDS=("$DOCKER") OWN_USER=0
  for word in "${RUN[@]:1}"; do
    case $word in
      "$HOST_USER") OWN_USER=1 WORDS+=("$UID:${GROUPS[0]}") ;;
      "$HOST_INFINIBAND") [[ ! -e /dev/infiniband ]] || WORDS+=(--device=/dev/infiniband) ;;
      "$HOST_KFD_GROUP") [[ ! -e /dev/kfd ]] || WORDS+=("$(stat -c --group-add=%g /dev/kfd)") ;;
      "seccomp=$HOST_FOLDER/"*) WORDS+=("seccomp=$DOCKER_FOLDER/${word#"seccomp=$HOST_FOLDER/"}") ;;
      *) resolve_path "$word" && WORDS+=("$REPLY") ;;
    esac
  done
  [[ -z $PODMAN ]] || ((UID == 0)) || suit_rootless_podman
}

# podman of a user who is not root gives the container other user ids, so that it could not read what it mounts, and may not raise limits.
suit_rootless_podman() {
  local at
  for ((at = 1; at < ${#WORDS[@]} - 4; at++)); do
    [[ ${WORDS[at - 1]} != --ulimit ]] || { lower_limit "${WORDS[at]}" && WORDS[at]=$REPLY; }
  done
  ((OWN_USER == 0)) || WORDS=("${WORDS[@]:0:4}" --userns=keep-id "${WORDS[@]:4}")
}

# NAME=SOFT[:HARD], -1 for none: what of it this user may have.
lower_limit() {
  local name=${1%%=*} wanted=${1#*=} most unit=1
  REPLY=$1
  case $name in
    memlock) most=$(ulimit -H -l) unit=1024 ;;
    stack) most=$(ulimit -H -s) unit=1024 ;;
    nofile) most=$(ulimit -H -n) ;;
    *) return 0 ;;
  esac
  [[ $most != unlimited ]] || return 0
  ((most *= unit, 1))
  lower_to "${wanted%%:*}" "$most"
  wanted=$REPLY:${wanted##*:}
  lower_to "${wanted##*:}" "$most"
  REPLY=$name=${wanted%%:*}:$REPLY
}

lower_to() {
  REPLY=$1
  (($1 >= 0 && $1 <= $2)) || REPLY=$2
}

# PATH: with the places of this host.
resolve_path() {
  case $1 in
    "$HOST_FOLDER/"*) REPLY=$DOCKER_FOLDER/${1#"$HOST_FOLDER/"} ;;
    "$HOST_HOME/"*) REPLY=$HOME/${1#"$HOST_HOME/"} ;;
    *) REPLY=$1 ;;
  esac
}

check_sources() {
  local source at
  for source in "${CHECKED[@]}"; do
    resolve_path "$source"
    ! denied_source "$(readlink -m -- "$REPLY")" || refuse 13 denied_source "$REPLY on $HOSTNAME must not be mounted: it leads to $DENIED"
  done
  for source in "${CREATE[@]}"; do
    resolve_path "$source"
    [[ -e $REPLY ]] || mkdir -p -- "$REPLY" 2>/dev/null || refuse 13 no_source "cannot make the folder $REPLY on $HOSTNAME"
  done
  for ((at = 1; at < ${#WORDS[@]} - 4; at++)); do
    [[ ${WORDS[at - 1]} != -v || ${WORDS[at]} != /* || ${WORDS[at]} == "$DOCKER_FOLDER"/* ]] || check_source "${WORDS[at]%%:*}"
  done
}

check_source() {
  [[ ! -e $1 ]] || return 0
  case $MISSING_SOURCE in
    fail) refuse 13 no_source "nothing to mount at $1 on $HOSTNAME" "put it there, or set mounts.missing_source: warn" ;;
    warn) answer WARN "nothing to mount at $1 on $HOSTNAME; docker makes an empty folder" ;;
  esac
}

# PATH without links: whether it is, or is in, one of this host's own folders; DENIED says which.
denied_source() {
  local folder
  for folder in /etc /boot /proc /sys /dev /root /run /var/run /var/lib/docker; do
    DENIED=$folder
    [[ $1 != "$folder" && $1 != "$folder"/* ]] || return 0
  done
  DENIED=$1
  [[ $1 == / || $1 == */docker.sock || $1/ == */.ssh/* ]]
}

# --- the image's entrypoint ------------------------------------------------------------------------------------------------------

# An entrypoint that runs the words after it is kept; one that is a program of its own would swallow them.
choose_entrypoint() {
  if [[ $FIXED_ENTRYPOINT == 1 ]]; then
    ENTRYPOINT=given
  elif ((${#IMAGE_ENTRYPOINT[@]} == 0)); then
    ENTRYPOINT=none
  elif passes_on "${IMAGE_ENTRYPOINT[@]}"; then
    ENTRYPOINT=kept
  else
    clear_entrypoint
  fi
}

clear_entrypoint() {
  ENTRYPOINT=cleared
  WORDS=("${WORDS[@]:0:4}" --entrypoint '' "${WORDS[@]:4}")
}

# WORD...: by the name of the last program.
passes_on() {
  local word last=''
  for word in "$@"; do [[ $word == -* ]] || last=${word##*/}; done
  case $last in
    *entrypoint* | *entry_point* | tini | dumb-init | docker-init | catatonit | env) ;;
    *) return 1 ;;
  esac
}

# Nobody waits for it: it goes on when this script has ended.
begin_upkeep() {
  exec {UPKEEP_FD}< <(quietly upkeep_of_docker)
}

upkeep_of_docker() {
  local folder=$CACHE_DIR/images/used
  { mkdir -p -- "$folder" && touch -- "$folder/${IMAGE_ID#sha256:}"; } || :
  upkeep
  remove_lost_gates || :
}

# Gates, an hour old or more, whose containers somebody has removed by other ways.
remove_lost_gates() {
  local gate found=() known
  find_tool find || return 0
  mapfile -d '' -t found < <("$REPLY" "$DOCKER_FOLDER" -mindepth 1 -maxdepth 1 -type d -mmin +60 -print0)
  ((${#found[@]})) || return 0
  known=$'\n'$(timeout -k 1 20 "$DOCKER" ps -a --format '{{.Names}}.{{.Label "sparkrun.launch"}}' </dev/null)$'\n' || return 0
  for gate in "${found[@]}"; do
    [[ ! ${gate##*/} =~ \.[0-9a-f]{12}(\.trial)?$ || $known == *$'\n'"${gate##*/}"$'\n'* ]] || rm -rf -- "$gate"
  done
}

ensure_folders() {
  STATE=$DOCKER_FOLDER/$GATE
  umask 022
  trap 'leave' EXIT
  [[ $DOCKER_FOLDER == /* && $DOCKER_FOLDER != *[:$'\n']* ]] || refuse 14 cache_not_writable "docker cannot mount from the cache folder $CACHE_DIR"
  { mkdir -p -- "$DOCKER_FOLDER" && chmod 700 -- "$DOCKER_FOLDER" && rm -rf -- "$STATE" && mkdir -- "$STATE" && chmod 777 -- "$STATE"; } 2>/dev/null ||
    refuse_folder
  [[ " ${WORDS[*]} " != *" seccomp=$DOCKER_FOLDER/seccomp.json "* ]] || write_profile
  write_gate
}

# Why the folder cannot be written: full is not the same as forbidden.
refuse_folder() {
  local said
  said=$({ : >"$DOCKER_FOLDER/.probe.$$" && printf x >"$DOCKER_FOLDER/.probe.$$"; } 2>&1 || mkdir -p -- "$DOCKER_FOLDER/.probe" 2>&1) || :
  rm -rf -- "$DOCKER_FOLDER/.probe.$$" "$DOCKER_FOLDER/.probe" 2>/dev/null || :
  [[ $said != *'No space left'* ]] || refuse 17 disk_full "no space left on $HOSTNAME for $DOCKER_FOLDER" "free some there: df -h; docker system df"
  refuse 14 cache_not_writable "cannot write to $DOCKER_FOLDER on $HOSTNAME"
}

write_profile() {
  local file=$DOCKER_FOLDER/seccomp.json
  seccomp_profile
  { printf '%s\n' "$REPLY" >"$file.$$" && mv -fT -- "$file.$$" "$file"; } 2>/dev/null || { rm -f -- "$file.$$" && refuse_folder; }
}

# --- starting --------------------------------------------------------------------------------------------------------------------

# Docker makes the container of a start, as far as that goes without what only a start brings; nobody else takes it for a rank.
try_container() {
  local status=0 at words=()
  STATE=$DOCKER_FOLDER/$GATE.trial
  umask 022
  trap 'forget_trial' EXIT
  { mkdir -p -- "$DOCKER_FOLDER" && chmod 700 -- "$DOCKER_FOLDER" && mkdir -p -- "$STATE"; } 2>/dev/null || refuse_folder
  [[ " ${WORDS[*]} " != *" seccomp=$DOCKER_FOLDER/seccomp.json "* ]] || write_profile
  for ((at = 3; at < ${#WORDS[@]}; at++)); do
    case ${WORDS[at]} in
      --name) words+=(--name "$NAME.trial") && ((++at)) ;;
      --label) [[ ${WORDS[++at]} == sparkrun.* ]] || words+=(--label "${WORDS[at]}") ;;
      "$DOCKER_FOLDER/$GATE:"*) words+=("$STATE:${WORDS[at]##*:}") ;;
      *) words+=("${WORDS[at]}") ;;
    esac
  done
  ask_docker 30 rm -f -- "$NAME.trial" || :
  ask_docker 110 create "${words[@]}" || status=$?
  TRIED=${REPLY##*$'\n'}
  ((status == 0)) || explain_run "$status" "$DOCKER_SAID"
  end_section
}

forget_trial() {
  [[ -z ${TRIED:-} ]] || timeout -k 1 30 "$DOCKER" rm -f -- "$TRIED" >/dev/null 2>&1 </dev/null || :
  rm -rf -- "$STATE"
}

start_container() {
  run_container
  until await_gate; do
    # The image's entrypoint did something else with the words than to run them.
    [[ $ENTRYPOINT == kept ]] || tell_death
    remove_container "$CONTAINER_ID"
    clear_entrypoint
    run_container
  done
}

run_container() {
  local status=0
  check_wanted
  ask_docker 110 "${WORDS[@]:1}" || status=$?
  if [[ $DOCKER_SAID == *'already in use'* ]] && ((status)) && remove_dead "$NAME"; then
    status=0
    ask_docker 110 "${WORDS[@]:1}" || status=$?
  fi
  ((status == 0)) || explain_run "$status" "$DOCKER_SAID"
  CONTAINER_ID=${REPLY##*$'\n'}
  STARTED=$EPOCHSECONDS
}

# Whether the container stands at its gate, or has passed it; false when it has ended, or does something else for 30 s.
await_gate() {
  local until_ms look_ms
  now_ms
  until_ms=$((NOW_MS + 30000)) look_ms=$((NOW_MS + 200))
  while [[ ! -e $STATE/waiting ]]; do
    if ((NOW_MS >= look_ms)); then
      inspect_named "$CONTAINER_ID" && container_lives && ((NOW_MS < until_ms)) || { [[ -e $STATE/waiting ]] && return 0; } || return 1
      look_ms=$((NOW_MS + 300))
    fi
    nap 0.02
    now_ms
  done
}

# The container did not reach its gate.
tell_death() {
  local line ended
  inspect_named "$CONTAINER_ID" || refuse 9 died "container $NAME vanished from $HOSTNAME before it reached its gate"
  read_log_tail 20 "$CONTAINER_ID"
  # What docker's init (tini, podman's catatonit) says.
  [[ ! ${LOG_LINES[*]} =~ exec\ sh\ failed|failed\ to\ exec\ pid1 ]] || refuse_without_shell
  container_lives && ended="within 30 s" || ended="(exit code $C_EXIT)"
  for line in "${LOG_LINES[@]}"; do answer LOG "$line"; done
  container_lives || answer EXIT_CODE "$C_EXIT"
  refuse 9 died "container $NAME on $HOSTNAME did not reach its gate $ended${LOG_LINES[0]:+: ${LOG_LINES[-1]}}" \
    "its image may need another executor_config.entrypoint"
}

# EXIT_CODE TEXT: why docker did not run it.
explain_run() {
  local text=${2#*Error response from daemon: }
  text=${text%%$'\n'*}
  case $2 in
    *'already in use'*) refuse 11 running "another container $NAME was started on $HOSTNAME meanwhile" ;;
    *'could not select device driver'*)
      refuse 15 no_gpu_support "docker on $HOSTNAME cannot hand GPUs to containers" "install the NVIDIA container toolkit there: sparkrun setup"
      ;;
    *'CDI'* | *'nvidia.com/gpu='*) refuse 15 no_gpu_support "docker on $HOSTNAME: $text" "renew the list of devices there: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" ;;
    *'container-init binary not found'*)
      refuse 7 docker_failed "podman on $HOSTNAME lacks the program that becomes the first process of a container" "install catatonit there"
      ;;
    *'error gathering device information'*) refuse 15 no_device "docker on $HOSTNAME: $text" ;;
    *'"sh"'*'executable file not found'* | *'"sh"'*'no such file'*) refuse_without_shell ;;
    *'no space left on device'*) refuse 17 disk_full "no space left for docker on $HOSTNAME" "free some there: docker system df" ;;
    *) refuse_docker "$1" "$2" ;;
  esac
}

refuse_without_shell() {
  refuse 16 no_shell "image $IMAGE has no shell (sh), which the docker executor needs" "choose another image with --image"
}

# Ends the script when nobody wants the container any more.
check_wanted() {
  [[ ! -e $DOCKER_FOLDER/stopped.$LAUNCH ]] || refuse 10 not_started "the launch of $NAME was taken back"
  ! session_gone || refuse 10 not_started "the session that asked for $NAME has ended"
}

# Answers first: when nobody hears them any more, the container is not wanted any more.
confirm() {
  local gate=open
  trap '' PIPE
  [[ $GATED != 1 ]] || gate=waiting
  iso_time "$STARTED"
  {
    answer CONTAINER_ID "$CONTAINER_ID" && answer IMAGE_ID "$IMAGE_ID" && answer ENTRYPOINT "$ENTRYPOINT" && answer STARTED_AT "$REPLY" &&
      answer GATE "$gate"
  } 2>/dev/null || exit 10
  check_wanted
  CONFIRMED=1
}

# Whatever this script leaves early, goes: the container of this launch, and its gate.
leave() {
  [[ -z ${CONFIRMED:-} ]] || return 0
  if timeout -k 1 10 "$DOCKER" inspect --type container -f '{{index .Config.Labels "sparkrun.launch"}}' -- "$NAME" 2>/dev/null </dev/null |
    grep_word "$LAUNCH"; then
    timeout -k 1 30 "$DOCKER" rm -f -- "$NAME" >/dev/null 2>&1 </dev/null || :
  fi
  rm -rf -- "$STATE"
}

# WORD: whether stdin is just that line.
grep_word() {
  IFS= read -r REPLY && [[ -n $1 && $REPLY == "$1" ]]
}

main
