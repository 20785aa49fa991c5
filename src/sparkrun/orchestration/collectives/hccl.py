"""Intel Gaudi's collective library."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.fabric import HostFabric
from sparkrun.orchestration.collectives.base import CollectiveBackend, socket_interfaces


class HcclBackend(CollectiveBackend):
    """HCCL: over the accelerators' own ports where they are up, else over the host's NICs through libfabric.

    Source: docs.habana.ai, "Scale-out via Host NIC". The library finds the best mode itself (own ports, then host NICs with Gaudi
    Direct, then host NICs through host memory); HCCL_OVER_OFI=1 forces the last one.
    """

    name: ClassVar[str] = "hccl"
    vendor: ClassVar[str] = "intel"

    def library_env(self, host: HostFabric) -> dict[str, str]:
        """The interfaces for scale-out, and the mode where the library cannot find it."""
        sockets = socket_interfaces(host)
        env = {"HCCL_SOCKET_IFNAME": ",".join(sockets)} if sockets else {}
        return {**env, **_mode_env(host)}


def _mode_env(host: HostFabric) -> dict[str, str]:
    if host.has_accelerator_network:
        return {}
    if host.used:
        # What Gaudi Direct with the verbs provider asks for.
        return {"RDMAV_FORK_SAFE": "1", "MLX5_SCATTER_TO_CQE": "0"}
    return {"HCCL_OVER_OFI": "1", "FI_PROVIDER": "tcp"}
