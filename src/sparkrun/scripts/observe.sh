# One look at a host: what it is, its accelerators, whether the engine and the model are here, ports, workloads, docker.
#
# Parameters
#   PORTS             array of TCP ports to look at
#   IMAGES            array of images to look for
#   MODEL             model as in a recipe: ORG/NAME[:QUANT], /absolute/path, file:///path, pkg://package/file (may be empty)
#   REVISION          branch, tag or commit of a MODEL of a hub (default: the main one, else the newest that is here)
#   FURTHER           array of further models to look for, without packages: "MODEL" or "MODEL<TAB>REVISION"
#   HF_HOME_OVERRIDE  Hugging Face home to look in instead of this host's own
#   ENGINE            program to find, such as llama-server (may be empty)
#   PYTHON            python to ask first for packages and for the embedded engine (may be empty)
#   CACHE             sparkrun cache folder (default: this host's own)
#   TUNING            engine whose tuning configs are looked for, as registries call it (may be empty)
#   SYSFS             where sysfs is mounted (default /sys)
#   CDI_DIRS          array of folders with lists of devices that containers can have (default /etc/cdi, /var/run/cdi)
#   CLAIM             1: claim this host for a launch before the look, and hold it until the caller has gone (claim.sh)
#   CLAIM_FILE        its lock file (default /tmp/sparkrun.claim, which every user of this host shares)
#   CLAIM_WAIT_S      how long to wait for another launch to let go (default 0)
#   LIFELINE          1: the caller keeps stdin open for as long as it holds the claim
#
# Answers, by section. What cannot be known here is left out or empty; that is a fact and no failure.
#   HOST       HOSTNAME USER UID GID HOME SHELL OS KERNEL ARCH CPUS MEM_TOTAL_KIB MEM_AVAILABLE_KIB SPARKRUN_CACHE
#              SPARKRUN_CACHE_WRITABLE SPARKRUN_CACHE_FREE_KIB HF_CACHE (its home) HF_HUB_CACHE HF_CACHE_FREE_KIB
#              HF_CACHE_ID (see hub_place.sh)
#   ACCEL      NVIDIA_PRESENT NVIDIA_GPU_COUNT NVIDIA_GPU_n_{NAME,MEMORY_MIB,COMPUTE_CAP} NVIDIA_DRIVER_VERSION, NVIDIA_ERROR when
#              nvidia-smi is here and fails; AMD_PRESENT AMD_GPU_COUNT INTEL_PRESENT INTEL_GAUDI_COUNT APPLE_PRESENT IB_PRESENT
#   ENGINE     ENGINE_PATH, or for a missing llama-server EMBEDDED_PYTHON and EMBEDDED_ENGINE (version)
#   MODEL      MODEL_KIND (path, pkg, hub, none), MODEL_PATH and MODEL_SIZE_BYTES when it is here (of a folder whose
#              config.json tells them, MODEL_ATTENTION_HEADS and MODEL_KV_HEADS; MODEL_CONFIG and MODEL_QUANT_CONFIG, the texts of
#              config.json and hf_quant_config.json; MODEL_WEIGHT_BYTES of its safetensors files; of a GGUF file MODEL_GGUF_HEAD, its
#              first 16 KiB in base64), else MODEL_REASON;
#              MMPROJ_PATH and MMPROJ_COUNT of the multimodal projectors beside a GGUF
#   TUNING     FILE (SHA-256, path below the engine's folder) once for each tuning config
#   FURTHER    once for each of FURTHER: MODEL, and the answers of MODEL
#   FABRIC     as fabric.sh says
#   PORTS      PORT_<port>_STATE (free, busy), and of a listener as far as this user may see: _PID, _PROCESS, _SESSION
#   WORKLOADS  COUNT, then one section WORKLOAD for each workload of the local executor: local_status.sh without RSS_KIB and port
#   DOCKER     DOCKER_PRESENT DOCKER_USABLE DOCKER_REASON DOCKER_VERSION (not with CLAIM), DOCKER_PODMAN=1 where
#              docker is podman, DOCKER_CDI=1 where docker hands out NVIDIA's devices by such a list, DOCKER_GPU_HOOK=1 where it does by
#              NVIDIA's hook (--gpus); for each of IMAGES one IMAGE_HERE (reference, id, architecture,
#              bytes) or IMAGE_MISSING (reference), and neither where docker does not tell; then one section WORKLOAD for each container of
#              ours, with EXECUTOR=docker: docker_status.sh without times, memory and port
#   CLAIM      before all others: CLAIMED=1, with LOCK=none on a host without flock(1), where nothing is locked; or REASON and MESSAGE, and no
#              other section, when the host cannot be claimed
#   HELD       LOOKED=1 after all others, while the claim is held
#
# Exit codes (REASON): 0 looked, and the claim has ended; 1 busy: another launch holds it; 2 wrong parameters, no_file.

LC_ALL=C
SMI_FIELDS=name,memory.total,compute_cap,driver_version
IMAGE_FORMAT='{{.Id}} {{.Architecture}} {{.Size}}'

main() {
  local port
  for port in "${PORTS[@]}"; do
    [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || refuse 2 bad_parameter "PORTS holds '$port', which is no TCP port"
  done
  SYSFS=${SYSFS:-/sys}
  resolve_docker_folder
  resolve_hub
  find_hub_place
  [[ $CLAIM != 1 ]] || claim_host
  begin_slow_looks
  tell_host
  tell_engine_and_model
  tell_further
  tell_tuning
  tell_ports
  tell_workloads
  tell_accelerators
  section FABRIC
  report_fabric
  end_section
  tell_docker
  [[ $CLAIM != 1 ]] || keep_claim
}

claim_host() {
  section CLAIM
  watch_session
  take_claim "${CLAIM_FILE:-/tmp/sparkrun.claim}" "${CLAIM_WAIT_S:-0}"
  answer CLAIMED 1
  [[ -n $CLAIM_FD ]] || answer LOCK none
  end_section
}

keep_claim() {
  section HELD
  answer LOOKED 1
  end_section
  hold_claim
}

# Programs that take their time run while everything else is looked at.
begin_slow_looks() {
  local image fd
  IMAGE_FDS=()
  SMI_FD='' VERSION_FD='' CONTAINERS_FD='' CDI_FD=''
  ! find_tool nvidia-smi || exec {SMI_FD}< <(quietly bounded "$REPLY" "--query-gpu=$SMI_FIELDS" --format=csv,noheader,nounits)
  exec {DISK_FD}< <(quietly disk_room)
  find_docker || return 0
  # A launch has no use for it, and each start of docker's client takes a while.
  [[ $CLAIM == 1 ]] || exec {VERSION_FD}< <(quietly bounded "$DOCKER" version --format '{{.Server.Version}}')
  exec {CONTAINERS_FD}< <(quietly containers_here)
  ! find_device_list || exec {CDI_FD}< <(quietly bounded "$DOCKER" info --format '{{range .CDISpecDirs}}{{.}} {{end}}')
  for image in "${IMAGES[@]}"; do
    exec {fd}< <(quietly bounded "$DOCKER" image inspect --format "$IMAGE_FORMAT" -- "$image")
    IMAGE_FDS+=("$fd")
  done
}

# Sets CDI_DIR to the folder with a list of NVIDIA's devices (CDI), if there is one. Whether docker heeds it is docker's to say.
find_device_list() {
  local list
  ((${#CDI_DIRS[@]})) || CDI_DIRS=(/etc/cdi /var/run/cdi)
  for CDI_DIR in "${CDI_DIRS[@]}"; do
    for list in "$CDI_DIR"/*.json "$CDI_DIR"/*.yaml "$CDI_DIR"/*.yml; do
      [[ -f $list ]] && slurp "$list" && [[ $REPLY == *nvidia.com/gpu* ]] && return 0
    done
  done
  return 1
}

# What docker answers of our containers, and a last line with 0; or what it complains of, and its exit code.
containers_here() {
  local status=0
  ask_containers || status=$?
  ((status == 0)) || REPLY=$DOCKER_SAID
  printf '%s\n%s\n' "$REPLY" "$status"
}

# COMMAND...: its output, and a last line with its exit code (124: no answer in 5 s).
bounded() {
  local status=0
  timeout -k 1 5 "$@" 2>&1 || status=$?
  printf '\n%s\n' "$status"
}

# FD: sets LINES_READ to what bounded printed, and RETURNED to the exit code.
collect() {
  local all fd=$1
  mapfile -t all <&"$fd"
  exec {fd}<&-
  RETURNED=${all[-1]:-1}
  unset 'all[-1]'
  LINES_READ=()
  for REPLY in "${all[@]}"; do [[ -z $REPLY ]] || LINES_READ+=("$REPLY"); done
}

# --- host ------------------------------------------------------------------------------------------------------------------------

# Free KiB for the sparkrun cache and the hub, and the inode of the hub's place, one a line.
disk_room() {
  local folder folders=() cache='' hub=''
  for folder in "$CACHE_DIR" "$HUB"; do
    while [[ -n $folder && ! -e $folder ]]; do folder=${folder%/*}; done
    folders+=("${folder:-/}")
  done
  timeout 3 df -P -k -- "${folders[@]}" </dev/null 2>/dev/null | {
    read -r _ && read -r _ _ _ cache _ && read -r _ _ _ hub _ || :
    printf '%s\n%s\n' "$cache" "$hub"
  } || :
  timeout 3 stat -c %i -- "$HUB_PLACE" </dev/null 2>/dev/null || echo
}

tell_host() {
  local user='\u' room=()
  section HOST
  answer HOSTNAME "$HOSTNAME"
  answer USER "${user@P}"
  answer UID "$UID"
  answer GID "${GROUPS[0]:-}"
  answer HOME "$HOME"
  answer SHELL "${SHELL:-}"
  first_line /proc/sys/kernel/ostype || REPLY=$OSTYPE
  answer OS "$REPLY"
  first_line /proc/sys/kernel/osrelease || :
  answer KERNEL "$REPLY"
  answer ARCH "$HOSTTYPE"
  count_cpus
  answer CPUS "$REPLY"
  tell_memory
  answer SPARKRUN_CACHE "$CACHE_DIR"
  writable_folder "$CACHE_DIR" && answer SPARKRUN_CACHE_WRITABLE 1 || answer SPARKRUN_CACHE_WRITABLE 0
  answer HF_CACHE "$HF_CACHE"
  answer HF_HUB_CACHE "$HUB"
  mapfile -t room <&"$DISK_FD"
  answer SPARKRUN_CACHE_FREE_KIB "${room[0]:-}"
  answer HF_CACHE_FREE_KIB "${room[1]:-}"
  name_cache "${room[2]:-}"
  answer HF_CACHE_ID "$REPLY"
  end_section
}

# CPUs that are online, from a list such as 0-9,12.
count_cpus() {
  local list range count=0 IFS=,
  first_line "$SYSFS/devices/system/cpu/online" || { REPLY=$(nproc) && return; }
  list=$REPLY
  for range in $list; do
    ((count += ${range#*-} - ${range%-*} + 1, 1))
  done
  REPLY=$count
}

tell_memory() {
  slurp /proc/meminfo || :
  local table=$REPLY
  [[ ! $table =~ MemTotal:\ +([0-9]+) ]] || answer MEM_TOTAL_KIB "${BASH_REMATCH[1]}"
  [[ ! $table =~ MemAvailable:\ +([0-9]+) ]] || answer MEM_AVAILABLE_KIB "${BASH_REMATCH[1]}"
}

tell_tuning() {
  local folder=$CACHE_DIR/tuning/$TUNING files line
  [[ $TUNING =~ ^[a-z][a-z0-9_-]*$ && -d $folder ]] || return 0
  section TUNING
  shopt -s globstar
  files=("$folder"/**/*.json)
  shopt -u globstar
  if ((${#files[@]})); then
    while read -r line; do
      answer FILE "${line:0:64} ${line#*"$folder/"}"
    done < <(quietly sha256sum -- "${files[@]}")
  fi
  end_section
}

# --- accelerators ----------------------------------------------------------------------------------------------------------------

tell_accelerators() {
  section ACCEL
  tell_nvidia
  tell_amd
  tell_intel
  [[ $OSTYPE == darwin* ]] && answer APPLE_PRESENT 1 || answer APPLE_PRESENT 0
  local devices=("$SYSFS"/class/infiniband/*)
  answer IB_PRESENT "$((${#devices[@]} > 0))"
  end_section
}

tell_nvidia() {
  local row name memory capability driver gpu=0
  if [[ -z $SMI_FD ]]; then
    answer NVIDIA_PRESENT 0
    answer NVIDIA_GPU_COUNT 0
    return
  fi
  collect "$SMI_FD"
  if ((RETURNED)); then
    ((RETURNED != 124)) || LINES_READ=("nvidia-smi did not answer within 5 s")
    answer NVIDIA_ERROR "${LINES_READ[0]:-nvidia-smi ended with exit code $RETURNED}"
    return
  fi
  answer NVIDIA_PRESENT "$((${#LINES_READ[@]} > 0))"
  answer NVIDIA_GPU_COUNT "${#LINES_READ[@]}"
  for row in "${LINES_READ[@]}"; do
    IFS=, read -r name memory capability driver <<<"${row//, /,}"
    answer "NVIDIA_GPU_${gpu}_NAME" "$name"
    answer "NVIDIA_GPU_${gpu}_MEMORY_MIB" "$memory"
    answer "NVIDIA_GPU_${gpu}_COMPUTE_CAP" "$capability"
    ((++gpu))
  done
  ((gpu == 0)) || answer NVIDIA_DRIVER_VERSION "$driver"
}

# A KFD node without a gpu_id is a CPU.
tell_amd() {
  local node count=0
  for node in "$SYSFS"/class/kfd/kfd/topology/nodes/*; do
    ! first_line "$node/gpu_id" || [[ $REPLY == 0 ]] || ((++count))
  done
  answer AMD_PRESENT "$((count > 0))"
  answer AMD_GPU_COUNT "$count"
}

# PCI vendors: 0x8086 Intel, 0x1da3 Habana (Gaudi).
tell_intel() {
  local device present=0 gaudi=0
  for device in "$SYSFS"/class/accel/accel*/device/vendor; do
    first_line "$device" || continue
    [[ $REPLY != 0x1da3 ]] || ((++gaudi))
    [[ $REPLY != 0x8086 && $REPLY != 0x1da3 ]] || present=1
  done
  answer INTEL_PRESENT "$present"
  answer INTEL_GAUDI_COUNT "$gaudi"
}

# --- ports, workloads, docker ----------------------------------------------------------------------------------------------------

tell_ports() {
  local port
  FD_TABLE=''
  load_sockets
  section PORTS
  for port in "${PORTS[@]}"; do
    if ! tcp_listener "$port"; then
      answer "PORT_${port}_STATE" free
      continue
    fi
    answer "PORT_${port}_STATE" busy
    if find_owner "$LISTEN_INODE"; then
      answer "PORT_${port}_PID" "$REPLY"
      ! process_stat "$REPLY" || answer "PORT_${port}_SESSION" "$STAT_SESSION"
      ! first_line "/proc/$REPLY/comm" || answer "PORT_${port}_PROCESS" "$REPLY"
    fi
  done
  end_section
}

# INODE: the process that has the socket, if this user may see it.
find_owner() {
  local line IFS=$'\n' -
  [[ -n $FD_TABLE ]] || FD_TABLE=$(ls -l -n /proc/[0-9]*/fd 2>/dev/null) || :
  set -f
  for line in $FD_TABLE; do
    case $line in
      /proc/*) REPLY=$line ;;
      *"socket:[$1]")
        REPLY=${REPLY#/proc/}
        REPLY=${REPLY%%/*}
        return
        ;;
    esac
  done
  return 1
}

tell_workloads() {
  local name
  all_names
  section WORKLOADS
  answer COUNT "${#NAMES[@]}"
  end_section
  for name in "${NAMES[@]}"; do
    unset MEMBERS
    load_workload "$name" || continue
    judge_workload
    section WORKLOAD
    answer_workload "$name"
    end_section
  done
}

tell_docker() {
  section DOCKER
  FOUND=()
  if [[ -n $CONTAINERS_FD ]]; then
    answer DOCKER_PRESENT 1
    [[ -z $PODMAN ]] || answer DOCKER_PODMAN 1
    tell_daemon
  else
    answer DOCKER_PRESENT 0
    answer DOCKER_USABLE 0
  fi
  end_section
  tell_containers
}

# Where docker does not tell what runs here, nobody may take this host for free.
tell_daemon() {
  collect "$CONTAINERS_FD"
  if ((RETURNED)); then
    ((RETURNED != 124)) || LINES_READ=("docker did not answer within 8 s")
    answer DOCKER_USABLE 0
    answer DOCKER_REASON "${LINES_READ[0]:-docker ps ended with exit code $RETURNED}"
    return
  fi
  printf -v REPLY '%s\n' "${LINES_READ[@]}"
  split_answers "$REPLY"
  answer DOCKER_USABLE 1
  tell_version
  tell_device_access
  tell_images
}

# No docker before 25 knows such lists, and says that it does not know the question.
tell_device_access() {
  ! find_tool nvidia-container-runtime-hook || answer DOCKER_GPU_HOOK 1
  [[ -n $CDI_FD ]] || return 0
  collect "$CDI_FD"
  ((RETURNED)) || [[ " ${LINES_READ[0]:-} " != *" $CDI_DIR "* ]] || answer DOCKER_CDI 1
}

tell_version() {
  [[ -n $VERSION_FD ]] || return 0
  collect "$VERSION_FD"
  ((RETURNED)) || answer DOCKER_VERSION "${LINES_READ[0]:-}"
}

tell_containers() {
  local container
  for container in "${FOUND[@]}"; do
    read_answers "$container"
    section WORKLOAD
    answer EXECUTOR docker
    answer_container
    end_section
  done
}

tell_images() {
  local number
  for number in "${!IMAGE_FDS[@]}"; do
    collect "${IMAGE_FDS[number]}"
    if ((RETURNED == 0)); then
      answer IMAGE_HERE "${IMAGES[number]} ${LINES_READ[0]:-}"
    elif [[ ${LINES_READ[*]} =~ [Nn]o\ such\ (image|object)|image\ not\ known ]]; then
      answer IMAGE_MISSING "${IMAGES[number]}"
    fi
  done
}

main
