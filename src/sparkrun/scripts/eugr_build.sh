# Builds an image with the build-and-copy.sh of a git repository: in a fresh checkout, which is gone afterwards, one build at a time on this host.
# The image has its name only once it works.
#
# Parameters
#   IMAGE     name of the image
#   REPO      address of the repository
#   REF       branch, tag or commit of it
#   ARGS      array of further words for build-and-copy.sh
#   SMOKE     array of the words that the image runs to show that it works; the first is the program (empty: not shown)
#   REBUILD   1: build it although it is there
#   LIFELINE  1: end when stdin does
#   CACHE     sparkrun cache folder (default: this host's own)
#
# Answers, in section BUILD: WAITING=1 while another build holds this host; STAGE (clone, docker build, export, smoke test) as each begins;
# COMMIT of the source; LINE once for each line of output; BUILT (0: it was there by then) and IMAGE_ID; REASON, MESSAGE and HINT when there
# is no image.
#
# Exit codes (REASON): 0 there; 1 failed; 2 bad_parameter; 3 to 7 as docker_start; 10 cancelled; 14 cache_not_writable; 20 git_missing.

SMOKE_LIMIT_S=600
SMOKE_TOKEN=sparkrun-smoke-ok

main() {
  section BUILD
  [[ $IMAGE =~ ^[A-Za-z0-9][A-Za-z0-9_.:/-]*$ ]] || refuse 2 bad_parameter "'$IMAGE' is no name of an image"
  [[ -n $REPO && $REPO != -* && -n $REF && $REF != -* ]] || refuse 2 bad_parameter "REPO and REF name no source"
  watch_session
  need_docker
  find_tool git && GIT=$REPLY || refuse 20 git_missing "git is not installed on $HOSTNAME, and the source of the build comes with it" "install git there"
  resolve_places
  open_folder
  trap clean_up EXIT
  trap 'exit 143' TERM INT HUP
  take_turn
  if [[ $REBUILD == 1 ]] || ! image_id "$IMAGE"; then
    check_out
    build
    prove
    answer BUILT 1
  else
    answer BUILT 0
  fi
  image_id "$IMAGE" || refuse 1 failed "there is no image $IMAGE"
  answer IMAGE_ID "$REPLY"
  end_section
}

open_folder() {
  FOLDER=$CACHE_DIR/eugr-builds WORK=$CACHE_DIR/eugr-builds/source CANDIDATE=$IMAGE-building JOB=''
  { mkdir -p -- "$FOLDER" && exec {LOCK_FD}>"$FOLDER/lock"; } 2>/dev/null ||
    refuse 14 cache_not_writable "$FOLDER on $HOSTNAME cannot be written" "make it writable, or set SPARKRUN_CACHE_DIR there"
}

# Builds share the folder, and would share the processors and the memory of this host.
take_turn() {
  local told=''
  until lock_now "$LOCK_FD"; do
    [[ -n $told ]] || answer WAITING 1
    told=1
    mind_session
    nap 0.5
  done
}

check_out() {
  answer STAGE clone
  export GIT_TERMINAL_PROMPT=0 GIT_HTTP_LOW_SPEED_LIMIT=1000 GIT_HTTP_LOW_SPEED_TIME=60
  rm -rf -- "$WORK"
  run_logged "$FOLDER" "$GIT" init -q --template= -- "$WORK" || refuse 1 failed "git init: ${LAST:-exit code $?}"
  run_logged "$WORK" "$GIT" fetch -q --depth 1 -- "$REPO" "$REF" || refuse 1 failed "cannot fetch $REF of $REPO: ${LAST:-git ended with exit code $?}"
  run_logged "$WORK" "$GIT" -c core.hooksPath=/dev/null checkout -q --detach FETCH_HEAD || refuse 1 failed "git checkout: ${LAST:-exit code $?}"
  answer COMMIT "$("$GIT" -C "$WORK" rev-parse HEAD 2>/dev/null)"
  [[ -x $WORK/build-and-copy.sh ]] || refuse 1 failed "$REPO has no build-and-copy.sh at $REF"
}

build() {
  local status=0
  answer STAGE "docker build"
  run_logged "$WORK" ./build-and-copy.sh -t "$CANDIDATE" "${ARGS[@]}" || status=$?
  ((status == 0)) || refuse 1 failed "build-and-copy.sh ended with exit code $status${LAST:+: $LAST}"
  image_id "$CANDIDATE" || { answer STAGE export && refuse 1 failed "build-and-copy.sh ended well, and left no image"; }
}

prove() {
  local status=0
  if ((${#SMOKE[@]})); then
    answer STAGE "smoke test"
    CONTAINER=sparkrun-smoke-$$
    run_logged "$WORK" timeout -k 5 "$SMOKE_LIMIT_S" "$DOCKER" run --rm --init --name "$CONTAINER" --network none \
      --entrypoint "${SMOKE[0]}" -- "$CANDIDATE" "${SMOKE[@]:1}" || status=$?
    ((status != 124)) || refuse 1 failed "the image did not answer within $SMOKE_LIMIT_S s"
    [[ $status == 0 && $SAID == *"$SMOKE_TOKEN"* ]] || refuse 1 failed "the image does not run ${SMOKE[0]} as it should${LAST:+: $LAST}"
    CONTAINER=
  fi
  ask_docker 60 tag "$CANDIDATE" "$IMAGE" || refuse_docker "$?" "$DOCKER_SAID"
}

# NAME: the image's id, false when there is none; ends the script when docker cannot say.
image_id() {
  local status=0
  ask_docker 30 image inspect --format '{{.Id}}' -- "$1" || status=$?
  ((status)) || return 0
  [[ $DOCKER_SAID =~ [Nn]o\ such\ (image|object)|image\ not\ known ]] || refuse_docker "$status" "$DOCKER_SAID"
  return 1
}

# FOLDER COMMAND...: in a group of its own, which ends with the session; each line it prints is a LINE. Sets LAST, the last line that says
# something, and SAID, the last 50 of them.
run_logged() {
  local status=0 folder=$1
  LAST='' SAID=''
  exec {OUT_FD}< <(exec {LOCK_FD}>&- && cd -- "$folder" && exec setsid "${@:2}" </dev/null 2>&1)
  JOB=$!
  each_line "$OUT_FD" 0.5 take_line mind_session
  exec {OUT_FD}<&-
  wait "$JOB" || status=$?
  JOB=
  return "$status"
}

mind_session() {
  ! session_gone || refuse 10 cancelled "nobody waits for the image any more"
}

# LINE; of one that was written over and over only what stands there in the end.
take_line() {
  local line=${1%$'\r'}
  line=${line##*$'\r'}
  answer LINE "${line:0:2000}"
  [[ -n ${line//[[:space:]]/} ]] || return 0
  LAST=${line:0:500} SAID+=$LAST$'\n'
  ((${#SAID} < 50000)) || SAID=${SAID: -25000}
}

clean_up() {
  local tries=0
  trap - EXIT TERM INT HUP
  if [[ -n ${JOB:-} ]]; then
    kill -s TERM -- "-$JOB" 2>/dev/null || :
    while ((tries++ < 50)) && alive "$JOB"; do nap 0.1; done
    kill -s KILL -- "-$JOB" 2>/dev/null || :
  fi
  [[ -z ${CONTAINER:-} ]] || timeout -k 1 20 "$DOCKER" rm -f -- "$CONTAINER" </dev/null >/dev/null 2>&1 || :
  timeout -k 1 20 "$DOCKER" rmi -- "$CANDIDATE" </dev/null >/dev/null 2>&1 || :
  rm -rf -- "$WORK"
}

main
