# Opens the gate of a container: its main process becomes the engine.
#
# Parameters
#   NAME   container name
#   GATE   folder name of the launch's gate, below <cache>/docker
#   CACHE  sparkrun cache folder (default: this host's own)
#
# Answers, in section GATE: NAME, and GATE=passed; else REASON and MESSAGE, with EXIT_CODE of a container that has ended.
#
# Exit codes (REASON): 0 passed, now or before; 2 bad_name, bad_parameter; 3 to 7 as docker_start; 8 no_gate: this launch has none here;
# 9 died or gone; 10 stuck: the container lives and did not notice for 10 s.

main() {
  section GATE
  answer NAME "$NAME"
  require_container_name "$NAME"
  [[ $GATE =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$ ]] || refuse 2 bad_parameter "GATE is no folder name: $GATE"
  need_docker
  resolve_docker_folder
  STATE=$DOCKER_FOLDER/$GATE
  { : >"$STATE/open"; } 2>/dev/null || refuse 8 no_gate "there is no gate of $NAME on $HOSTNAME ($STATE)"
  wait_passed
  answer GATE passed
  end_section
}

wait_passed() {
  local until_ms look_ms
  now_ms
  until_ms=$((NOW_MS + 10000)) look_ms=$((NOW_MS + 300))
  while [[ ! -e $STATE/passed ]]; do
    [[ ! -e $STATE/gave_up ]] || refuse 9 died "the engine of $NAME on $HOSTNAME has failed again and again; it is not started any more"
    if ((NOW_MS >= look_ms)); then
      look_alive
      look_ms=$((NOW_MS + 300))
    fi
    ((NOW_MS < until_ms)) || refuse 10 stuck "container $NAME on $HOSTNAME did not pass its open gate within 10 s"
    nap 0.02
    now_ms
  done
}

look_alive() {
  inspect_named "$NAME" || refuse 9 gone "there is no container $NAME on $HOSTNAME any more"
  ! container_lives || return 0
  [[ ! -e $STATE/passed ]] || return 0
  answer EXIT_CODE "$C_EXIT"
  ((C_EXIT != GATE_TIMEOUT_CODE)) || refuse 9 died "container $NAME on $HOSTNAME waited too long at its gate and ended"
  refuse 9 died "container $NAME on $HOSTNAME ended at its gate with exit code $C_EXIT"
}

main
