# Fetches an image from its registry.
#
# Parameters
#   IMAGE       image to fetch
#   PATIENCE_S  how long the registry may take to say its first word (default 60)
#   IDLE_S      how long nothing may move before it is given up (default 120)
#   SYSFS       where sysfs is mounted (default /sys)
#   DISKSTATS   what the kernel says of disks (default /proc/diskstats)
#   LIFELINE    1: end when stdin does
#
# Answers, in section PULL: LAYERS ("3/12": layers that are done, of those seen so far) whenever that changes, IMAGE_ID, and
# REPLACED, the id of an older one that had the name here; REASON, MESSAGE
# and HINT when it failed.
#
# Exit codes (REASON): 0 here; 1 failed; 2 bad_parameter; 3 to 7 as docker_start; 10 cancelled; 17 disk_full; 23 no_answer; 24 stalled.

main() {
  section PULL
  [[ -n $IMAGE ]] || refuse 2 bad_parameter "no image to fetch"
  watch_session
  need_docker
  ! ask_docker 10 image inspect --format '{{.Id}}' -- "$IMAGE" || OLD=$REPLY
  fetch
  ask_docker 10 image inspect --format '{{.Id}}' -- "$IMAGE" || refuse_docker "$?" "$DOCKER_SAID"
  [[ -z ${OLD:-} || $OLD == "$REPLY" ]] || answer REPLACED "$OLD"
  answer IMAGE_ID "$REPLY"
  end_section
}

fetch() {
  LAST='' SPOKEN='' SEEN=0 COMPLETE=0 DEADLINE=$((SECONDS + ${PATIENCE_S:-60})) MOVED=$SECONDS LOOKED=$SECONDS MOVED_BYTES=0
  exec {PULL_FD}< <(exec "$DOCKER" pull -- "$IMAGE" </dev/null 2>&1)
  follow_child "$PULL_FD" "$!" 0.5 take_line mind_session
  ((REPLY == 0)) || refuse_pull "$REPLY"
}

# Docker says nothing within a layer, of which there are some of many gigabytes. Whether much has come over the network or gone to a disk of this
# host since it last had: others may have done that, but when nothing has, docker has not either.
something_moved() {
  local file sectors total=0
  for file in "${SYSFS:-/sys}"/class/net/*/statistics/rx_bytes; do
    ! first_line "$file" || ((total += REPLY, 1))
  done
  while read -r _ _ _ _ _ _ _ _ _ sectors _; do ((total += sectors * 512, 1)); done 2>/dev/null <"${DISKSTATS:-/proc/diskstats}"
  ((total - MOVED_BYTES >= 1 << 20)) || return 1
  MOVED_BYTES=$total
}

# LINE; what is said of a single layer is never the reason of a failure.
take_line() {
  MOVED=$SECONDS
  case $1 in
    *': Pulling fs layer' | *': Already exists') ((++SEEN)) ;;&
    *': Pull complete' | *': Already exists') ((++COMPLETE)) ;;
  esac
  [[ -z ${1//[[:space:]]/} ]] || SPOKEN=1
  [[ -z ${1//[[:space:]]/} || $1 =~ ^[0-9a-f]+:\  || $1 == *': Pulling from '* ]] || LAST=$1
  [[ $1 != *': Pull complete' ]] || answer LAYERS "$COMPLETE/$SEEN"
}

mind_session() {
  ! session_gone || refuse 10 cancelled "nobody waits for the image any more"
  [[ -n $SPOKEN ]] || ((SECONDS < DEADLINE)) || refuse_silent
  ((SECONDS - LOOKED >= 2)) || return 0
  LOOKED=$SECONDS
  ! something_moved || MOVED=$SECONDS
  ((SECONDS - MOVED < ${IDLE_S:-120})) || refuse_stalled
}

refuse_silent() {
  refuse 23 no_answer "the registry of $IMAGE says nothing to $HOSTNAME for ${PATIENCE_S:-60} s" \
    "have the image in this machine's docker, or on another host: it is copied from there"
}

refuse_stalled() {
  refuse 24 stalled "nothing of $IMAGE has come to $HOSTNAME for ${IDLE_S:-120} s" \
    "run this again: layers that are whole are kept; or have the image in this machine's docker: it is copied from there"
}

# EXIT_CODE
refuse_pull() {
  case $LAST in
    *'o space left on device'*) refuse 17 disk_full "the disk of $HOSTNAME is full: $LAST" "make room there: docker system df; docker image prune" ;;
    *'pull access denied'* | *'no basic auth credentials'* | *'nauthorized'* | *'denied:'* | *'manifest unknown'* | *'not found'* | *'invalid reference format'*)
      refuse 1 failed "$LAST" "correct the image's name, log in on $HOSTNAME (docker login), or have the image in this machine's docker: it is copied from there"
      ;;
    *'ermission denied'*'ocker'* | *'annot connect to'*) refuse_docker "$1" "$LAST" ;;
    *) refuse 1 failed "${LAST:-docker pull ended with exit code $1}" "have the image in this machine's docker: it is copied from there" ;;
  esac
}

main
