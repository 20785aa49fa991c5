"""What every collective library has in common: the sockets on which the nodes meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from sparkrun.core.fabric import HostFabric


class CollectiveBackend(ABC):
    """The environment that one vendor's library needs on one host."""

    name: ClassVar[str]
    vendor: ClassVar[str]

    def env(self, host: HostFabric) -> dict[str, str]:
        """All variables of a host in a launch over several nodes, sorted; none for a host on its own, which needs no network."""
        if not host.is_networked:
            return {}
        return dict(sorted({**meeting_env(host), **self.library_env(host)}.items()))

    @abstractmethod
    def library_env(self, host: HostFabric) -> dict[str, str]:
        """The library's own variables."""


def meeting_env(host: HostFabric) -> dict[str, str]:
    """Where processes of several nodes meet: Gloo, TensorPipe, Open MPI and launchers that read ``MN_IF_NAME``."""
    names = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MN_IF_NAME", "OMPI_MCA_btl_tcp_if_include")
    interface = host.bootstrap_interface
    return {**(dict.fromkeys(names, interface) if interface else {}), **({"NODE_IP": host.node_address} if host.node_address else {})}


def node_env(host: HostFabric) -> dict[str, str]:
    """How engines are told their own node's address.

    ``VLLM_HOST_IP``: docs.vllm.ai, "Security", configuration options for inter-node communications; it has to be each node's own.
    ``SGLANG_HOST_IP``: SGLang's counterpart. Ray's ``--node-ip-address`` takes ``NODE_IP``.
    """
    return dict.fromkeys(("NODE_IP", "VLLM_HOST_IP", "SGLANG_HOST_IP"), host.node_address) if host.node_address else {}


def socket_interfaces(host: HostFabric) -> tuple[str, ...]:
    """The interfaces for a library's sockets, the one on which nodes meet first.

    Fabric interfaces join it where each reaches all nodes. Where each reaches one neighbour they must not: a library takes the first
    interface of the list that the kernel names, and would wait there for nodes that cannot come.
    """
    names = (host.bootstrap_interface or "", *(() if host.is_linked_pairwise else host.netdevs))
    return tuple(name for name in dict.fromkeys(names) if name)


def exact_mark(names: Sequence[str], known: Iterable[str]) -> str:
    """``=`` (exact match) for a list of ``names`` that a library reads as prefixes, where one would catch another of the ``known``
    names, as ``mlx5_1`` catches ``mlx5_10``; else nothing."""
    return "=" if any(other.startswith(tuple(names)) for other in known if other not in names) else ""
