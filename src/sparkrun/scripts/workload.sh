# The files that the local executor keeps of each workload, and what they and /proc say of it.
#
# In <cache>/local/pids, for a workload NAME:
#   NAME.pid              process id of its supervisor, which leads a session of its own
#   NAME.pid.start        "TICKS BOOT_ID EPOCH_S OOM_KILLS": start of that process (proc(5) field 22), and the kernel's count of
#                         out-of-memory kills then, so that neither a recycled number nor an old kill is taken for this launch's
#   NAME.pid.owner        application that started it
#   NAME.pid.allocations  base64 of JSON
#   NAME.pid.labels       JSON
#   NAME.pid.cluster      cluster id
#   NAME.pid.launch       word that names the launch
#   NAME.pid.log          path of the log, and the byte at which this launch's part of it begins
#   NAME.pid.exit         "CODE EPOCH_S", written when the engine has ended
#   NAME.pid.stop         there while it is being stopped
#   NAME.pid.lock         held while any of these is written
#   NAME.pid.at           path of the pid file when that is kept elsewhere
# Earlier versions wrote the pid, owner, allocations and lock files alone.

RECORD_FILES=(.exit .stop .start .owner .allocations .labels .cluster .launch .log)

valid_name() {
  local LC_ALL=C
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$ ]]
}

# NAME: sets PID_PATH.
locate() {
  PID_PATH=$PIDS/$1.pid
  ! first_line "$PID_PATH.at" || PID_PATH=$REPLY
}

# Sets NAMES to every recorded workload.
all_names() {
  local file
  NAMES=()
  for file in "$PIDS"/*.pid "$PIDS"/*.pid.at; do
    file=${file##*/}
    file=${file%.at}
    file=${file%.pid}
    ! valid_name "$file" || [[ -e $PIDS/$file.pid && -e $PIDS/$file.pid.at ]] || NAMES+=("$file")
  done
}

# NAME: sets PID_PATH and W_PID, W_TICKS, W_BOOT, W_STARTED, W_OOM, W_OWNER, W_LAUNCH, W_LOG, W_OFFSET, W_EXIT; false without a record.
load_workload() {
  locate "$1"
  first_line "$PID_PATH" || return 1
  W_PID=$REPLY W_OFFSET=0
  [[ $W_PID =~ ^[1-9][0-9]{0,9}$ ]] || W_PID=
  first_line "$PID_PATH.start" || :
  read -r W_TICKS W_BOOT W_STARTED W_OOM <<<"$REPLY" || :
  # Numbers go into arithmetic, where a text would be evaluated.
  [[ $W_STARTED =~ ^[0-9]{1,15}$ ]] || W_STARTED=
  [[ $W_OOM =~ ^-?[0-9]{1,15}$ ]] || W_OOM=
  first_line "$PID_PATH.owner" || :
  W_OWNER=$REPLY
  first_line "$PID_PATH.launch" || :
  W_LAUNCH=$REPLY
  first_line "$PID_PATH.exit" || :
  W_EXIT=${REPLY%% *}
  [[ $W_EXIT =~ ^[0-9]{1,3}$ ]] || W_EXIT=
  load_log_place "$1"
}

# NAME: sets W_LOG and W_OFFSET of a workload whose pid file is at PID_PATH.
load_log_place() {
  W_LOG=$LOGS/$1.log W_OFFSET=0
  slurp "$PID_PATH.log" || return 0
  W_LOG=${REPLY%$'\n'*} W_OFFSET=${REPLY##*$'\n'}
  [[ $W_OFFSET =~ ^[0-9]{1,18}$ ]] || W_OFFSET=0
}

# Whether the loaded workload's supervisor runs; 2 when nothing of that launch can live any more, whatever has its number now.
leader_alive() {
  [[ -n $W_PID ]] || return 2
  if [[ -n $W_BOOT ]]; then
    first_line /proc/sys/kernel/random/boot_id || :
    [[ ${REPLY:-$W_BOOT} == "$W_BOOT" ]] || return 2
  fi
  process_stat "$W_PID" || return 1
  if [[ -n $W_TICKS ]]; then
    [[ $STAT_TICKS == "$W_TICKS" ]] || return 2
  else
    unmarked_leader || return 2
  fi
  [[ $STAT_STATE != [ZX] ]]
}

# A record of an earlier version has no start time: a leader of a session that is no younger than its pid file is taken for it.
unmarked_leader() {
  local written
  [[ $STAT_SESSION == "$W_PID" ]] || return 1
  written=$(stat -c %Y -- "$PID_PATH" 2>/dev/null) && slurp /proc/stat && [[ $REPLY =~ btime\ ([0-9]+) ]] || return 1
  # /proc counts in USER_HZ, which is 100 on every Linux (time(7)).
  ((BASH_REMATCH[1] + STAT_TICKS / 100 <= written + 2))
}

# PID...: sets MEMBERS[PID] to all living processes of the session or group that each of them leads or led, in one look.
scan_sessions() {
  local wanted dir line IFS='|'
  declare -gA MEMBERS=()
  (($#)) || return 0
  wanted=" ($*) "
  IFS=' '
  for line in "$@"; do MEMBERS[$line]=; done
  for dir in /proc/[0-9]*; do
    { IFS= read -r line <"$dir/stat"; } 2>/dev/null && [[ ${line##*) } =~ $wanted ]] || continue
    process_stat "${dir##*/}" && [[ $STAT_STATE != [ZX] ]] || continue
    for line in "$@"; do
      [[ $STAT_SESSION != "$line" && $STAT_GROUP != "$line" ]] || MEMBERS[$line]+="${dir##*/} "
    done
  done
}

# Sets W_STATE of the loaded workload: running (something of it lives), exited (it ended and said how) or stale (gone without a
# word); and W_MEMBERS to its living processes: all of them after scan_sessions, at least one otherwise.
judge_workload() {
  local leader=0
  W_MEMBERS=
  leader_alive || leader=$?
  if ((leader < 2)); then
    if [[ ! -v MEMBERS[$W_PID] && $leader == 0 && -z $W_EXIT ]]; then
      W_MEMBERS="$W_PID "
    else
      [[ -v MEMBERS[$W_PID] ]] || scan_sessions "$W_PID"
      W_MEMBERS=${MEMBERS[$W_PID]}
    fi
  fi
  if [[ -n $W_MEMBERS && ! (-n $W_EXIT && $W_MEMBERS == "$W_PID ") ]]; then
    W_STATE=running
  elif [[ -n $W_EXIT ]]; then
    W_STATE=exited
  else
    W_STATE=stale
  fi
}

# NAME: the record of the loaded and judged workload. ALLOCATIONS is base64 of JSON, as in the label of a container.
answer_workload() {
  local running_s
  answer NAME "$1"
  answer STATE "$W_STATE"
  answer PID "$W_PID"
  answer OWNER "${W_OWNER:-sparkrun}"
  first_line "$PID_PATH.cluster" || cluster_of_name "$1"
  answer CLUSTER_ID "$REPLY"
  answer LAUNCH "$W_LAUNCH"
  answer EXIT_CODE "$W_EXIT"
  if [[ -n $W_STARTED ]]; then
    iso_time "$W_STARTED"
    answer STARTED_AT "$REPLY"
    running_s=$((EPOCHSECONDS - W_STARTED))
    [[ $W_STATE != running ]] || answer UPTIME_S "$((running_s > 0 ? running_s : 0))"
  fi
  slurp "$PID_PATH.labels" || :
  W_LABELS=$REPLY
  answer LABELS "$W_LABELS"
  slurp "$PID_PATH.allocations" || :
  answer ALLOCATIONS "$REPLY"
  answer LOG_FILE "$W_LOG"
  answer LOG_OFFSET "$W_OFFSET"
  answer PID_FILE "$PID_PATH"
}

# NAME: the cluster id that a name begins with.
cluster_of_name() {
  REPLY=
  [[ ! $1 =~ ^(.+)_(solo|head|worker|node_[0-9]+|worker_[0-9]+)$ ]] || REPLY=${BASH_REMATCH[1]}
}

# NAME SECONDS: takes the lock of a workload. 1: another has had it for that long; 2: it cannot be taken here.
lock() {
  local file=$PIDS/$1.pid.lock
  [[ -w $PIDS ]] || return 2
  if ! find_tool flock; then
    lock_by_link "$file.held" "$2"
    return
  fi
  while :; do
    { exec {LOCK_FD}>>"$file"; } 2>/dev/null || return 2
    flock -w "$2" "$LOCK_FD" </dev/null || { unlock && return 1; }
    # Whoever had it may have removed the file meanwhile.
    [[ ! /proc/$BASHPID/fd/$LOCK_FD -ef $file ]] || return 0
    unlock
  done
}

unlock() {
  [[ -z ${LOCK_FD:-} ]] || exec {LOCK_FD}>&-
  [[ -z ${LOCK_LINK:-} ]] || rm -f -- "$LOCK_LINK"
  LOCK_FD='' LOCK_LINK=''
}

# LINK SECONDS: a lock without flock(1): a link whose target names the holder. That of a dead holder is taken over.
lock_by_link() {
  local holder own tries
  process_stat $$
  own=$$:$STAT_TICKS
  to_ms "$2"
  for ((tries = REPLY / 50; tries >= 0; tries--)); do
    if ln -s -T "$own" "$1" 2>/dev/null; then
      LOCK_LINK=$1
      trap unlock EXIT
      return 0
    fi
    holder=$(readlink -- "$1") || continue
    alive "${holder%:*}" "${holder#*:}" || drop_dead_lock "$1" "$holder"
    nap 0.05
  done
  return 1
}

# LINK HOLDER: removes a dead holder's link, unless another has just done that and taken the lock.
drop_dead_lock() {
  mv -T -- "$1" "$1.$$" 2>/dev/null || return 0
  [[ $(readlink -- "$1.$$") == "$2" ]] || mv -n -T -- "$1.$$" "$1"
  rm -f -- "$1.$$"
}

# NAME: removes the record of a workload whose lock is held; the lock goes last. False when files are left.
remove_record() {
  locate "$1"
  rm -f -- "$PID_PATH" "${RECORD_FILES[@]/#/$PID_PATH}" "$PIDS/$1.pid.at" "$PIDS/$1.pid.lock" 2>/dev/null
}

# NAME: ends the script unless it is a name of the local executor.
require_name() {
  valid_name "$1" || refuse 2 bad_name "'$1' is not a workload name (letters, digits, '_', '.', '-'; at most 128)"
}

# LINES SKIP: sets LOG_FROM, the byte of W_LOG at which the wanted part of this launch's log begins: without its first SKIP lines, and
# no more than the last LINES of it (empty: all). False when there is no log.
find_log_part() {
  local size bytes
  size=$(stat -L -c %s -- "$W_LOG" 2>/dev/null) && [[ -r $W_LOG ]] || return 1
  # A log that was cut or replaced meanwhile is shorter than where this launch began.
  LOG_FROM=$((W_OFFSET <= size ? W_OFFSET : 0))
  if ((${2:-0})); then
    bytes=$({ tail -c "+$((LOG_FROM + 1))" -- "$W_LOG" || :; } 2>/dev/null | head -n "$2" | wc -c)
    ((LOG_FROM += bytes, 1))
  fi
  if [[ -n $1 ]]; then
    bytes=$({ tail -c "+$((LOG_FROM + 1))" -- "$W_LOG" || :; } 2>/dev/null | head -c "$((size > LOG_FROM ? size - LOG_FROM : 0))" | tail -n "$1" | wc -c)
    ((LOG_FROM = size > LOG_FROM ? size - bytes : LOG_FROM, 1))
  fi
}
