# Who listens on this host's TCP ports, by the kernel's own tables.

# Reads all that listens into SOCKETS anew. The kernel lists what listens first (state 0A), before maybe thousands of connections.
load_sockets() {
  local table fd lines line
  SOCKETS=()
  for table in /proc/net/tcp /proc/net/tcp6; do
    { exec {fd}<"$table"; } 2>/dev/null || continue
    mapfile -t -n 1 lines <&"$fd"
    while mapfile -t -n 64 lines <&"$fd" && ((${#lines[@]})); do
      for line in "${lines[@]}"; do
        [[ $line == *' 0A '* ]] || break 2
        SOCKETS+=("$line")
      done
    done
    exec {fd}<&-
  done
}

# PORT: sets LISTEN_INODE and LISTEN_ADDRESS (one to reach it at) of a socket that listens; false when none does.
tcp_listener() {
  local port line
  printf -v port ':%04X' "$1"
  for line in "${SOCKETS[@]}"; do
    # number local remote state tx:rx when retransmits uid timeout inode
    # shellcheck disable=SC2086
    set -- $line
    [[ $2 == *"$port" ]] || continue
    read_address "${2%:*}"
    LISTEN_INODE=${10}
    return
  done
  return 1
}

# HEX: an address as the kernel prints it, each 32-bit word in this machine's (little-endian) order. Sets LISTEN_ADDRESS.
read_address() {
  local hex=$1 word words='' at
  case $hex in
    00000000) LISTEN_ADDRESS=127.0.0.1 ;;
    ????????) read_ipv4 "$hex" ;;
    00000000000000000000000000000000) LISTEN_ADDRESS=::1 ;;
    0000000000000000FFFF0000????????) read_ipv4 "${hex:24}" ;;
    *)
      for at in 0 8 16 24; do
        word=${hex:at:8}
        words+=:${word:6:2}${word:4:2}:${word:2:2}${word:0:2}
      done
      LISTEN_ADDRESS=${words:1}
      ;;
  esac
}

read_ipv4() {
  printf -v LISTEN_ADDRESS '%d.%d.%d.%d' "0x${1:6:2}" "0x${1:4:2}" "0x${1:2:2}" "0x${1:0:2}"
}
