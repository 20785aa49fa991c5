# Stands by a rank while its launch comes up, and says at once when it ends. It never says that all is well: whoever asked ends it.
#
# Parameters
#   WATCH_NAME       workload of the local executor
#   WATCH_CONTAINER  docker container
#   LIFELINE         1: the caller keeps stdin open for as long as it listens
#   CACHE            sparkrun cache folder (default: this host's own)
#
# Answers, in section GUARD: ELAPSED_MS every 5 s; READY=0 with REASON (died, gone, replaced, docker_gone), MESSAGE, and EXIT_CODE of what died.
#
# Exit codes: 0 nobody listens any more; 1 it has ended; 2 wrong parameters.

main() {
  section GUARD
  begin_clock
  [[ -n $WATCH_NAME$WATCH_CONTAINER ]] || refuse 2 bad_parameter "nothing to watch"
  [[ -z $WATCH_NAME ]] || valid_name "$WATCH_NAME" || refuse 2 bad_parameter "'$WATCH_NAME' is not a workload name"
  watch_session
  begin_watch
  until session_gone; do
    nap 0.1
    look_around
  done
  end_section
}

# REASON MESSAGE
fail() {
  answer READY 0
  refuse 1 "$1" "$2"
}

main
