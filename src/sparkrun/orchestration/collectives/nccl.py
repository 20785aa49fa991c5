"""NVIDIA's collective library."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from sparkrun.core.fabric import HostFabric
from sparkrun.orchestration.collectives.base import CollectiveBackend, exact_mark, socket_interfaces

_DEFAULT_SUBNET_PREFIX = 24


class NcclBackend(CollectiveBackend):
    """NCCL over RDMA where a fabric joins all hosts, else over TCP on the interface where the nodes meet.

    Variables: docs.nvidia.com, NCCL user guide, "Environment Variables". The three for rings (NCCL 2.30): "Connect three DGX Spark in
    a ring topology", build.nvidia.com/spark. NCCL_IB_SUBNET_PREFIX_LEN: rocm.docs.amd.com, "RCCL environment variables".
    """

    name: ClassVar[str] = "nccl"
    vendor: ClassVar[str] = "nvidia"

    def library_env(self, host: HostFabric) -> dict[str, str]:
        """The RDMA ports, or that RDMA is off because the ports that are up do not lead to all peers."""
        sockets = socket_interfaces(host)
        env = {"NCCL_SOCKET_IFNAME": exact_mark(sockets, host.interface_names) + ",".join(sockets)} if sockets else {}
        if host.used:
            return {**env, **_rdma_env(host), **_routing_env(host)}
        return {**env, "NCCL_IB_DISABLE": "1"} if host.has_idle_rdma else env


def _rdma_env(host: HostFabric) -> dict[str, str]:
    env = {
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_CROSS_NIC": "1",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_IB_HCA": _hca_list(host),
        "UCX_NET_DEVICES": ",".join(used.port.name for used in host.used),
    }
    if host.gid_index is not None and not host.is_linked_pairwise:
        env["NCCL_IB_GID_INDEX"] = str(host.gid_index)
    return env


def _routing_env(host: HostFabric) -> dict[str, str]:
    """How a port is chosen by the subnet of the peer, where ports of equal rank do not reach each other."""
    if not host.is_linked_pairwise:
        return {"NCCL_IB_SUBNET_AWARE_ROUTING": "1", **_prefix_env(host)} if host.crossed_rails else {}
    env = {"NCCL_NET_PLUGIN": "none", "NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_MERGE_NICS": "0", **_prefix_env(host)}
    # A tree would need links between hosts that are not neighbours.
    return {**env, "NCCL_ALGO": "Ring"} if host.neighbours_only else env


def _prefix_env(host: HostFabric) -> dict[str, str]:
    """The library takes subnets for /24; longer ones would look like one."""
    longest = max(used.prefix for used in host.used)
    return {"NCCL_IB_SUBNET_PREFIX_LEN": str(longest)} if longest > _DEFAULT_SUBNET_PREFIX else {}


def _hca_list(host: HostFabric) -> str:
    """Devices by their names; with the port where a device has several."""
    every = [used.port for used in host.used] + [unused.port for unused in host.unused]
    ports = Counter(port.hca for port in every)
    used = [each.port for each in host.used]
    names = [port.name if ports[port.hca] > 1 else port.hca for port in used]
    return exact_mark([port.hca for port in used], ports) + ",".join(names)
