# Where this host keeps models of the Hugging Face hub, and which physical cache that is: hosts that share one find the same answer.
#
# Reads HF_HOME_OVERRIDE.

# Inside the hub's folder, what sparkrun keeps of it: pins/, used/, missing/ (a file each model, by its folder's name) and cache-id.
HUB_STATE=.sparkrun

# Sets HF_CACHE and HUB, absolute paths without a slash at the end.
resolve_hub() {
  expand_home "${HF_HOME_OVERRIDE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}}"
  HF_CACHE=${REPLY%/}
  HUB=$HF_CACHE/hub
  [[ -n $HF_HOME_OVERRIDE ]] || HUB=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-$HUB}}
  expand_home "$HUB"
  HUB=${REPLY%/}
}

# Sets HUB_PLACE, the nearest folder to HUB that is there, without links; and HUB_REST, what has yet to be made below it.
find_hub_place() {
  local folder=$HUB
  while [[ -n $folder && ! -d $folder ]]; do folder=${folder%/*}; done
  HUB_REST=${HUB#"$folder"} HUB_PLACE=${folder:-/}
  REPLY=$PWD
  ! { CDPATH='' cd -P -- "$HUB_PLACE" && HUB_PLACE=$PWD && CDPATH='' cd -- "$REPLY"; } 2>/dev/null || return 0
}

# INODE of HUB_PLACE: leaves in REPLY what the cache is called, " " and its marker behind it where it has one.
#   net:TYPE:SOURCE:INODE[REST]        on a file system that several hosts may mount
#   local:BOOT_ID:DEVICE:INODE[REST]   on any other: only what runs under the same kernel can share it
name_cache() {
  local name kernel marker=''
  [[ $1 =~ ^[1-9][0-9]*$ ]] && find_mount "$HUB_PLACE" || { REPLY='' && return; }
  name=net:$MOUNT_TYPE:$MOUNT_SOURCE:$1$HUB_REST
  if ! network_mount; then
    first_line /proc/sys/kernel/random/boot_id || :
    kernel=$REPLY name=local:$kernel:$MOUNT_DEVICE:$1$HUB_REST
  fi
  ! read_marker || marker=" $REPLY"
  REPLY=$name$marker
}

# Says HUB, CACHE_ID, and MARKED=1 when MARK=1 and a cache that several hosts may mount got its marker now.
tell_identity() {
  local inode
  find_hub_place
  answer HUB "$HUB"
  ! { [[ $MARK == 1 ]] && find_mount "$HUB_PLACE" && network_mount && write_marker; } || answer MARKED 1
  inode=$(stat -c %i -- "$HUB_PLACE" 2>/dev/null) || :
  name_cache "$inode"
  answer CACHE_ID "$REPLY"
}

# The marker's word, 32 hex digits; false without one.
read_marker() {
  first_line "$HUB/$HUB_STATE/cache-id" && [[ $REPLY =~ ^[0-9a-f]{32}$ ]]
}

# PATH without links: sets MOUNT_TYPE, MOUNT_SOURCE and MOUNT_DEVICE of the file system it is on (proc_pid_mountinfo(5)).
find_mount() {
  local line lines point words best=-1 -
  MOUNT_TYPE='' MOUNT_SOURCE='' MOUNT_DEVICE=''
  mapfile -t lines 2>/dev/null </proc/self/mountinfo || return 1
  set -f
  for line in "${lines[@]}"; do
    # shellcheck disable=SC2206
    words=($line)
    # A path with a blank in it stands there with \040.
    point=${words[4]:-}
    [[ $point != *\\* ]] || printf -v point '%b' "${point//\\/\\0}"
    [[ ${1%/}/ == "${point%/}"/* ]] && ((${#point} >= best)) || continue
    best=${#point} MOUNT_DEVICE=${words[2]}
    # shellcheck disable=SC2206
    words=(${line##* - })
    MOUNT_TYPE=${words[0]:-} MOUNT_SOURCE=${words[1]:-}
  done
  [[ -n $MOUNT_TYPE ]]
}

# Whether several hosts may see the found file system.
network_mount() {
  case $MOUNT_TYPE in
    nfs* | cifs | smb* | 9p | virtiofs | ceph | glusterfs | lustre | gpfs | beegfs | ocfs2 | gfs2 | afs | orangefs | fuse.sshfs | fuse.glusterfs | fuse.ceph* | \
      fuse.juicefs | fuse.s3fs | fuse.rclone | fuse.weka* | wekafs | panfs) ;;
    *) return 1 ;;
  esac
}

# Gives the cache a marker where it has none, if the hub is there and can be written; false when nothing was written.
write_marker() {
  local word
  [[ -d $HUB && -w $HUB ]] && ! read_marker || return 1
  first_line /proc/sys/kernel/random/uuid || return 1
  word=${REPLY//-/}
  open_state '' && { set -o noclobber && printf '%s\n' "$word" >"$HUB/$HUB_STATE/cache-id"; } 2>/dev/null || { set +o noclobber && return 1; }
  set +o noclobber
}

# FOLDER: makes the state folder, or one in it, for whoever may write to the hub.
open_state() {
  local mode folder=$HUB/$HUB_STATE${1:+/$1}
  mode=$(stat -L -c %a -- "$HUB" 2>/dev/null) && [[ $mode =~ ^[0-7]{3,4}$ ]] || return 1
  umask "$(printf '%04o' "$((0777 & ~8#${mode: -3}))")"
  mkdir -p -- "$folder" 2>/dev/null
}
