# Takes tuning configs from the tar archive that comes on stdin into this host's own sparkrun cache; each file appears whole.
#
# Parameters
#   RUNTIME  engine they are for, as registries call it (vllm, sglang)
#   DROP     array of files to take away, by their path below the engine's folder
#   CACHE    sparkrun cache folder (default: this host's own)
#
# Answers, in section TUNING: FOLDER, RECEIVED (files), DROPPED (files); REASON, MESSAGE and HINT when it failed.
#
# Exit codes (REASON): 0 here; 1 failed; 2 bad_parameter; 14 cache_not_writable; 19 tar_missing.

main() {
  section TUNING
  [[ $RUNTIME =~ ^[a-z][a-z0-9_-]*$ ]] || refuse 2 bad_parameter "'$RUNTIME' is no engine"
  find_tool tar && TAR=$REPLY || refuse 19 tar_missing "tar is not installed on $HOSTNAME" "install it there"
  resolve_places
  FOLDER=$CACHE_DIR/tuning/$RUNTIME INCOMING=$CACHE_DIR/tuning/$RUNTIME/.incoming.$$
  mkdir -p -- "$INCOMING" 2>/dev/null ||
    refuse 14 cache_not_writable "$FOLDER on $HOSTNAME cannot be written" "let this user own it there: sudo chown -R \"\$USER\" $CACHE_DIR/tuning"
  trap 'rm -rf -- "$INCOMING"' EXIT
  receive
  drop
  answer FOLDER "$FOLDER"
  end_section
}

receive() {
  local said status=0 file name count=0
  said=$(LC_ALL=C "$TAR" -x -f - -C "$INCOMING" --no-same-owner 2>&1) || status=$?
  ((status == 0)) || refuse 1 failed "${said##*$'\n'}"
  shopt -s globstar
  for file in "$INCOMING"/**/*.json; do
    name=${file#"$INCOMING/"}
    said=$({ mkdir -p -- "$FOLDER/${name%"${name##*/}"}" && mv -f -- "$file" "$FOLDER/$name"; } 2>&1) || refuse 1 failed "${said##*$'\n'}"
    ((++count))
  done
  answer RECEIVED "$count"
}

drop() {
  local name count=0
  for name in "${DROP[@]}"; do
    [[ $name != /* && /$name/ != */../* ]] || refuse 2 bad_parameter "'$name' is no file of the engine's folder"
    [[ ! -f $FOLDER/$name ]] || { rm -f -- "$FOLDER/$name" 2>/dev/null && ((++count)); }
  done
  answer DROPPED "$count"
}

main
