# Fetches an image from its registry.
#
# Parameters
#   IMAGE       image to fetch
#   PATIENCE_S  how long the registry may take to say its first word (default 60)
#   LIFELINE    1: end when stdin does
#
# Answers, in section PULL: LAYERS ("3/12": layers that are done, of those seen so far) whenever that changes, IMAGE_ID, and
# REPLACED, the id of an older one that had the name here; REASON, MESSAGE
# and HINT when it failed.
#
# Exit codes (REASON): 0 here; 1 failed; 2 bad_parameter; 3 to 7 as docker_start; 10 cancelled; 17 disk_full; 23
# no_answer.

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
  local status=0 pull
  LAST='' SEEN=0 COMPLETE=0
  exec {PULL_FD}< <(exec "$DOCKER" pull -- "$IMAGE" </dev/null 2>&1)
  pull=$!
  trap 'kill "$pull" 2>/dev/null || :' EXIT
  follow_pull
  wait "$pull" || status=$?
  trap - EXIT
  ((status == 0)) || refuse_pull "$status"
}

# Until docker closes its output.
follow_pull() {
  local line part='' status deadline=$((SECONDS + ${PATIENCE_S:-60}))
  while :; do
    status=0
    [[ -n $LAST ]] || ((SECONDS < deadline)) || refuse_silent
    IFS= read -r -t 0.5 -u "$PULL_FD" line || status=$?
    if ((status > 128)); then
      part+=$line
      ! session_gone || refuse 10 cancelled "nobody waits for the image any more"
    elif ((status)); then
      break
    else
      take_line "$part$line"
      part=
    fi
  done
  [[ -z $part$line ]] || take_line "$part$line"
}

# LINE
take_line() {
  case $1 in
    *': Pulling fs layer' | *': Already exists') ((++SEEN)) ;;&
    *': Pull complete' | *': Already exists') ((++COMPLETE)) ;;
    *': '*ing*) return 0 ;;
  esac
  [[ -z ${1//[[:space:]]/} ]] || LAST=$1
  [[ $1 != *': Pull complete' ]] || answer LAYERS "$COMPLETE/$SEEN"
}

refuse_silent() {
  refuse 23 no_answer "the registry of $IMAGE says nothing to $HOSTNAME for ${PATIENCE_S:-60} s" \
    "have the image in this machine's docker, or on another host: it is copied from there"
}

# EXIT_CODE
refuse_pull() {
  case $LAST in
    *'o space left on device'*) refuse 17 disk_full "the disk of $HOSTNAME is full: $LAST" "make room there: docker system df; docker image prune" ;;
    *'pull access denied'* | *'nauthorized'* | *'denied:'* | *'manifest unknown'* | *'not found'*)
      refuse 1 failed "$LAST" "correct the image's name, log in on $HOSTNAME (docker login), or have the image in this machine's docker: it is copied from there"
      ;;
    *'ermission denied'*'ocker'* | *'annot connect to'*) refuse_docker "$1" "$LAST" ;;
    *) refuse 1 failed "${LAST:-docker pull ended with exit code $1}" "have the image in this machine's docker: it is copied from there" ;;
  esac
}

main
