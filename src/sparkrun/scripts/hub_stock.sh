# What this host's Hugging Face hub cache has of a model, file by file.
#
# Parameters
#   HUB   folder of the cache
#   REPO  org/name
#
# Answers, in section STOCK: FREE_KIB; REF (name, commit); FILE (size, path below snapshots, name of the blob that it links to or nothing);
# BLOB (size, name); PART (size, name) of a blob that has come in part. Values are separated by tabs. A link that leads nowhere is no FILE.
#
# Exit codes (REASON): 0 looked; 2 bad_parameter.

main() {
  section STOCK
  name_folders
  tell_room
  cd -- "$HUB_FOLDER/$FOLDER" 2>/dev/null && tell_repo
  cd -- "$GROWING/blobs" 2>/dev/null && tell_found PART '%s\t%f' . -maxdepth 1 -type f
  end_section
}

tell_room() {
  local folder=$HUB_FOLDER free
  while [[ -n $folder && ! -e $folder ]]; do folder=${folder%/*}; done
  free=$(timeout 3 df -P -k -- "${folder:-/}" </dev/null 2>/dev/null) || return 0
  read -r _ _ _ free _ <<<"${free##*$'\n'}"
  answer FREE_KIB "$free"
}

tell_repo() {
  local ref
  while IFS= read -r ref; do
    ! first_line "refs/$ref" || answer REF "$ref"$'\t'"$REPLY"
  done < <(find refs -type f -printf '%P\n' 2>/dev/null)
  [[ ! -d blobs ]] || tell_found BLOB '%s\t%f' blobs -maxdepth 1 -type f ! -name '*.incomplete'
  [[ ! -d snapshots ]] || tell_files
}

# A link inside the cache leads to ../../blobs/NAME; one that leaves it counts by what it leads to.
tell_files() {
  local -A blob_of=()
  local path target
  while IFS=$'\t' read -r path target; do
    [[ $target != *../blobs/* ]] || blob_of[$path]=${target##*/}
  done < <(find snapshots -type l -printf '%P\t%l\n' 2>/dev/null)
  while IFS=$'\t' read -r size path; do
    answer FILE "$size"$'\t'"$path"$'\t'"${blob_of[$path]:-}"
  done < <(find -L snapshots -type f -printf '%s\t%P\n' 2>/dev/null)
}

# KEY FORMAT FIND_ARGUMENTS...
tell_found() {
  find "${@:3}" -printf "$1=$2\\n" 2>/dev/null || :
}

main
