# The claim of a launch on this host, so that two do not plan with the same accelerators: a lock on an open file, which ends with the session
# that holds it, whatever ends that, and leaves nothing to clean up.

# FILE SECONDS: takes the lock, waiting that long for another launch; ends the script when it cannot. CLAIM_FD is then what holds it (empty on a
# host without flock(1), where nothing is locked).
take_claim() {
  local flock
  CLAIM_FD=''
  find_tool flock || return 0
  flock=$REPLY
  open_claim "$1"
  "$flock" -w "$2" "$CLAIM_FD" </dev/null || refuse 1 busy "another launch is at work on $HOSTNAME"
}

# A file of another user in a sticky folder may be read, not created again (fs.protected_regular): only a missing one is made. Reading is
# enough for a lock.
open_claim() {
  [[ -e $1 ]] || (umask 0 && : >"$1") 2>/dev/null || :
  { exec {CLAIM_FD}<"$1"; } 2>/dev/null || refuse 2 no_file "cannot open $1 on $HOSTNAME"
}

# Until nobody wants it any more: the end of stdin says so at once, and a look at who started this script now and then.
hold_claim() {
  local status
  until session_gone; do
    status=0
    read -r -t 1 -u 0 || status=$?
    ((status > 128)) || return 0
  done
}
