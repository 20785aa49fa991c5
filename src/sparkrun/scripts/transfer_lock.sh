# Holds this host for what is being brought to it, so that two launches do not bring the same thing twice. The lock is one on open files:
# it ends with this session, whatever ends it. Their files go with it, where this user may remove them; one that is left locks nothing.
#
# Parameters
#   LOCKS     array of lock files, below /tmp, which every user of this host shares
#   LIFELINE  1: the caller keeps stdin open for as long as it holds the lock
#
# Answers, in section LOCK: WAITING=1 when another holds one of them; HELD=1 once all are held (with LOCK=none on a host without flock(1),
# where nothing is locked); REASON and MESSAGE when it failed.
#
# Exit codes: 0 it has ended; 2 a lock file cannot be opened.

main() {
  local file files=()
  section LOCK
  watch_session
  mapfile -t files < <(printf '%s\n' "${LOCKS[@]}" | LC_ALL=C sort -u)
  if find_tool flock; then
    FLOCK=$REPLY
    for file in "${files[@]}"; do hold "$file"; done
  else
    answer LOCK none
  fi
  answer HELD 1
  until session_gone; do nap 0.1; done
  rm -f -- "${files[@]}" 2>/dev/null || :
  end_section
}

# FILE. One of another user in a sticky folder may be read, not created again (fs.protected_regular): only a missing one is made.
hold() {
  local fd told=''
  open_lock "$1"
  until "$FLOCK" -n "$fd" && [[ $1 -ef /dev/fd/$fd ]]; do
    # A file whose holder has removed it meanwhile locks nothing any more.
    [[ $1 -ef /dev/fd/$fd ]] || { exec {fd}<&- && open_lock "$1" && continue; }
    [[ -n $told ]] || answer WAITING 1
    told=1
    ! session_gone || exit 0
    nap 0.2
  done
}

# FILE: opens it as fd.
open_lock() {
  [[ -e $1 ]] || (umask 0 && : >"$1") 2>/dev/null || :
  { exec {fd}<"$1"; } 2>/dev/null || refuse 2 no_file "cannot open $1 on $HOSTNAME"
}

main
