# Takes an image from the archive that comes on stdin (docker save).
#
# Parameters
#   IMAGE  image that the archive holds
#
# Answers, in section LOAD: IMAGE_ID; REASON, MESSAGE and HINT when it failed. An archive that ends early leaves no image.
#
# Exit codes (REASON): 0 here; 1 failed; 2 bad_parameter; 3 to 7 as docker_start; 17 disk_full; 22 layers_missing, of an archive that was
# made without layers.

main() {
  local said status=0
  section LOAD
  [[ -n $IMAGE ]] || refuse 2 bad_parameter "no image to take"
  need_docker
  said=$("$DOCKER" load -q 2>&1) || status=$?
  ((status == 0)) || refuse_load "$status" "$said"
  ask_docker 10 image inspect --format '{{.Id}}' -- "$IMAGE" || refuse 1 failed "the archive did not hold $IMAGE"
  answer IMAGE_ID "$REPLY"
  end_section
}

# EXIT_CODE TEXT
refuse_load() {
  local line=${2##*$'\n'}
  case $2 in
    *'o space left on device'*) refuse 17 disk_full "the disk of $HOSTNAME is full: $line" "make room there: docker system df; docker image prune" ;;
    *'layer.tar: no such file'* | *'/blobs/sha256/'*': no such file'*) refuse 22 layers_missing "docker load wants the whole archive: $line" ;;
    *'ermission denied'*'ocker'* | *'annot connect to'*) refuse_docker "$1" "$2" ;;
    *) refuse 1 failed "docker load: ${line:-ended with exit code $1}" ;;
  esac
}

main
