# Which other hosts this one can log in to, for what is handed from host to host.
#
# Parameters
#   WAYS  array of "NAME<tab>KIND<tab>ADDRESS<tab>ssh command": the ways to a host one after the other, best first
#
# Answers, in section REACH: REACHED (NAME, KIND, ADDRESS and milliseconds, with tabs between) for the first way that works to each host.
#
# Exit codes: 0 looked.

AT_ONCE=4

main() {
  local way last='' group=() name
  section REACH
  for way in "${WAYS[@]}"; do
    name=${way%%$'\t'*}
    if [[ $name != "$last" && ${#group[@]} -gt 0 ]]; then
      start_group
      group=()
    fi
    group+=("$way") last=$name
  done
  ((${#group[@]} == 0)) || start_group
  wait
  end_section
}

start_group() {
  while (($(jobs -rp | wc -l) >= AT_ONCE)); do wait -n || :; done
  try_ways "${group[@]}" &
}

# WAY...: the first that works.
try_ways() {
  local way name kind address words=() began
  for way in "$@"; do
    IFS=$'\t' read -r name kind address way <<<"$way"
    eval "words=($way)"
    now_ms && began=$NOW_MS
    if timeout 8 "${words[@]}" true </dev/null >/dev/null 2>&1; then
      now_ms
      answer REACHED "$name"$'\t'"$kind"$'\t'"$address"$'\t'"$((NOW_MS - began))"
      return 0
    fi
  done
}

main
