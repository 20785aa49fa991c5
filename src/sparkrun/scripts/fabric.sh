# What this host's network looks like: every port of every RDMA device, every interface that has an address or a device, and how the
# host is reached. Stands before a script that calls report_fabric between the markers of a section.
#
# Reads SYSFS (where sysfs is mounted; default: /sys below the prefix SYSFS_ROOT) and asks `ip`. Neither has to be there; no root needed.
#
# Answers
#   FABRIC_IP                   1 when there is an ip tool; without it no address and no route is known
#   FABRIC_IF_COUNT             interfaces, n from 0
#   FABRIC_IF_<n>_NAME, _UP, _WIRELESS, _VIRTUAL (1 or 0), _DRIVER, _MTU, _SPEED_MBPS, _ADDRESSES (address/prefix, blanks between)
#   FABRIC_PORT_COUNT           ports of all devices, in the order of their PCI names, n from 0
#   FABRIC_PORT_<n>_HCA, _PORT, _STATE (ACTIVE, DOWN …), _LINK (Ethernet, InfiniBand), _RATE, _PCI, _NUMA
#   FABRIC_PORT_<n>_NETDEV      the interface of this port and no other, with its _MTU and _ADDRESSES
#   FABRIC_PORT_<n>_GID_<index> type|address|interface, of each entry of the GID table in use
#   FABRIC_ROUTE_IF, FABRIC_ROUTE_SOURCE   interface and address by which packets leave for the world
#   FABRIC_SSH_ADDRESS          the address of this host that the ssh client came to

report_fabric() {
  local fabric_sys=${SYSFS:-${SYSFS_ROOT:-}/sys} fabric_ip
  local -A fabric_addresses=()
  local -a fabric_names=()
  find_tool ip || :
  fabric_ip=$REPLY
  answer FABRIC_IP "$((${#fabric_ip} > 0))"
  fabric_read_addresses
  fabric_report_interfaces
  fabric_report_ports
  fabric_report_route
}

# Sets fabric_addresses (interface to addresses) and fabric_names (the interfaces that have any, in the kernel's order).
fabric_read_addresses() {
  local lines='' name family address rest
  [[ -z $fabric_ip ]] || lines=$("$fabric_ip" -o addr show 2>/dev/null) || :
  while read -r _ name family address rest; do
    name=${name%%@*}
    [[ $family == inet || $family == inet6 ]] && [[ -n $name ]] || continue
    [[ $address == */* ]] || fabric_add_prefix
    [[ -n ${fabric_addresses[$name]:-} ]] || fabric_names+=("$name")
    fabric_addresses[$name]+="${fabric_addresses[$name]:+ }$address"
  done <<<"$lines"
}

# Of a point-to-point link the prefix stands behind the peer: inet 10.0.0.1 peer 10.0.0.2/32
fabric_add_prefix() {
  local peer=${rest#peer }
  peer=${peer%% *}
  case $rest:$family in
    'peer '*/*) address+=/${peer##*/} ;;
    *:inet) address+=/32 ;;
    *) address+=/128 ;;
  esac
}

fabric_report_interfaces() {
  local path name count=0
  local -A seen=()
  for path in "$fabric_sys"/class/net/*/; do
    name=${path%/} name=${name##*/}
    [[ -e ${path}device || -n ${fabric_addresses[$name]:-} ]] || continue
    seen[$name]=1
    fabric_report_interface "FABRIC_IF_$count" "$name" "${path%/}"
    count=$((count + 1))
  done
  for name in "${fabric_names[@]}"; do
    [[ -z ${seen[$name]:-} ]] || continue
    answer "FABRIC_IF_${count}_NAME" "$name"
    answer "FABRIC_IF_${count}_ADDRESSES" "${fabric_addresses[$name]}"
    count=$((count + 1))
  done
  answer FABRIC_IF_COUNT "$count"
}

# KEY NAME FOLDER
fabric_report_interface() {
  local driver slot up=0 wireless=0 virtual=0
  fabric_read_device "$3/device"
  ! fabric_is_up "$3" || up=1
  [[ ! -e $3/wireless && ! -e $3/phy80211 ]] || wireless=1
  [[ -e $3/device ]] || virtual=1
  answer "$1_NAME" "$2"
  answer "$1_UP" "$up"
  answer "$1_WIRELESS" "$wireless"
  answer "$1_VIRTUAL" "$virtual"
  answer "$1_DRIVER" "$driver"
  fabric_answer_file "$1_MTU" "$3/mtu"
  fabric_answer_file "$1_SPEED_MBPS" "$3/speed"
  answer "$1_ADDRESSES" "${fabric_addresses[$2]:-}"
}

# FOLDER: what has no carrier to tell of (tunnels, lo) says unknown; then the flag IFF_UP counts.
fabric_is_up() {
  first_line "$1/operstate" || return 1
  [[ $REPLY != up ]] || return 0
  [[ $REPLY == unknown ]] && first_line "$1/flags" && [[ $REPLY =~ ^0x[0-9a-fA-F]+$ ]] && ((REPLY & 1))
}

# FOLDER: sets driver and slot (the PCI name) from what the kernel tells of a device.
fabric_read_device() {
  local line
  driver='' slot=''
  slurp "$1/uevent" || return 0
  while IFS= read -r line; do
    case $line in
      DRIVER=*) driver=${line#*=} ;;
      PCI_SLOT_NAME=*) slot=${line#*=} ;;
    esac
  done <<<"$REPLY"
}

fabric_report_ports() {
  local path driver slot hca port count=0
  local -a devices=()
  for path in "$fabric_sys"/class/infiniband/*/; do
    fabric_read_device "${path}device"
    path=${path%/}
    devices+=("${slot:-~} ${path##*/}")
  done
  fabric_sort_devices
  for hca in "${devices[@]}"; do
    slot=${hca%% *} hca=${hca#* }
    for port in "$fabric_sys/class/infiniband/$hca"/ports/*/; do
      fabric_report_port "FABRIC_PORT_$count" "$fabric_sys/class/infiniband/$hca" "${port%/}"
      count=$((count + 1))
    done
  done
  answer FABRIC_PORT_COUNT "$count"
}

# Puts the texts in `devices` in order.
fabric_sort_devices() {
  local at to each LC_ALL=C
  for ((at = 1; at < ${#devices[@]}; at++)); do
    each=${devices[at]}
    for ((to = at; to > 0; to--)); do
      [[ ${devices[to - 1]} > $each ]] || break
      devices[to]=${devices[to - 1]}
    done
    devices[to]=$each
  done
}

# KEY DEVICE PORT (folders); slot is the device's.
fabric_report_port() {
  local netdev
  answer "$1_HCA" "${2##*/}"
  answer "$1_PORT" "${3##*/}"
  first_line "$3/state" || :
  answer "$1_STATE" "${REPLY#*: }"
  fabric_answer_file "$1_LINK" "$3/link_layer"
  fabric_answer_file "$1_RATE" "$3/rate"
  answer "$1_PCI" "${slot#\~}"
  fabric_answer_file "$1_NUMA" "$2/device/numa_node"
  fabric_report_gids "$1" "$3"
  [[ -n $netdev ]] || fabric_find_netdev "$2" "${3##*/}"
  answer "$1_NETDEV" "$netdev"
  [[ -n $netdev ]] || return 0
  fabric_answer_file "$1_MTU" "$fabric_sys/class/net/$netdev/mtu"
  answer "$1_ADDRESSES" "${fabric_addresses[$netdev]:-}"
}

# KEY PORT: sets netdev to the interface of the first RoCE v2 entry of an IPv4 address, else to that of the first entry: a bond or a VLAN
# owns the addresses that its ports carry.
fabric_report_gids() {
  local index address type first=''
  netdev=''
  for ((index = 0; ; index++)); do
    [[ -e $2/gids/$index ]] || break
    first_line "$2/gids/$index" && [[ $REPLY == *[1-9a-f]* ]] || continue
    address=$REPLY
    first_line "$2/gid_attrs/types/$index" || :
    type=$REPLY
    first_line "$2/gid_attrs/ndevs/$index" || :
    answer "$1_GID_$index" "$type|$address|$REPLY"
    [[ -n $first ]] || first=$REPLY
    [[ $type != 'RoCE v2' || $address != 0000:0000:0000:0000:0000:ffff:* || -n $netdev ]] || netdev=$REPLY
  done
  netdev=${netdev:-$first}
}

# DEVICE PORT: sets netdev from the interfaces of the device, where the GID table does not tell.
fabric_find_netdev() {
  local path
  local -a all=("$1"/device/net/*/)
  for path in "${all[@]}"; do
    path=${path%/}
    if { first_line "$path/dev_port" && [[ $REPLY == "$(($2 - 1))" ]]; } || ((${#all[@]} == 1)); then
      netdev=${path##*/}
      return
    fi
  done
}

fabric_report_route() {
  local words='' address
  if [[ -n $fabric_ip ]]; then
    words=$("$fabric_ip" route get 8.8.8.8 2>/dev/null) || words=$("$fabric_ip" -6 route get 2001:4860:4860::8888 2>/dev/null) || words=''
  fi
  fabric_answer_word FABRIC_ROUTE_IF dev "$words"
  fabric_answer_word FABRIC_ROUTE_SOURCE src "$words"
  # client address, client port, server address, server port
  read -r _ _ address _ <<<"${SSH_CONNECTION:-}"
  answer FABRIC_SSH_ADDRESS "$address"
}

# KEY NAME ROUTE: the word after NAME in a route, such as: 8.8.8.8 via 10.0.0.254 dev eth0 src 10.0.0.1 uid 1000
fabric_answer_word() {
  local word=${3#*" $2 "}
  [[ $word == "$3" ]] || answer "$1" "${word%%[[:space:]]*}"
}

# KEY FILE: answers the first line of a file, nothing when it cannot be read.
fabric_answer_file() {
  ! first_line "$2" || answer "$1" "$REPLY"
}
