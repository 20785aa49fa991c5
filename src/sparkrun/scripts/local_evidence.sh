# Why a workload ended, as far as this host can tell.
#
# Parameters
#   NAME   workload name
#   LINES  how many lines of its log (default 20)
#   CACHE  sparkrun cache folder (default: this host's own)
#
# Answers, in section EVIDENCE: NAME; STATE, PID and EXIT_CODE where there is a record; SIGNAL (KILL, SEGV, …) when that is what
# ended it; OOM_HINT, why memory may be the cause; LOG_FILE; LOG once for each of the last lines of this launch, cut to 2000 bytes.
#
# Exit codes: 0 looked; 2 wrong parameters; 3 no_record: neither a record nor a log.

main() {
  section EVIDENCE
  require_name "$NAME"
  answer NAME "$NAME"
  LINES=${LINES:-20}
  [[ $LINES =~ ^[0-9]{1,6}$ ]] || refuse 2 bad_parameter "LINES is no whole number: $LINES"
  resolve_places
  if load_workload "$NAME"; then
    tell_end
  else
    load_log_place "$NAME"
    [[ -e $W_LOG ]] || refuse 3 no_record "nothing is known of $NAME on $HOSTNAME"
  fi
  tell_log
  end_section
}

tell_end() {
  judge_workload
  answer STATE "$W_STATE"
  answer PID "$W_PID"
  answer EXIT_CODE "$W_EXIT"
  ((${W_EXIT:-0} > 128)) || return 0
  answer SIGNAL "$(kill -l "$((W_EXIT - 128))" 2>/dev/null || echo "$((W_EXIT - 128))")"
  slurp /proc/vmstat || :
  if [[ -n $W_OOM && $REPLY =~ oom_kill\ ([0-9]+) ]] && ((W_EXIT == 137 && BASH_REMATCH[1] > W_OOM)); then
    answer OOM_HINT "the kernel has killed $((BASH_REMATCH[1] - W_OOM)) processes for lack of memory since this launch"
  fi
}

tell_log() {
  local line lines=() oom='' LC_ALL=C
  answer LOG_FILE "$W_LOG"
  find_log_part "$LINES" || return 0
  mapfile -t lines < <(tail -c "+$((LOG_FROM + 1))" -- "$W_LOG" </dev/null 2>/dev/null | head -n "$LINES")
  shopt -s nocasematch
  for line in "${lines[@]}"; do
    [[ ! $line =~ out\ of\ memory|outofmemory|bad_alloc|cannot\ allocate\ memory|failed\ to\ allocate|oom.kill ]] || oom=$line
    ((${#line} <= 2000)) || line=${line: -2000}
    answer LOG "$line"
  done
  shopt -u nocasematch
  [[ -z $oom ]] || answer OOM_HINT "${oom:0:300}"
}

main
