# Takes the files of a model from the tar archive that comes on stdin. They count only after hub_keep.
#
# Parameters
#   HUB         folder of this host's Hugging Face hub cache
#   REPO        org/name
#   SIZE_BYTES  about how much comes, to refuse what cannot fit (may be empty)
#
# Answers, in section RECEIVE: INCOMING, the folder of what has arrived; REASON, MESSAGE and HINT when it failed: nothing is left then.
#
# Exit codes (REASON): 0 arrived; 1 failed; 2 bad_parameter; 14 cache_not_writable; 17 disk_full; 18 busy; 19 tar_missing.

main() {
  local said status=0
  section RECEIVE
  open_incoming
  find_tool tar && TAR=$REPLY || refuse 19 tar_missing "tar is not installed on $HOSTNAME" "install it there"
  rm -rf -- "$GROWING"
  require_room "$SIZE_BYTES"
  trap 'rm -rf -- "$GROWING"' EXIT
  said=$(LC_ALL=C "$TAR" -x -f - -C "$INCOMING" --no-same-owner 2>&1) || status=$?
  ((status == 0)) || refuse_disk "${said:-tar ended with exit code $status}"
  [[ -d $GROWING/snapshots ]] || refuse 1 failed "the archive did not hold $REPO"
  trap - EXIT
  answer INCOMING "$GROWING"
  end_section
}

main
