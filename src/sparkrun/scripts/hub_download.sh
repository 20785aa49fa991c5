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
# What has come is read once more before it counts: the hub's client compares only lengths.
#
# Exit codes (REASON): 0 in place; 1 failed; 2 bad_parameter; 3 no_program; 4 denied; 5 not_there; 10 cancelled; 14 cache_not_writable;
# 16 damaged; 17 disk_full; 18 busy; 24 stalled; 25 hub_fails.

# arguments: repository, revision, names that are not wanted beside safetensors, names that are not wanted, patterns
FETCH='
import sys
from huggingface_hub import HfApi, snapshot_download

def fetch(repo, revision, ignored, excluded, *patterns):
    names = [file.rfilename for file in HfApi().model_info(repo, revision=revision or None).siblings or ()]
    whole = not patterns and any("/" not in name and name.endswith(".safetensors") for name in names)
    unwanted = excluded.split("\n") if excluded else []
    unwanted += ignored.split("\n") if whole else []
    snapshot_download(repo, revision=revision or None, allow_patterns=patterns or None, ignore_patterns=unwanted or None)

def told(error):
    at = error
    while at and getattr(at, "response", None) is None:
        at = at.__cause__ or at.__context__
    said = getattr(error, "server_message", None) or str(error)
    line = next(filter(None, map(str.strip, said.splitlines())), "")
    return f"{at.response.status_code if at else 0} {type(error).__name__}: {line}"

try:
    fetch(*sys.argv[1:])
except Exception as error:
    sys.exit("HUB=" + told(error))
'

main() {
  section DOWNLOAD
  watch_session
  open_incoming
  choose_program
  fetch
  verify_incoming
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
  [[ -z ${1//[[:space:]]/} || $1 == "See 'docker run --help'"* ]] || LAST=${1##*$'\r'}
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
  HERE_BYTES=0
  for size in $(timeout 3 find "$GROWING/blobs" -type f -printf '%s\n' 2>/dev/null </dev/null); do ((HERE_BYTES += size, 1)); done
  answer BYTES "$HERE_BYTES"
  [[ $HERE_BYTES != "$before" ]]
}

# Each blob that is called by its sum.
verify_incoming() {
  local blob name sum
  for blob in "$GROWING"/blobs/*; do
    name=${blob##*/}
    choose_sum "$name"
    ((${#SUM_WORDS[@]})) || continue
    ! session_gone || refuse 10 cancelled "nobody waits for the model any more"
    sum=$({ [[ ${SUM_WORDS[0]} != *sha1sum ]] || printf 'blob %s\0' "$(stat -c %s -- "$blob")"; cat -- "$blob"; } | "${SUM_WORDS[@]}") || :
    [[ ${sum%% *} != "$name" ]] || continue
    rm -f -- "$blob"
    refuse 16 damaged "a file of $REPO came damaged from the hub: $name" "run this again: only that file is fetched anew"
  done
}

# EXIT_CODE
refuse_fetch() {
  local url=${HF_ENDPOINT:-https://huggingface.co}
  leave_incoming
  [[ ! $LAST =~ ^HUB=([0-9]+)\ (.*)$ ]] || refuse_hub "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  case $LAST in
    *'o space left on device'* | *'uota exceeded'*) refuse_full "$LAST" ;;
    *'401 '* | *'403 '* | *[Gg]ated* | *'is restricted'* | *'authorized list'* | *'not authorized'*) refuse_hub 403 "$LAST" ;;
    *"No module named 'huggingface_hub'"* | *'exec: "python3"'*)
      refuse 3 no_program "neither $HOSTNAME nor $IMAGE has huggingface_hub to fetch $REPO with" \
        "install it there (pip install -U huggingface_hub), or fetch it here: hf download $REPO"
      ;;
    *) refuse 1 failed "${LAST:-${WORDS[0]##*/} ended with exit code $1}" "fetch it on this machine, and it is copied from there: hf download $REPO" ;;
  esac
}

# STATUS TEXT: what the hub answered; status 0 when it did not.
refuse_hub() {
  local again="wait a while, then run this again: it goes on with the next file"
  case $1:$2 in
    *'o space left on device'* | *'uota exceeded'*) refuse_full "$2" ;;
    401:*RepositoryNotFound* | 404:*RepositoryNotFound*)
      refuse 5 not_there "the hub ($url) has no $REPO, or does not show it to this user (HTTP $1)" "correct the name; for a private one: hf auth login, or set HF_TOKEN"
      ;;
    404:*RevisionNotFound*) refuse 5 not_there "the hub ($url) has no revision $REVISION of $REPO" "correct model_revision; its branches and tags are listed on the hub" ;;
    401:* | 403:*) refuse 4 denied "the hub does not give $REPO: $1 ${2#*: }" "accept its terms on the hub, then: hf auth login, or set HF_TOKEN" ;;
    404:*) refuse 5 not_there "the hub ($url) has no $REPO: 404 ${2#*: }" "correct the name, or HF_ENDPOINT" ;;
    429:*) refuse 25 hub_fails "the hub ($url) is asked too often: 429 ${2#*: }" "$again; with a token (HF_TOKEN) more is allowed" ;;
    5*) refuse 25 hub_fails "the hub ($url) fails: $1 ${2#*: }" "$again" ;;
    *) refuse 25 hub_fails "the hub ($url) does not answer as it should: $2" "is the network there, and HF_ENDPOINT right? $again" ;;
  esac
}

main
