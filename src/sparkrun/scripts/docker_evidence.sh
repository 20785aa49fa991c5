# Why a container has ended, or what it says while it lives.
#
# Parameters
#   NAME   container name
#   LINES  how many lines of its log (default 20)
#   CACHE  sparkrun cache folder (default: this host's own)
#
# Answers, in section EVIDENCE: NAME, STATE; of one that has ended EXIT_CODE, ENDED_MS and NOW_MS by this host's own clock, SIGNAL (KILL, SEGV, …) when that is what ended it,
# OOM_KILLED=1; OOM_HINT, why memory may be the cause; GATE=timed_out for one whose gate nobody opened; LOG once for each of the last
# lines, cut to 2000 bytes, without requests for the health.
#
# Exit codes (REASON): 0 looked; 2 wrong parameters; 3 to 7 as docker_start; 8 no_container.

HEALTH_ASKED='GET /(health|health_generate|ping|v1/models)[ "?]'

main() {
  section EVIDENCE
  answer NAME "$NAME"
  require_container_name "$NAME"
  LINES=${LINES:-20}
  [[ $LINES =~ ^[0-9]{1,6}$ ]] || refuse 2 bad_parameter "LINES is no whole number: $LINES"
  need_docker
  inspect_named "$NAME" || refuse 8 no_container "there is no container $NAME on $HOSTNAME"
  answer STATE "$C_STATE"
  container_lives || tell_end
  tell_log
  end_section
}

tell_end() {
  local ended_ms
  answer EXIT_CODE "$C_EXIT"
  now_ms
  ended_ms=$(date -d "$C_FINISHED" +%s%3N 2>/dev/null) && answer ENDED_MS "$ended_ms" && answer NOW_MS "$NOW_MS" || :
  ((C_EXIT != GATE_TIMEOUT_CODE)) || answer GATE timed_out
  ((C_EXIT <= 128)) || answer SIGNAL "$(kill -l "$((C_EXIT - 128))" 2>/dev/null || echo "$((C_EXIT - 128))")"
  if [[ $C_OOM == true ]]; then
    answer OOM_KILLED 1
    answer OOM_HINT "the kernel killed it for lack of memory"
  fi
}

tell_log() {
  local line oom='' shown=()
  # Whoever waits asks for its health again and again: that would be all there is to read.
  read_log_tail "$((LINES + 1000))" "$C_ID"
  for line in "${LOG_LINES[@]}"; do
    [[ $line =~ $HEALTH_ASKED ]] || shown+=("$line")
  done
  ((${#shown[@]} <= LINES)) || shown=("${shown[@]: -LINES}")
  shopt -s nocasematch
  for line in "${shown[@]}"; do
    [[ ! $line =~ out\ of\ memory|outofmemory|bad_alloc|cannot\ allocate\ memory|failed\ to\ allocate|oom.kill ]] || oom=$line
    answer LOG "$line"
  done
  shopt -u nocasematch
  [[ -z $oom ]] || answer OOM_HINT "${oom:0:300}"
}

main
