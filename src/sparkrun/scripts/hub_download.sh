# Fetches a model from the Hugging Face hub: with this host's own hf, else with the one in an image. What came in an earlier attempt is used.
#
# Parameters
#   HUB       folder of this host's Hugging Face hub cache
#   REPO      org/name
#   REVISION  commit, branch or tag (default: the main one)
#   PATTERNS  array of names of the files that are wanted, with * and ? (default: all)
#   EXCLUDED  array of such names that are not wanted
#   IGNORED   array of such names that are not wanted where there are safetensors
#   PYTHON    python of this host that has huggingface_hub (may be empty)
#   IMAGE     image whose python fetches where the host has no hf (may be empty)
#   TOKEN     token for the hub; without one this host's own login counts
#   ENDPOINT  address of the hub (default: this host's HF_ENDPOINT, else the usual one)
#   IDLE_S    how long nothing may come before it is given up (default 120)
#   LIFELINE  1: end when stdin does
#
# Answers, in section DOWNLOAD: PROGRAM, BYTES (what is here so far) every 2 s, FOLDER; REASON, MESSAGE and HINT when it failed: what has
# come then stays aside for the next attempt.
#
# Exit codes (REASON): 0 in place; 1 failed; 2 bad_parameter; 3 no_program; 4 denied; 10 cancelled; 14 cache_not_writable; 17 disk_full;
# 18 busy; 24 stalled.

# arguments: repository, revision, names that are not wanted beside safetensors, names that are not wanted, patterns
FETCH='
import sys
from huggingface_hub import HfApi, snapshot_download

repo, revision, ignored, excluded, *patterns = sys.argv[1:]
names = [file.rfilename for file in HfApi().model_info(repo, revision=revision or None).siblings or ()]
whole = not patterns and any("/" not in name and name.endswith(".safetensors") for name in names)
unwanted = excluded.split("\n") if excluded else []
unwanted += ignored.split("\n") if whole else []
snapshot_download(repo, revision=revision or None, allow_patterns=patterns or None, ignore_patterns=unwanted or None)
'

main() {
  section DOWNLOAD
  watch_session
  open_incoming
  choose_program
  fetch
  keep_incoming
  answer FOLDER "$HUB_FOLDER/$FOLDER"
  end_section
}

# Sets WORDS.
choose_program() {
  local pattern
  [[ -z $TOKEN ]] || export HF_TOKEN=$TOKEN
  [[ -z $ENDPOINT ]] || export HF_ENDPOINT=$ENDPOINT
  if find_python; then
    WORDS=("$REPLY" -c "$FETCH" "$REPO" "$REVISION" "$(IFS=$'\n' && echo "${IGNORED[*]}")"
      "$(IFS=$'\n' && echo "${EXCLUDED[*]}")" "${PATTERNS[@]}")
    export HF_HUB_CACHE=$INCOMING HF_HUB_OFFLINE=0 HF_HUB_DISABLE_PROGRESS_BARS=1
  elif find_tool hf || find_tool huggingface-cli || is_program "$HOME/.local/bin/hf" || is_program "$HOME/.local/bin/huggingface-cli"; then
    WORDS=("$REPLY" download "$REPO" ${REVISION:+--revision "$REVISION"})
    for pattern in "${PATTERNS[@]}"; do WORDS+=(--include "$pattern"); done
    for pattern in "${EXCLUDED[@]}"; do WORDS+=(--exclude "$pattern"); done
    export HF_HUB_CACHE=$INCOMING HF_HUB_OFFLINE=0 HF_HUB_DISABLE_PROGRESS_BARS=1
  elif [[ -n $IMAGE ]] && find_docker; then
    WORDS=("$DOCKER" run --rm --init --network=host --user "$UID:${GROUPS[0]}" -e HOME=/tmp -e HF_HUB_CACHE=/incoming
      -e HF_HUB_OFFLINE=0 -e HF_HUB_DISABLE_PROGRESS_BARS=1
      ${TOKEN:+-e HF_TOKEN} ${HF_ENDPOINT:+-e HF_ENDPOINT} -v "$INCOMING:/incoming" --entrypoint python3 -- "$IMAGE" -c "$FETCH" "$REPO" "$REVISION"
      "$(IFS=$'\n' && echo "${IGNORED[*]}")" "$(IFS=$'\n' && echo "${EXCLUDED[*]}")" "${PATTERNS[@]}")
  else
    refuse 3 no_program "$HOSTNAME has no hf to fetch $REPO with" "install it there (pip install -U huggingface_hub), or fetch it here: hf download $REPO"
  fi
  answer PROGRAM "${WORDS[0]##*/}"
}

# The python that is named, else the one that this host's hf runs with: it knows the hub's client, and chooses files better than hf does.
find_python() {
  REPLY=$PYTHON
  [[ -z $REPLY ]] || return 0
  find_tool hf || is_program "$HOME/.local/bin/hf" || return 1
  first_line "$REPLY" || :
  [[ $REPLY =~ ^\#!(/[^ ]*/python[0-9.]*)$ ]] || return 1
  is_program "${BASH_REMATCH[1]}" && "$REPLY" -c 'import huggingface_hub' </dev/null >/dev/null 2>&1
}

fetch() {
  LAST='' HERE_BYTES='' MOVED=$SECONDS TOLD=$SECONDS
  exec {SAID_FD}< <(exec "${WORDS[@]}" </dev/null 2>&1 >/dev/null)
  follow_child "$SAID_FD" "$!" 0.5 take_line mind_progress
  ((REPLY == 0)) || refuse_fetch "$REPLY"
}

# LINE: the last one that says something tells why the program failed.
take_line() {
  [[ -z ${1//[[:space:]]/} ]] || LAST=${1##*$'\r'}
}

mind_progress() {
  ! session_gone || refuse 10 cancelled "nobody waits for the model any more"
  ((SECONDS - TOLD >= 2)) || return 0
  TOLD=$SECONDS
  ! tell_progress || MOVED=$SECONDS
  ((SECONDS - MOVED < ${IDLE_S:-120})) || refuse 24 stalled "nothing of $REPO has come to $HOSTNAME for ${IDLE_S:-120} s" "run this again: it goes on with the next file"
}

# Whether more is here than the last time.
tell_progress() {
  local size before=$HERE_BYTES
  size=$(timeout 3 du -s -b -- "$GROWING" 2>/dev/null </dev/null) || :
  HERE_BYTES=${size%%[!0-9]*}
  answer BYTES "$HERE_BYTES"
  [[ $HERE_BYTES != "$before" ]]
}

# EXIT_CODE
refuse_fetch() {
  case $LAST in
    *'o space left on device'* | *'uota exceeded'*) refuse_full "$LAST" ;;
    *'401 '* | *'403 '* | *[Gg]ated* | *'is restricted'* | *'authorized list'* | *'not authorized'*)
      refuse 4 denied "the hub does not give $REPO to $HOSTNAME: $LAST" "accept its terms on the hub, then: hf auth login, or set HF_TOKEN"
      ;;
    *) refuse 1 failed "${LAST:-${WORDS[0]##*/} ended with exit code $1}" "fetch it on this machine, and it is copied from there: hf download $REPO" ;;
  esac
}

main
