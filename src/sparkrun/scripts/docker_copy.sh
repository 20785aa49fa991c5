# Unpacks files into a running container.
#
# Parameters
#   NAME     container name
#   DEST     folder in the container; made when it is missing
#   ARCHIVE  base64 of a tar archive
#
# Answers, in section COPY: NAME and DEST; REASON and MESSAGE when it failed.
#
# Exit codes (REASON): 0 copied; 1 failed; 2 bad_name, bad_parameter; 3 to 7 as docker_start; 8 no_container, not_running.

main() {
  section COPY
  answer NAME "$NAME"
  answer DEST "$DEST"
  require_container_name "$NAME"
  [[ $DEST == /* ]] || refuse 2 bad_parameter "DEST is no absolute path: $DEST"
  need_docker
  "$DOCKER" exec -u 0 -- "$NAME" mkdir -p "$DEST" </dev/null 2>"$ERROR_FILE" || refuse_with_reason
  base64 -d <<<"$ARCHIVE" | "$DOCKER" cp - "$NAME:$DEST" 2>"$ERROR_FILE" || refuse_with_reason
  rm -f "$ERROR_FILE"
  end_section
}

refuse_with_reason() {
  local said
  said=$(<"$ERROR_FILE")
  rm -f "$ERROR_FILE"
  refuse 1 failed "cannot copy to $DEST in $NAME: ${said:-unknown reason}"
}

ERROR_FILE=$(mktemp)
main
