# Whether an engine and a model are on this host, and where. Nothing is imported, fetched or written.
#
# Reads ENGINE, MODEL, REVISION, FURTHER and PYTHON (parameters), and HUB (folder of the Hugging Face hub's cache). Needs LC_ALL=C.

# Asks one python for both: whether it has the embedded engine, and where a file of a package is. Imports neither.
# arguments: want_engine package file
LOOK_UP='
import importlib.util as util, os, sys
sys.path[:] = [folder for folder in sys.path if folder]
want_engine, package, file = sys.argv[1:4]

def spec(name):
    try:
        return util.find_spec(name)
    except (ImportError, ValueError):
        return None

def version(found):
    names = os.listdir(os.path.dirname(os.path.dirname(found.origin)))
    return next((name[10:-10] for name in names if name.startswith("xllamacpp-") and name.endswith(".dist-info")), "unknown")

def engine():
    found = spec("sparkrun.embedded.llama_server") and spec("xllamacpp")
    return "ENGINE=" + version(found) if found and found.origin else ""

def where():
    found = spec(package)
    folders = found and found.submodule_search_locations
    if not folders:
        return f"REASON=package {package} is not installed"
    root, path = os.path.realpath(list(folders)[0]), os.path.realpath(os.path.join(list(folders)[0], file))
    if not path.startswith(root + os.sep):
        return f"REASON={file} leads out of package {package}"
    return "PATH=" + path if os.path.exists(path) else f"REASON=no file {file} in package {package}"

print(engine() if want_engine else "")
print(where() if package else "")
'

tell_engine_and_model() {
  ENGINE_PATH='' EMBEDDED_PYTHON='' EMBEDDED_ENGINE='' WANT_ENGINE='' PKG_NAME='' PKG_FILE='' PKG_PATH='' PKG_REASON=''
  find_engine
  begin_model
  [[ -z $WANT_ENGINE$PKG_NAME ]] || ask_pythons
  section ENGINE
  answer ENGINE_PATH "$ENGINE_PATH"
  answer EMBEDDED_PYTHON "$EMBEDDED_PYTHON"
  answer EMBEDDED_ENGINE "$EMBEDDED_ENGINE"
  end_section
  section MODEL
  tell_model
  end_section
}

# Models that are wanted beside the first, such as one that drafts for it.
tell_further() {
  local wanted
  for wanted in "${FURTHER[@]}"; do
    MODEL=${wanted%%$'\t'*} REVISION='' PKG_NAME='' PKG_PATH=''
    [[ $wanted != *$'\t'* ]] || REVISION=${wanted#*$'\t'}
    begin_model
    section FURTHER
    answer MODEL "$MODEL"
    tell_model
    end_section
  done
}

find_engine() {
  [[ -n $ENGINE ]] || return 0
  expand_home "$ENGINE"
  if [[ $REPLY == */* ]]; then
    ! is_program "$REPLY" || ENGINE_PATH=$REPLY
  elif find_tool "$REPLY" || is_program "$HOME/.local/bin/$ENGINE"; then
    ENGINE_PATH=$REPLY
  fi
  [[ -n $ENGINE_PATH || ${ENGINE##*/} != llama-server ]] || WANT_ENGINE=1
}

# Each python that may have a package, best first, until everything wanted is found.
ask_pythons() {
  local python asked=' ' found package=$PKG_NAME
  PKG_REASON="no python here that could look up package $PKG_NAME"
  list_pythons
  for python in "${PYTHONS[@]}"; do
    [[ $asked != *" $python "* ]] && is_program "$python" || continue
    asked+="$python "
    found=$(timeout 5 "$python" -c "$LOOK_UP" "$WANT_ENGINE" "$package" "$PKG_FILE" </dev/null 2>/dev/null) || continue
    take_found "$python" "$found"
    [[ -z $PKG_PATH ]] || package=
    [[ -n $WANT_ENGINE$package ]] || return 0
  done
}

list_pythons() {
  PYTHONS=("$PYTHON")
  ! find_tool sparkrun-llama-server || list_interpreter "$REPLY"
  ! find_tool python3 || PYTHONS+=("$REPLY")
  PYTHONS+=("$HOME/.local/share/uv/tools/sparkrun/bin/python")
}

# SCRIPT: the python of its first line, or of the second where the path is too long for a first one and a shell stands in.
list_interpreter() {
  local line lines=()
  mapfile -t -n 2 lines <"$1" || return 0
  for line in "${lines[@]}"; do
    [[ ! $line =~ ^(#!|\'\'\'exec\')\ *[\'\"]?(/[^\'\"]*python[0-9.]*) ]] || PYTHONS+=("${BASH_REMATCH[2]}")
  done
}

# PYTHON ANSWER
take_found() {
  local line
  while IFS= read -r line; do
    case $line in
      ENGINE=*) EMBEDDED_PYTHON=$1 EMBEDDED_ENGINE=${line#*=} WANT_ENGINE= ;;
      PATH=*) PKG_PATH=${line#*=} ;;
      # That a file is missing from a package says more than that another python lacks the package.
      REASON=*) [[ $PKG_REASON == 'no file'* || $PKG_REASON == *'leads out'* ]] || PKG_REASON=${line#*=} ;;
    esac
  done <<<"$2"
}

# Sets MODEL_KIND, and MODEL_FILE of a path, PKG_NAME and PKG_FILE of a package file, or MODEL_ID and QUANT; else MODEL_REASON.
begin_model() {
  MODEL_KIND=none MODEL_REASON='' MODEL_FILE='' MODEL_ID='' QUANT=''
  case $MODEL in
    '') ;;
    pkg://*) begin_package "${MODEL#pkg://}" ;;
    file://*) begin_file_uri "${MODEL#file://}" ;;
    /* | '~' | '~/'*)
      MODEL_KIND=path
      expand_home "$MODEL"
      MODEL_FILE=$REPLY
      ;;
    *)
      MODEL_KIND=hub
      if [[ $MODEL =~ ^([A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?)(:([A-Za-z0-9_.-]+))?$ ]]; then
        MODEL_ID=${BASH_REMATCH[1]} QUANT=${BASH_REMATCH[4],,}
      else
        MODEL_REASON="neither a model id nor an absolute path"
      fi
      ;;
  esac
}

# PACKAGE/FILE
begin_package() {
  local package=${1%%/*} file=${1#*/}
  MODEL_KIND=pkg
  if [[ ! $package =~ ^[A-Za-z_][A-Za-z0-9_-]*$ || $1 != */* || -z $file ]]; then
    MODEL_REASON="not of the form pkg://package/file"
  elif [[ /$file/ == *//* || /$file/ == */../* || /$file/ == */./* ]]; then
    MODEL_REASON="$file leads out of package $package"
  else
    PKG_NAME=${package//-/_} PKG_FILE=$file
  fi
}

# HOST/PATH of a file URI (RFC 8089).
begin_file_uri() {
  local path=/${1#*/}
  MODEL_KIND=path
  if [[ $1 != /* && $1 != localhost/* ]]; then
    MODEL_REASON="file://$1 is not on this host"
  elif [[ $path != *%* ]]; then
    MODEL_FILE=$path
  else
    path=${path//'\'/'\\'}
    printf -v MODEL_FILE '%b' "${path//%/'\x'}"
  fi
}

tell_model() {
  answer MODEL_KIND "$MODEL_KIND"
  if [[ -n $MODEL_REASON ]]; then
    answer MODEL_REASON "$MODEL_REASON"
  elif [[ $MODEL_KIND == path ]]; then
    tell_path "$MODEL_FILE"
  elif [[ $MODEL_KIND == pkg && -n $PKG_PATH ]]; then
    tell_path "$PKG_PATH"
  elif [[ $MODEL_KIND == pkg ]]; then
    answer MODEL_REASON "$PKG_REASON"
  elif [[ $MODEL_KIND == hub ]]; then
    tell_hub
  fi
}

# PATH
tell_path() {
  if [[ -L $1 && ! -e $1 ]]; then
    answer MODEL_REASON "$1 is a link to a missing file"
  elif [[ ! -e $1 ]]; then
    answer MODEL_REASON "no such file: $1"
  elif [[ ! -r $1 || (-d $1 && ! -x $1) ]]; then
    answer MODEL_REASON "no permission to read $1"
  elif [[ -d $1 ]]; then
    tell_folder "$1"
  elif list_shards "$1"; then
    tell_files "${SHARDS[@]}"
    [[ ${1,,} != *.gguf ]] || tell_projectors "${1%/*}"/*
  else
    answer MODEL_REASON "$REPLY"
  fi
}

tell_folder() {
  local size
  answer MODEL_PATH "$1"
  size=$(timeout 3 du -s -b -L -- "$1" 2>/dev/null </dev/null) || :
  answer MODEL_SIZE_BYTES "${size%%[!0-9]*}"
  tell_heads "$1/config.json"
  tell_config MODEL_CONFIG "$1/config.json"
  tell_config MODEL_QUANT_CONFIG "$1/hf_quant_config.json"
  tell_weights "$1"
}

# KEY FILE
tell_config() {
  ! slurp "$2" || ((${#REPLY} > 200000)) || answer "$1" "$REPLY"
}

# FOLDER: the size of the files that an engine loads; adapters and a second copy of the weights are left out.
tell_weights() {
  local file size=0 files=("$1"/model*.safetensors)
  if ((!${#files[@]})); then
    for file in "$1"/*.safetensors; do
      REPLY=${file##*/}
      [[ $REPLY == adapter* || $REPLY == consolidated* || $REPLY == optimizer* ]] || files+=("$file")
    done
  fi
  ((${#files[@]})) || return 0
  for REPLY in $(stat -L -c %s -- "${files[@]}"); do ((size += REPLY, 1)); done
  answer MODEL_WEIGHT_BYTES "$size"
}

# FILE: the heads of the language model in a config.json; those of a vision part stand elsewhere in it.
tell_heads() {
  local config
  slurp "$1" && ((${#REPLY} < 1000000)) || return 0
  config=$REPLY
  [[ $config != *'"text_config"'* ]] || config=${config#*'"text_config"'}
  [[ ! $config =~ \"num_attention_heads\"[[:space:]]*:[[:space:]]*([0-9]+) ]] || answer MODEL_ATTENTION_HEADS "${BASH_REMATCH[1]}"
  [[ ! $config =~ \"num_key_value_heads\"[[:space:]]*:[[:space:]]*([0-9]+) ]] || answer MODEL_KV_HEADS "${BASH_REMATCH[1]}"
}

# FILE...: the first is the one to name.
tell_files() {
  local size=0
  answer MODEL_PATH "$1"
  for REPLY in $(stat -L -c %s -- "$@"); do ((size += REPLY, 1)); done
  answer MODEL_SIZE_BYTES "$size"
  [[ ${1,,} != *.gguf ]] || answer MODEL_GGUF_HEAD "$(head -c 16384 -- "$1" | base64 -w 0)"
}

# FILE: sets SHARDS to it, or to all parts of a split file (NAME-00001-of-00003.EXT). False when one is missing: REPLY says which.
list_shards() {
  local stem ext total part
  SHARDS=("$1")
  [[ $1 =~ ^(.*)-[0-9]{5}-of-([0-9]{5})(\.[A-Za-z0-9]+)$ ]] || set -- "$1" single
  if [[ ${2:-} != single ]]; then
    stem=${BASH_REMATCH[1]} total=$((10#${BASH_REMATCH[2]})) ext=${BASH_REMATCH[3]} SHARDS=()
    for ((part = 1; part <= total; part++)); do
      printf -v REPLY '%s-%05d-of-%05d%s' "$stem" "$part" "$total" "$ext"
      SHARDS+=("$REPLY")
    done
  fi
  for part in "${SHARDS[@]}"; do
    REPLY="${part##*/} is missing"
    [[ ! -L $part || -e $part ]] || REPLY="${part##*/} is a link to a missing file"
    [[ -e $part ]] || return 1
  done
}

# --- the hub cache ---------------------------------------------------------------------------------------------------------------

tell_hub() {
  local repo=$HUB/models--${MODEL_ID//\//--} files=() ggufs=() weights=()
  if [[ ! -d $repo ]]; then
    answer MODEL_REASON "not in the hub cache ($HUB)"
    return
  elif ! find_snapshot "$repo"; then
    answer MODEL_REASON "the hub cache has no snapshot of ${REVISION:+revision $REVISION of }it ($repo)"
    return
  fi
  shopt -s globstar nocaseglob
  files=("$SNAPSHOT"/**)
  ggufs=("$SNAPSHOT"/**/*.gguf)
  weights=("$SNAPSHOT"/**/*.{safetensors,bin,pt,pth,onnx,npz})
  shopt -u globstar nocaseglob
  if [[ -n $QUANT || ${MODEL_ID,,} == *gguf* ]] || ((${#ggufs[@]} && !${#weights[@]})); then
    tell_gguf "${ggufs[@]}"
  elif ((!${#weights[@]})); then
    answer MODEL_REASON "the hub cache has no weights of it, only other files ($SNAPSHOT)"
  elif whole_files "${files[@]}"; then
    tell_folder "$SNAPSHOT"
  else
    answer MODEL_REASON "incomplete in the hub cache: $REPLY"
  fi
}

# REPO: sets SNAPSHOT to the one that REVISION is or names; without a revision to the one refs/main names, else to the newest.
find_snapshot() {
  local folder
  if [[ -n $REVISION ]]; then
    [[ $REVISION =~ ^[A-Za-z0-9][A-Za-z0-9._/-]*$ && /$REVISION/ != */../* ]] || return 1
    first_line "$1/refs/$REVISION" || REPLY=$REVISION
    SNAPSHOT=$1/snapshots/$REPLY
    [[ $REPLY != */* && -d $SNAPSHOT ]]
    return
  fi
  first_line "$1/refs/main" || :
  SNAPSHOT=$1/snapshots/$REPLY
  [[ -z $REPLY || ! -d $SNAPSHOT ]] || return 0
  SNAPSHOT=
  for folder in "$1"/snapshots/*/; do
    folder=${folder%/}
    [[ -n $SNAPSHOT && ! $folder -nt $SNAPSHOT ]] || SNAPSHOT=$folder
  done
  [[ -n $SNAPSHOT ]]
}

# FILE...: whether every link leads to its blob and every split file has all its parts; REPLY says what does not.
whole_files() {
  local file all
  local -A seen=()
  for file in "$@"; do
    all=${file/-[0-9][0-9][0-9][0-9][0-9]-of-/}
    # Not with -v, which evaluates a subscript a second time: these names come from a repository.
    [[ ! -d $file && -z ${seen[$all]:-} ]] || continue
    seen[$all]=1
    list_shards "$file" || return 1
  done
  none_wanted_again
}

# Whether every file is back that was removed because it was damaged (model_change.sh); REPLY says which is not.
none_wanted_again() {
  local file
  slurp "$HUB/.sparkrun/missing/models--${MODEL_ID//\//--}" || return 0
  while IFS= read -r file; do
    [[ $file != "${SNAPSHOT##*/}"/* || -e ${SNAPSHOT%/*}/$file ]] || { REPLY="${file#*/} is missing" && return 1; }
  done <<<"$REPLY"
}

# FILE...: of a snapshot's GGUF files the one of the wanted quantisation: its name as a word of the path, else anywhere in it. Without
# a wanted one Q4_K_M, else the first, as llama-server chooses.
tell_gguf() {
  local file wanted pattern reason="no ${QUANT:+${QUANT^^} }GGUF file in the hub cache ($SNAPSHOT)"
  for wanted in "${QUANT:-q4_k_m}" ${QUANT:-''}; do
    for pattern in "*[!a-z0-9_]${wanted}[!a-z0-9_]*" "*$wanted*"; do
      for file in "$@"; do
        REPLY=${file#"$SNAPSHOT"}
        # shellcheck disable=SC2053
        [[ ${REPLY,,} == $pattern && ${REPLY,,} != *mmproj* && ${REPLY,,} != *imatrix* ]] || continue
        if list_shards "$file"; then
          tell_files "${SHARDS[@]}"
          tell_projectors "$@"
          return
        fi
        reason="incomplete in the hub cache: $REPLY"
      done
    done
  done
  answer MODEL_REASON "$reason"
}

# FILE...: the multimodal projector among them, the most exact of those that every engine reads first.
tell_projectors() {
  local file kind found=()
  for file in "$@"; do
    REPLY=${file##*/}
    [[ ${REPLY,,} != *mmproj*.gguf || ! -e $file ]] || found+=("$file")
  done
  answer MMPROJ_COUNT "${#found[@]}"
  for kind in f16 bf16 f32 f8 ''; do
    for file in "${found[@]}"; do
      REPLY=${file##*/}
      [[ -n $kind && ${REPLY,,} != *[!a-z0-9]"$kind"[!a-z0-9]* ]] || { answer MMPROJ_PATH "$file" && return; }
    done
  done
}
