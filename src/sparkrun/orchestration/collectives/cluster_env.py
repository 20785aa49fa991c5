"""The environment of every host of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparkrun.core.backend_select import BackendBundle
from sparkrun.core.fabric import Fabric
from sparkrun.orchestration.collectives.registry import get_backend

# Variables that would contradict a user who turns RDMA off.
_RDMA_NAMES = ("NCCL_NET", "NCCL_IB_", "NCCL_CROSS_NIC", "NCCL_NET_PLUGIN", "UCX_NET_DEVICES", "RDMAV_", "MLX5_")


class SharedEnv(NamedTuple):
    """Variables that are equal on all hosts, and those that each host has for itself."""

    shared: dict[str, str]
    per_host: dict[str, dict[str, str]]


def cluster_env(
    fabric: Fabric, backends: Mapping[str, BackendBundle], user_env: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """What was detected, by host; each host's library is its own vendor's, NCCL where nobody knows.

    What ``user_env`` (cluster, recipe and command line) sets is left to it. Where it turns RDMA off, nothing that names RDMA is set.
    """
    said = user_env or {}
    return {name: _without(get_backend(_vendor(backends.get(name))).env(host), said) for name, host in fabric.hosts.items()}


def split_shared(envs: Mapping[str, Mapping[str, str]]) -> SharedEnv:
    """Take what is equal everywhere out of the hosts' environments."""
    every = list(envs.values())
    shared = {name: value for name, value in every[0].items() if all(env.get(name) == value for env in every)} if every else {}
    return SharedEnv(shared, {host: {name: env[name] for name in env if name not in shared} for host, env in envs.items()})


def _vendor(bundle: BackendBundle | None) -> str | None:
    return bundle.accelerator_vendor if bundle else None


def _without(env: Mapping[str, str], user_env: Mapping[str, str]) -> dict[str, str]:
    no_rdma = user_env.get("NCCL_IB_DISABLE") == "1" or user_env.get("NCCL_NET", "IB").upper() != "IB"
    return {name: value for name, value in env.items() if name not in user_env and not (no_rdma and name.startswith(_RDMA_NAMES))}
