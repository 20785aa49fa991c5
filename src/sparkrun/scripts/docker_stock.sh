# What this host's docker has of some images, and room for them.
#
# Parameters
#   IMAGES  array of images
#
# Answers, in section STOCK: STORE (docker's storage driver; containerd for its image store), ROOT (docker's folder), ROOT_FREE_KIB;
# IMAGE, for each of IMAGES that is here: reference, id, bytes, digests, each with a comma behind, layers (diff ids) likewise, bytes of the steps of its
# history (the last first) with commas between, separated by tabs; HELD, once for every list of layers that any image here has.
#
# Exit codes (REASON): 0 looked; 3 to 7 as docker_start.

INFO_FORMAT='{{.Driver}}	{{json .DriverStatus}}	{{.DockerRootDir}}'
IMAGE_FORMAT='{{.Id}}	{{.Size}}	{{range .RepoDigests}}{{.}},{{end}}	{{range .RootFS.Layers}}{{.}},{{end}}'
LAYERS_FORMAT='{{range .RootFS.Layers}}{{.}},{{end}}'

main() {
  local status=0
  section STOCK
  need_docker
  ask_docker 10 info --format "$INFO_FORMAT" || status=$?
  ((status == 0)) || refuse_docker "$status" "$DOCKER_SAID"
  tell_store "$REPLY"
  tell_images
  tell_held
  end_section
}

# LINE
tell_store() {
  local driver details root free
  IFS=$'\t' read -r driver details root <<<"$1"
  [[ $details != *io.containerd.snapshotter* ]] || driver=containerd
  answer STORE "$driver"
  answer ROOT "$root"
  free=$(timeout 3 df -P -k -- "$root" </dev/null 2>/dev/null) || return 0
  read -r _ _ _ free _ <<<"${free##*$'\n'}"
  answer ROOT_FREE_KIB "$free"
}

tell_images() {
  local image line
  for image in "${IMAGES[@]}"; do
    ask_docker 10 image inspect --format "$IMAGE_FORMAT" -- "$image" || continue
    line=$image$'\t'$REPLY
    ask_docker 10 history --no-trunc --human=false --format '{{.Size}}' "$image" || REPLY=
    answer IMAGE "$line"$'\t'"${REPLY//$'\n'/,}"
  done
}

tell_held() {
  local ids line told=$'\n'
  ask_docker 10 image ls --quiet --no-trunc || return 0
  mapfile -t ids <<<"$REPLY"
  [[ -n ${ids[0]} ]] || return 0
  ask_docker 20 image inspect --format "$LAYERS_FORMAT" "${ids[@]}" || return 0
  while IFS= read -r line; do
    [[ $told != *$'\n'"$line"$'\n'* ]] || continue
    told+=$line$'\n'
    [[ -z $line ]] || answer HELD "$line"
  done <<<"$REPLY"
}

main
