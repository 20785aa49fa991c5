# Makes a model that hub_receive took part of the hub cache.
#
# Parameters
#   HUB   folder of this host's Hugging Face hub cache
#   REPO  org/name
#
# Answers, in section KEEP: FOLDER, where the model is now; REASON, MESSAGE and HINT when it failed.
#
# Exit codes (REASON): 0 in place; 1 failed; 2 bad_parameter; 14 cache_not_writable; 17 disk_full; 18 busy.

main() {
  section KEEP
  open_incoming
  keep_incoming
  answer FOLDER "$HUB_FOLDER/$FOLDER"
  end_section
}

main
