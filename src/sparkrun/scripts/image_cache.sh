# The images that docker has on this host, who uses them, and the room on its disk.
#
# Parameters
#   CACHE  sparkrun cache folder (default: this host's own); its images/ holds pins/ and used/, a file each image, by its id without sha256:
#
# Answers, in section IMAGES: ROOT (docker's folder), DRIVER, FREE_KIB, TOTAL_KIB, NOW (seconds of the epoch); once each IMAGE (JSON: id, tags, digests,
# size, layers, created, arch, os, tagged: when it got its last name here), UNIQUE ("ID SIZE", docker's words for what no other image
# has of it), CONTAINER ("IMAGE_ID STATE NAME"), PIN ("ID TEXT"), USED ("ID SECONDS" when a launch used it last). A host without docker has no ROOT.
# REASON, MESSAGE and HINT when docker cannot be asked.
#
# Exit codes: 0 looked; 3 to 7 as docker_start.

FIELDS='{"id":{{json .Id}},"tags":{{json .RepoTags}},"digests":{{json .RepoDigests}},"size":{{.Size}},"layers":{{json .RootFS.Layers}},'
FIELDS+='"created":{{json .Created}},"arch":{{json .Architecture}},"os":{{json .Os}}'

main() {
  resolve_docker_folder
  section IMAGES
  answer NOW "$EPOCHSECONDS"
  if find_docker; then
    exec {UNIQUE_FD}< <(quietly unique_sizes) {CONTAINERS_FD}< <(quietly containers)
    tell_root
    tell_images
    tell_containers
    while IFS= read -r REPLY; do answer UNIQUE "$REPLY"; done <&"$UNIQUE_FD"
    tell_records
  fi
  end_section
}

# One line each, in one list: [{"ID":"sha256:…","UniqueSize":"1.98MB",…},…]
unique_sizes() {
  local text id rest
  text=$(timeout -k 1 60 "$DOCKER" system df -v --format '{{json .Images}}') || return 0
  while [[ $text =~ \"ID\":\"(sha256:[0-9a-f]+)\"([^}]*)\}(.*) ]]; do
    id=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]} text=${BASH_REMATCH[3]}
    [[ ! $rest =~ \"UniqueSize\":\"([^\"]*)\" ]] || printf '%s %s\n' "$id" "${BASH_REMATCH[1]}"
  done
}

# A line each, and a last line with 0; or what docker complains of, and its exit code.
containers() {
  local ids status=0
  ask_docker 20 ps -a -q --no-trunc || status=$?
  if ((status == 0)) && [[ -n $REPLY ]]; then
    mapfile -t ids <<<"$REPLY"
    ask_docker 20 inspect --type container -f '{{.Image}} {{.State.Status}} {{.Name}}' -- "${ids[@]}" || status=$?
    # One that is removed between the two looks is no trouble.
    [[ ! $DOCKER_SAID =~ [Nn]o\ such\ (container|object) ]] || status=0
  fi
  ((status == 0)) || REPLY=$DOCKER_SAID
  printf '%s\n%s\n' "$REPLY" "$status"
}

# An image of which it is not known who uses it must not pass for unused.
tell_containers() {
  local line lines=() status
  mapfile -t lines <&"$CONTAINERS_FD"
  status=${lines[-1]}
  unset 'lines[-1]'
  ((status == 0)) || refuse_docker "$status" "${lines[*]}"
  for line in "${lines[@]}"; do [[ -z $line ]] || answer CONTAINER "$line"; done
}

tell_root() {
  local status=0 root
  ask_docker 20 info -f '{{.DockerRootDir}}{{"\n"}}{{.Driver}}' || status=$?
  if ((status)) && [[ $DOCKER == */podman ]]; then
    ask_docker 20 info -f '{{.Store.GraphRoot}}{{"\n"}}{{.Store.GraphDriverName}}' && status=0 || status=$?
  fi
  ((status == 0)) && [[ $REPLY == /* ]] || refuse_docker "$status" "${DOCKER_SAID:-$REPLY}"
  root=${REPLY%%$'\n'*}
  answer ROOT "$root"
  answer DRIVER "${REPLY#*$'\n'}"
  tell_room "$root"
}

# FOLDER: of the nearest folder above it that this user may see.
tell_room() {
  local folder=$1 total free
  while [[ -n $folder && ! -e $folder ]]; do folder=${folder%/*}; done
  read -r total free < <(timeout 5 df -P -k -- "${folder:-/}" 2>/dev/null </dev/null | { read -r _ && read -r _ total _ free _ && echo "$total $free"; }) || return 0
  answer TOTAL_KIB "$total"
  answer FREE_KIB "$free"
}

tell_images() {
  local ids status=0 line fields=$FIELDS
  ask_docker 30 image ls -q --no-trunc || refuse_docker "$?" "$DOCKER_SAID"
  mapfile -t ids <<<"$REPLY"
  [[ -n ${ids[0]} ]] || return 0
  [[ $DOCKER == */podman ]] || fields+=',"tagged":{{json .Metadata.LastTagTime}}'
  ask_docker 60 image inspect -f "$fields}" -- "${ids[@]}" || status=$?
  # One that is removed between the two looks is no trouble.
  ((status == 0)) || [[ $DOCKER_SAID =~ [Nn]o\ such\ image ]] || refuse_docker "$status" "$DOCKER_SAID"
  while IFS= read -r line; do [[ -z $line ]] || answer IMAGE "$line"; done <<<"$REPLY"
}

tell_records() {
  local file
  for file in "$CACHE_DIR"/images/pins/*; do
    slurp "$file" || :
    answer PIN "sha256:${file##*/} $REPLY"
  done
  for file in "$CACHE_DIR"/images/used/*; do
    REPLY=$(stat -c %Y -- "$file" 2>/dev/null) || continue
    answer USED "sha256:${file##*/} $REPLY"
  done
}

main
