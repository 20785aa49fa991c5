# Tells which physical Hugging Face cache this host uses, so that hosts that share one are recognised.
#
# Parameters
#   HF_HOME_OVERRIDE  Hugging Face home to look in instead of this host's own
#   MARK              1: give a cache on a network file system a marker, if it has none and can be written
#
# Answers, in section CACHE: HUB, CACHE_ID (see hub_place.sh), MARKED=1 when the marker is new.
#
# Exit codes: 0 looked.

main() {
  resolve_home
  resolve_hub
  section CACHE
  tell_identity
  end_section
}

main
