# What the runtime cache of this host holds, and with APPLY the removal of what was not used for long.
#
# Parameters
#   RUNTIME_CACHES  folder of all entries (default: runtime-cache in the sparkrun cache folder)
#   PRUNE_MINUTES   how long an entry may be unused
#   APPLY           1: remove the entries that are stale
#   CACHE           sparkrun cache folder (default: this host's own)
#
# Answers, in section RUNTIME_CACHE: ROOT, NOW (seconds of the epoch); once for each entry ENTRY ("KIB SECONDS PATH", last use, path from ROOT), then STALE (path)
# for each that may go, and with APPLY, REMOVED (path) or KEPT ("PATH<TAB>reason").
#
# Exit codes (REASON): 0 looked; 1 find_missing; 2 bad_parameter.

main() {
  local entry said
  resolve_places
  expand_home "${RUNTIME_CACHES:-$CACHE_DIR/runtime-cache}"
  RUNTIME_CACHES=${REPLY%/}
  section RUNTIME_CACHE
  [[ $PRUNE_MINUTES =~ ^[1-9][0-9]{0,9}$ ]] || refuse 2 bad_parameter "PRUNE_MINUTES is no number of minutes: $PRUNE_MINUTES"
  need_find
  answer ROOT "$RUNTIME_CACHES"
  answer NOW "$EPOCHSECONDS"
  if [[ -d $RUNTIME_CACHES ]]; then
    tell_entries
    while IFS= read -r -d '' entry; do
      answer STALE "${entry#"$RUNTIME_CACHES"/}"
      [[ $APPLY == 1 ]] || continue
      if said=$(remove_entry "$entry" 2>&1); then
        answer REMOVED "${entry#"$RUNTIME_CACHES"/}"
      else
        answer KEPT "${entry#"$RUNTIME_CACHES"/}"$'\t'"${said##*: }"
      fi
    done < <(stale_entries)
  fi
  end_section
}

tell_entries() {
  local entry used size
  while IFS= read -r -d '' used && IFS= read -r -d '' entry; do
    size=$(timeout 30 du -s -k -- "$entry" 2>/dev/null) || :
    answer ENTRY "${size%%[!0-9]*} ${used%.*} ${entry#"$RUNTIME_CACHES"/}"
  done < <("$FIND" "$RUNTIME_CACHES" -mindepth 2 -maxdepth 4 -name "$LAST_USED" -type f -printf '%T@\0%h\0')
}

main
