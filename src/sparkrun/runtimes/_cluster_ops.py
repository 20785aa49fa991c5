"""What a launch on several hosts works out for each of them."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.backend_select import BackendBundle
from sparkrun.core.fabric import Fabric
from sparkrun.orchestration.collectives import get_backend

# Variables that would contradict a user who turns RDMA off.
_RDMA_NAMES = ("NCCL_NET", "NCCL_IB_", "NCCL_CROSS_NIC", "NCCL_NET_PLUGIN", "UCX_NET_DEVICES", "RDMAV_", "MLX5_")


def resolve_comm_env(ctx: Fabric, comm_env: Mapping[str, str], backends: Mapping[str, BackendBundle]) -> dict[str, dict[str, str]]:
    """By host, what its collective library needs to know of the network ``ctx`` between the hosts of a launch.

    Each host's library is its own vendor's, NCCL where nobody knows. What ``comm_env`` (cluster, recipe and command line) sets is left to
    it. Where it turns RDMA off, nothing that names RDMA is set.
    """
    return {name: _without(get_backend(_vendor(backends.get(name))).env(host), comm_env) for name, host in ctx.hosts.items()}


def _vendor(bundle: BackendBundle | None) -> str | None:
    return bundle.accelerator_vendor if bundle else None


def _without(env: Mapping[str, str], user_env: Mapping[str, str]) -> dict[str, str]:
    no_rdma = user_env.get("NCCL_IB_DISABLE") == "1" or user_env.get("NCCL_NET", "IB").upper() != "IB"
    return {name: value for name, value in env.items() if name not in user_env and not (no_rdma and name.startswith(_RDMA_NAMES))}
