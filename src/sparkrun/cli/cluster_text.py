"""Saved clusters as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sparkrun.core.cluster_manager import Cluster, shown_env
from sparkrun.core.hardware import HostHardware
from sparkrun.core.values import ConfigValue, value_text

if TYPE_CHECKING:
    from sparkrun.api import ClusterInspection

_TITLES = ("", "NAME", "HOSTS", "SCHEDULER", "DESCRIPTION")
_SHOWN_APART = frozenset({"name", "hosts", "description", "scheduler", "env", "hosts_hardware"})


def table_lines(clusters: Sequence[Cluster], default: str | None) -> Iterator[str]:
    """One line a cluster, ``*`` before the default one, under a line of titles."""
    rows = [_TITLES, *(_row(cluster, default) for cluster in clusters)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def cluster_lines(cluster: Cluster, *, default: bool) -> Iterator[str]:
    """All that the file says, one setting a line."""
    return _aligned(_settings(cluster, default=default))


def inspection_lines(found: ClusterInspection) -> Iterator[str]:
    """The settings, and what they come to."""
    return _aligned((*_settings(found.cluster, default=found.default), *_consequences(found)))


def hardware_text(hardware: HostHardware) -> str:
    """``1 × nvidia gb10 119.7 GiB (probed)``."""
    parts = [
        f"{spec.count} × {spec.vendor} {spec.model}" + (f" {spec.memory_gb:g} GiB" if spec.memory_gb is not None else "")
        for spec in hardware.accelerators
    ]
    return (", ".join(parts) or "no accelerator") + (f" ({hardware.source})" if hardware.source else "")


def _settings(cluster: Cluster, *, default: bool) -> Iterator[tuple[str, str]]:
    yield "name", cluster.name + (" (default)" if default else "")
    yield "hosts", ", ".join(cluster.hosts)
    if cluster.description:
        yield "description", cluster.description
    yield "scheduler", cluster.effective_scheduler + ("" if cluster.scheduler else " (the file names none)")
    for key, value in cluster.settings.items():
        if key not in _SHOWN_APART:
            yield key, _value(value)
    for name, value in shown_env(cluster).items():
        yield "env", f"{name}={value}"
    for host, hardware in cluster.hardware.items():
        yield "hardware", f"{host}: {hardware_text(hardware)}"


def _consequences(found: ClusterInspection) -> Iterator[tuple[str, str]]:
    yield "transfer mode", f"{found.transfer.mode} ({found.transfer.reason})"
    yield "transfer interface", found.transfer_interface
    for place, caches in (("this machine", found.local_caches), ("the hosts", found.host_caches)):
        for kind, folder in caches.items():
            yield f"{kind} on {place}", folder


def _row(cluster: Cluster, default: str | None) -> tuple[str, ...]:
    mark = "*" if cluster.name == default else ""
    return mark, cluster.name, ", ".join(cluster.hosts), cluster.effective_scheduler, cluster.description


def _aligned(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = tuple(pairs)
    width = max(len(name) for name, _ in rows) + 1
    return (f"{name + ':':<{width}} {value}".rstrip() for name, value in rows)


def _value(value: ConfigValue) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value_text(item) for item in value)
    return value_text(value)
