"""AMD's collective library."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.fabric import HostFabric
from sparkrun.orchestration.collectives.nccl import NcclBackend


class RcclBackend(NcclBackend):
    """RCCL reads NCCL's names: NCCL_SOCKET_IFNAME, NCCL_IB_HCA, NCCL_IB_GID_INDEX, NCCL_IB_SUBNET_AWARE_ROUTING and the others
    (rocm.docs.amd.com, "RCCL environment variables"). Two variables of the HSA runtime come with it.
    """

    name: ClassVar[str] = "rccl"
    vendor: ClassVar[str] = "amd"

    def library_env(self, host: HostFabric) -> dict[str, str]:
        """NCCL's names, and the HSA runtime's.

        HSA_FORCE_FINE_GRAIN_PCIE lets GPUs on PCIe reach each other (rocm.docs.amd.com, "RCCL usage tips"); HSA_NO_SCRATCH_RECLAIM
        keeps scratch memory with its queue, so that collectives do not wait for it ("ROCR environment variables").
        """
        return {**super().library_env(host), "HSA_FORCE_FINE_GRAIN_PCIE": "1", "HSA_NO_SCRATCH_RECLAIM": "1"}
