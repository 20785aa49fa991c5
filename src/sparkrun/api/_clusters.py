"""Saved clusters: seeing, making, changing and removing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from sparkrun.api._context import reach
from sparkrun.core.cluster_manager import (
    BrokenCluster,
    Cluster,
    ClusterEdit,
    ClusterManager,
    ControlMachine,
    SavedCluster,
    TransferChoice,
    choose_transfer_interface,
    choose_transfer_mode,
    detailed_json,
)
from sparkrun.core.context import SparkrunContext
from sparkrun.core.facts import Unreachable
from sparkrun.core.hardware import HostHardware, write_hosts_hardware
from sparkrun.core.hardware_probe import probe_hosts
from sparkrun.core.hosts import HostOptions
from sparkrun.core.paths import home_dir
from sparkrun.core.values import ConfigValue

Probe = Callable[[Sequence[str]], Mapping[str, HostHardware | Unreachable]]
"""Looks at hosts and tells what each is made of, or why it did not answer."""

_FABRIC_DEVICES = Path("/sys/class/infiniband")


class InferredHardware(msgspec.Struct, frozen=True):
    """A cluster with the hardware that was found on its hosts, and the hosts that did not answer."""

    cluster: Cluster
    unreachable: tuple[Unreachable, ...] = ()


class ClusterInspection(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster's settings come to on this machine, without asking a host."""

    cluster: Cluster
    default: bool
    transfer: TransferChoice
    transfer_interface: str
    local_caches: dict[str, str]
    host_caches: dict[str, str]

    def to_json(self) -> dict[str, ConfigValue]:
        """The shape of ``cluster inspect --json``."""
        return {
            **detailed_json(self.cluster, default=self.default),
            "transfer_mode_resolved": self.transfer.mode,
            "transfer_mode_reason": self.transfer.reason,
            "transfer_interface_resolved": self.transfer_interface,
            "caches": {"local": dict(self.local_caches), "hosts": dict(self.host_caches)},
            "warnings": list(self.cluster.warnings),
        }


def list_clusters(*, sctx: SparkrunContext) -> tuple[tuple[Cluster, ...], tuple[BrokenCluster, ...]]:
    """Every saved cluster, and every file that is broken."""
    return _manager(sctx).load_all()


def get_cluster(name: str, *, sctx: SparkrunContext) -> Cluster:
    """One cluster. Raises ``ClusterError`` or ``ConfigError``."""
    return _manager(sctx).load(name)


def create_cluster(name: str, edit: ClusterEdit, *, sctx: SparkrunContext) -> SavedCluster:
    """Save a new cluster. Raises ``ClusterError``."""
    return _manager(sctx).create(name, edit)


def update_cluster(name: str, edit: ClusterEdit, *, sctx: SparkrunContext) -> SavedCluster:
    """Change a cluster. Raises ``ClusterError``."""
    return _manager(sctx).update(name, edit)


def delete_cluster(name: str, *, sctx: SparkrunContext) -> bool:
    """Remove a cluster; whether it was the default one. Raises ``ClusterError``."""
    return _manager(sctx).delete(name)


def default_cluster(*, sctx: SparkrunContext) -> Cluster | None:
    """The default cluster, if there is one."""
    return _manager(sctx).default()


def set_default_cluster(name: str | None, *, sctx: SparkrunContext) -> None:
    """Make a cluster the default one, or none with ``None``. Raises ``ClusterError``."""
    if name is None:
        _manager(sctx).unset_default()
    else:
        _manager(sctx).set_default(name)


def infer_hardware(name: str, *, sctx: SparkrunContext, probe: Probe | None = None) -> InferredHardware:
    """Look at the hosts of a cluster and save what they are made of. A host that does not answer keeps what was known of it.

    ``probe`` replaces the look over ``sctx.runner``. Raises ``ClusterError``.
    """
    manager = _manager(sctx)
    cluster = manager.load(name)
    found = probe(cluster.hosts) if probe else probe_hosts(cluster.hosts, reach(HostOptions(cluster=name), sctx).runner)
    seen = {host: hardware for host, hardware in found.items() if isinstance(hardware, HostHardware)}
    silent = tuple(host for host in found.values() if isinstance(host, Unreachable))
    if seen:
        saved = write_hosts_hardware(seen, cluster.settings.get("hosts_hardware"))
        cluster = manager.update(name, ClusterEdit(values={"hosts_hardware": saved})).cluster
    return InferredHardware(cluster, silent)


def inspect_cluster(name: str, *, sctx: SparkrunContext) -> ClusterInspection:
    """What the settings of a cluster come to. Asks no host. Raises ``ClusterError``."""
    manager = _manager(sctx)
    cluster = manager.load(name)
    return ClusterInspection(
        cluster=cluster,
        default=manager.default_name() == name,
        transfer=choose_transfer_mode(cluster, _control_machine(cluster, sctx)),
        transfer_interface=choose_transfer_interface(cluster),
        local_caches={"huggingface": _local_models(sctx), "sparkrun": str(sctx.config.paths.cache_dir)},
        host_caches={
            "huggingface": cluster.cache_dir or "~/.cache/huggingface",
            "sparkrun": cluster.sparkrun_cache_dir or "~/.cache/sparkrun",
        },
    )


def _manager(sctx: SparkrunContext) -> ClusterManager:
    return ClusterManager(sctx.config.paths)


def _control_machine(cluster: Cluster, sctx: SparkrunContext) -> ControlMachine:
    wanted = cluster.user or sctx.config.text("ssh.user")
    return ControlMachine(
        is_host=any(sctx.runner.is_local(host) for host in cluster.hosts),
        cross_user=bool(wanted) and wanted != sctx.config.env.get("USER"),
        has_fabric=_FABRIC_DEVICES.is_dir() and any(_FABRIC_DEVICES.iterdir()),
    )


def _local_models(sctx: SparkrunContext) -> str:
    config = sctx.config
    return config.text("hf_cache_dir") or config.env.get("HF_HOME") or str(home_dir(config.env) / ".cache" / "huggingface")
