# The gate of a container: a folder of this host that is /run/sparkrun inside, and the script that waits there.
#
#   gate     the script; the container's main process
#   env      secret variables of the engine, removed once they are read; kept for a container that docker restarts
#   waiting  there once the script runs
#   held     newer than waiting: the launch is at work, so that the wait counts anew
#   open     lets the script become the engine; it stays, so that a restarted container passes by itself
#   passed   there once it has
#   starts   "COUNT UPTIME_S" of quick failures in a row, and of the last start
#   gave_up  there once there were too many: the engine is not started any more
#
# The parent of these folders can be entered by this user alone, so that what is in them may be readable by whatever user the container has.

# Writes the gate of STATE, with SECRET_ENVS; open unless GATED is 1. Ends the script when it cannot.
write_gate() {
  local mask=077
  # Another user of the container has to read it too; nobody else of this host can come near it.
  ((OWN_USER)) || mask=022
  export_lines "${SECRET_ENVS[@]}"
  {
    gate_text >"$STATE/gate" &&
      { [[ $GATED == 1 ]] || : >"$STATE/open"; } &&
      { [[ -z $REPLY ]] || (umask "$mask" && printf '%s' "$REPLY" >"$STATE/env"); }
  } 2>/dev/null || refuse_folder
}

# Plain sh, with nothing but built-in commands and sleep. Its variables have names that no engine has.
gate_text() {
  printf 'sparkrun_limit_s=%s sparkrun_restarts=%s\n' "$GATE_TIMEOUT_S" "${RESTARTS:-0}"
  cat <<'GATE'
sparkrun_gate=${0%/*} sparkrun_turns=0
: >"$sparkrun_gate/waiting"
until [ -e "$sparkrun_gate/open" ]; do
  if [ "$sparkrun_gate/held" -nt "$sparkrun_gate/waiting" ]; then
    : >"$sparkrun_gate/waiting"
    sparkrun_turns=0
  fi
  if [ "$sparkrun_turns" -ge $((sparkrun_limit_s * 20)) ]; then
    echo "sparkrun: the launch did not open the gate within $sparkrun_limit_s s" >&2
    exit 78
  fi
  if sleep 0.05 2>/dev/null; then sparkrun_turns=$((sparkrun_turns + 1))
  elif sleep 1; then sparkrun_turns=$((sparkrun_turns + 20))
  else exit 78
  fi
done
if [ "$sparkrun_restarts" = 1 ]; then
  sparkrun_count=0 sparkrun_last=0
  read -r sparkrun_now sparkrun_rest </proc/uptime
  sparkrun_now=${sparkrun_now%%.*}
  [ ! -e "$sparkrun_gate/starts" ] || read -r sparkrun_count sparkrun_last <"$sparkrun_gate/starts"
  if [ "$sparkrun_now" -lt "$sparkrun_last" ] || [ $((sparkrun_now - sparkrun_last)) -ge 60 ]; then sparkrun_count=0; fi
  if [ "$sparkrun_count" -ge 5 ]; then
    echo "sparkrun: the engine has failed $sparkrun_count times within a minute of its start; it is not started again" >&2
    : >"$sparkrun_gate/gave_up"
    while sleep 3600; do :; done
  fi
  echo "$((sparkrun_count + 1)) $sparkrun_now" >"$sparkrun_gate/starts"
fi
if [ -e "$sparkrun_gate/env" ]; then
  . "$sparkrun_gate/env"
  if [ "$sparkrun_restarts" != 1 ]; then : >"$sparkrun_gate/env"; rm -f "$sparkrun_gate/env" 2>/dev/null; fi
fi
: >"$sparkrun_gate/passed"
if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi
exec sh -c "$1"
GATE
}
