# Stands before every script: answers, small files, time, processes, and the places of this host.
#
# Needs bash 5, coreutils and /proc. Forks are dear, so a function that yields a text leaves it in REPLY.

set -euo pipefail
shopt -s nullglob
# LINES is a parameter, not the height of a window.
shopt -u checkwinsize

# --- answers -------------------------------------------------------------------------------------------------------------------

# KEY VALUE: one line, whatever the value holds.
answer() {
  local value=$2
  if [[ $value == *[$'\\\n\r']* ]]; then
    value=${value//'\'/'\\'}
    value=${value//$'\n'/'\n'}
    value=${value//$'\r'/'\r'}
  fi
  printf '%s=%s\n' "$1" "$value"
}

section() {
  SECTION=$1
  printf 'SPARKRUN_%s_START\n' "$SECTION"
}

end_section() {
  [[ -z ${SECTION:-} ]] || printf 'SPARKRUN_%s_END\n' "$SECTION"
  SECTION=
}

# EXIT_CODE REASON MESSAGE [HINT]: says why not, and ends the script.
refuse() {
  answer REASON "$2"
  answer MESSAGE "$3"
  [[ -z ${4:-} ]] || answer HINT "$4"
  end_section
  exit "$1"
}

# --- small files ---------------------------------------------------------------------------------------------------------------

# FILE: its whole text without the last newline; empty and false when it cannot be read.
slurp() {
  REPLY=
  { IFS= read -r -d '' REPLY <"$1"; } 2>/dev/null || [[ -n $REPLY ]] || return 1
  REPLY=${REPLY%$'\n'}
}

# FILE: its first line; empty and false when there is none.
first_line() {
  REPLY=
  { IFS= read -r REPLY <"$1"; } 2>/dev/null || [[ -n $REPLY ]]
}

# FILE TEXT
write_file() {
  { printf '%s\n' "$2" >"$1"; } 2>/dev/null
}

# --- time ----------------------------------------------------------------------------------------------------------------------

now_ms() {
  NOW_MS=$((${EPOCHREALTIME/[.,]/} / 1000))
}

# SECONDS (such as 0.5): milliseconds.
to_ms() {
  local whole=${1%%.*} part=000
  [[ $1 != *.* ]] || part=${1#*.}000
  REPLY=$((10#${whole:-0} * 1000 + 10#${part:0:3}))
}

is_seconds() {
  [[ $1 =~ ^[0-9]{1,9}(\.[0-9]{1,6})?$ ]]
}

# EPOCH_S: the moment as ISO 8601 in UTC.
iso_time() {
  TZ=UTC0 printf -v REPLY '%(%Y-%m-%dT%H:%M:%S+00:00)T' "$1"
}

# SECONDS: waits without a process.
nap() {
  [[ -n ${NAP_FD:-} ]] || exec {NAP_FD}<> <(:)
  read -r -t "$1" -u "$NAP_FD" || :
}

# FD SECONDS TAKE LOOK: hands each line that comes to TAKE, and calls LOOK after each, and whenever none has come for so long, until the
# end. Of a line that does not end, such as a progress bar, only the last 32 KiB are kept.
each_line() {
  local line='' part status
  while :; do
    status=0
    IFS= read -r -t "$2" -u "$1" part || status=$?
    line+=$part
    if ((status == 0)); then
      "$3" "$line"
      line=
    elif ((status <= 128)); then
      break
    fi
    ((${#line} <= 65536)) || line=${line: -32768}
    "$4"
  done
  [[ -z $line ]] || "$3" "$line"
}

# FD PID SECONDS TAKE LOOK: the same for the output of a child that ends with this script, whatever ends that; leaves its exit code in REPLY.
follow_child() {
  local child=$2
  trap 'kill "$child" 2>/dev/null || :' EXIT
  each_line "$1" "${@:3}"
  REPLY=0
  wait "$child" || REPLY=$?
  trap - EXIT
}

# --- processes -----------------------------------------------------------------------------------------------------------------

# COMMAND...: in a child that holds nothing of this session but the pipe to this script, and no lock. (Redirections of the command itself
# would leave it the streams that they replace, for as long as it runs.)
quietly() {
  exec </dev/null 2>/dev/null
  [[ -z ${CLAIM_FD:-} ]] || exec {CLAIM_FD}<&-
  "$@"
}

# PID: sets STAT_STATE, STAT_PARENT, STAT_GROUP, STAT_SESSION and STAT_TICKS (start, in clock ticks since boot).
process_stat() {
  local line
  { IFS= read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name stands in parentheses and may hold anything; fields are counted after it (proc(5)).
  # shellcheck disable=SC2086
  set -- ${line##*) }
  STAT_STATE=$1 STAT_PARENT=$2 STAT_GROUP=$3 STAT_SESSION=$4 STAT_TICKS=${20}
}

# PID [TICKS]: whether that process, and not a later one of the same number, still runs. A zombie does not.
alive() {
  process_stat "$1" && [[ $STAT_STATE != [ZX] && ${2:-$STAT_TICKS} == "$STAT_TICKS" ]]
}

# Remembers who started this script: its parents up to the ssh server's process of the session, or just its parent.
watch_session() {
  local pid=$$
  SESSION_CHAIN=()
  while ((${#SESSION_CHAIN[@]} < 4)) && process_stat "$pid"; do
    SESSION_CHAIN+=("$pid:$STAT_PARENT")
    pid=$STAT_PARENT
    first_line "/proc/$pid/comm" || :
    [[ $REPLY != sshd* && $REPLY != dropbear* ]] || return 0
  done
  SESSION_CHAIN=("${SESSION_CHAIN[@]:0:1}")
}

# Whether those who started this script are gone. With LIFELINE=1 the end of stdin says so too: a shared ssh connection outlives
# the session, and its process with it.
session_gone() {
  local link
  [[ -z ${SPARKRUN_NO_SESSION_GUARD:-} ]] || return 1
  [[ ${LIFELINE:-} != 1 ]] || ! read -r -t 0 -u 0 || return 0
  for link in "${SESSION_CHAIN[@]}"; do
    process_stat "${link%:*}" && [[ $STAT_PARENT == "${link#*:}" ]] || return 0
  done
  return 1
}

# NAME: the full path of a program on PATH.
find_tool() {
  local dir IFS=: -
  set -f
  for dir in ${PATH:-}; do
    ! is_program "${dir:-.}/$1" || return 0
  done
  REPLY=
  return 1
}

# FD: takes a lock without waiting; false when another has it. On a host without flock(1) nothing is locked.
lock_now() {
  ! find_tool flock || "$REPLY" -n "$1"
}

is_program() {
  REPLY=$1
  [[ -x $1 && ! -d $1 ]]
}

# Sets FIND, or ends the script. The find of a small system has no -printf, and would see nothing.
need_find() {
  find_tool find && FIND=$REPLY && "$FIND" / -maxdepth 0 -printf '' 2>/dev/null ||
    refuse 1 find_missing "GNU find is not installed on $HOSTNAME" "install findutils there"
}

# --- places of this host -------------------------------------------------------------------------------------------------------

# The home folder from the user database when the session has none.
resolve_home() {
  if [[ -z ${HOME:-} ]]; then
    unset HOME
    HOME=~
    export HOME
  fi
}

# PATH: with a leading ~ replaced by this host's home.
expand_home() {
  case $1 in
    '~') REPLY=$HOME ;;
    '~/'*) REPLY=$HOME/${1#'~/'} ;;
    *) REPLY=$1 ;;
  esac
}

# Sets CACHE_DIR, and the PIDS and LOGS folders of the local executor.
resolve_places() {
  resolve_home
  expand_home "${CACHE:-${SPARKRUN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sparkrun}}"
  CACHE_DIR=${REPLY%/}
  PIDS=$CACHE_DIR/local/pids
  LOGS=$CACHE_DIR/local/logs
}

# FOLDER: whether it is, or can be made, a folder this user can write to.
writable_folder() {
  local folder=$1
  while [[ -n $folder && ! -e $folder ]]; do folder=${folder%/*}; done
  [[ -d ${folder:-/} && -w ${folder:-/} && -x ${folder:-/} ]]
}
