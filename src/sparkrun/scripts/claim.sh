# Claims this host for one launch, so that two do not plan with the same accelerators. The claim is a lock on an open file: it ends with
# this session, whatever ends it, and leaves nothing to clean up.
#
# Parameters
#   LIFELINE  1: the caller keeps stdin open for as long as it holds the claim
#   FILE      lock file (default /tmp/sparkrun.claim, which every user of this host shares)
#
# Answers, in section CLAIM: CLAIMED=1 at once (with LOCK=none on a host without flock(1), where nothing is locked); or CLAIMED=0 with
# REASON busy and MESSAGE.
#
# Exit codes: 0 the claim has ended; 1 another launch holds it; 2 the lock file cannot be opened.

main() {
  section CLAIM
  watch_session
  FILE=${FILE:-/tmp/sparkrun.claim}
  if find_tool flock; then
    open_file
    "$REPLY" -n "$CLAIM_FD" || { answer CLAIMED 0 && refuse 1 busy "another launch is at work on $HOSTNAME"; }
  else
    answer LOCK none
  fi
  answer CLAIMED 1
  until session_gone; do nap 0.1; done
  end_section
}

# A file of another user in a sticky folder may be read, not created again (fs.protected_regular): only a missing one is made. Reading is
# enough for a lock.
open_file() {
  [[ -e $FILE ]] || (umask 0 && : >"$FILE") 2>/dev/null || :
  { exec {CLAIM_FD}<"$FILE"; } 2>/dev/null || refuse 2 no_file "cannot open $FILE on $HOSTNAME"
}

main
