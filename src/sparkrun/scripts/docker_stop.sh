# Stops and removes containers, and confirms that they are gone.
#
# Parameters
#   NAMES        array of container names
#   GRACE_S      whole seconds between TERM and KILL (default 10)
#   OWNER        application that asks (default sparkrun); containers of others are left alone
#   ONLY_LAUNCH  stop only what this launch started, and let it start nothing more here
#   CACHE        sparkrun cache folder (default: this host's own)
#
# Answers, one section STOP for each name: NAME and RESULT
#   STOPPED       it was there, and is gone
#   GONE          it was not there
#   OTHER_LAUNCH  something else than ONLY_LAUNCH has the name, whoever started it; left alone
#   NOT_OURS      another application has the name (OWNED_BY); left alone
#   SURVIVED      it is still there
# with MESSAGE for the last two; EXIT_CODE of one that was stopped, and KILLED=1 when TERM was not enough. Before any section REASON,
# MESSAGE and HINT when docker cannot be asked.
#
# Exit codes: 0 nothing of this application is left of any name; 1 something is, or may be; 2 wrong parameters, nothing was done;
# 3 to 7 as docker_start, nothing was confirmed.

main() {
  local name
  declare -gA RESULT=() ID=() GATE_OF=() CODE=() OWNED_BY=()
  check_parameters
  need_docker
  resolve_docker_folder
  [[ -z $ONLY_LAUNCH ]] || forbid_start
  for name in "${NAMES[@]}"; do judge "$name"; done
  ((${#ID[@]} == 0)) || stop_all
  finish
}

check_parameters() {
  local name
  OWNER=${OWNER:-sparkrun} GRACE_S=${GRACE_S:-10}
  [[ $GRACE_S =~ ^[0-9]{1,4}$ ]] || refuse 2 bad_parameter "GRACE_S is no whole number of seconds: $GRACE_S"
  [[ $ONLY_LAUNCH =~ ^[A-Za-z0-9_-]*$ ]] || refuse 2 bad_parameter "ONLY_LAUNCH is no word: $ONLY_LAUNCH"
  ((${#NAMES[@]})) || refuse 2 bad_parameter "no names to stop"
  for name in "${NAMES[@]}"; do require_container_name "$name"; done
}

# A start of that launch that is still at work finds this mark and takes itself back.
forbid_start() {
  [[ -d $DOCKER_FOLDER ]] || { mkdir -p -- "$DOCKER_FOLDER" && chmod 700 -- "$DOCKER_FOLDER"; } 2>/dev/null || return 0
  find "$DOCKER_FOLDER" -maxdepth 1 -name 'stopped.*' -mmin +60 -delete 2>/dev/null || :
  { : >"$DOCKER_FOLDER/stopped.$ONLY_LAUNCH"; } 2>/dev/null || :
}

judge() {
  [[ -z ${RESULT[$1]:-} ]] || return 0
  RESULT[$1]=GONE
  inspect_named "$1" || return 0
  OWNED_BY[$1]=$C_OWNER
  if [[ -n $ONLY_LAUNCH && $C_LAUNCH != "$ONLY_LAUNCH" ]]; then
    RESULT[$1]=OTHER_LAUNCH
  elif ! owned_container "$1"; then
    RESULT[$1]=NOT_OURS
  else
    RESULT[$1]=SURVIVED ID[$1]=$C_ID GATE_OF[$1]=$1.$C_LAUNCH CODE[$1]=
    ! container_lives || CODE[$1]=lived
  fi
}

# What docker says of each is not trusted: what counts is whether it is there afterwards.
stop_all() {
  local name
  ask_docker "$((GRACE_S + 20))" stop -t "$GRACE_S" -- "${ID[@]}" || :
  for name in "${!ID[@]}"; do
    [[ -z ${CODE[$name]} ]] || ! inspect_named "${ID[$name]}" || CODE[$name]=$C_EXIT
  done
  ask_docker 30 rm -f -- "${ID[@]}" || :
  REMOVAL_SAID=${DOCKER_SAID%%$'\n'*}
  for name in "${!ID[@]}"; do
    wait_gone "${ID[$name]}" || continue
    RESULT[$name]=STOPPED
    [[ ${GATE_OF[$name]} == *. ]] || rm -rf -- "$DOCKER_FOLDER/${GATE_OF[$name]:?}"
  done
}

# ID: true once there is no such container; a removal by somebody else that is at work is waited for.
wait_gone() {
  local tries=2
  [[ $REMOVAL_SAID != *'already in progress'* ]] || tries=40
  while ((tries--)); do
    inspect_named "$1" || return 0
    nap 0.25
  done
  return 1
}

finish() {
  local name failed=0
  for name in "${NAMES[@]}"; do
    section STOP
    answer NAME "$name"
    answer RESULT "${RESULT[$name]}"
    if [[ ${CODE[$name]:-} =~ ^[0-9]+$ ]]; then
      answer EXIT_CODE "${CODE[$name]}"
      ((CODE[$name] != 137)) || answer KILLED 1
    fi
    explain "$name" || failed=1
    end_section
  done
  exit "$failed"
}

# NAME: false when the name is not free of our containers.
explain() {
  case ${RESULT[$1]} in
    SURVIVED) answer MESSAGE "container $1 on $HOSTNAME cannot be removed${REMOVAL_SAID:+: $REMOVAL_SAID}" ;;
    NOT_OURS)
      answer OWNED_BY "${OWNED_BY[$1]}"
      answer MESSAGE "container $1 on $HOSTNAME belongs to ${OWNED_BY[$1]:-somebody else}"
      ;;
    *) return 0 ;;
  esac
  return 1
}

main
