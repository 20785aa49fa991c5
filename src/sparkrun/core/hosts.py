"""Which hosts a command works on: the order in which they are looked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sparkrun.core.cluster_manager import Cluster, ClusterManager, HostAddress, parse_host, parse_hosts
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import HostsError, UsageError
from sparkrun.core.paths import expand

__all__ = [
    "HostAddress",
    "HostOptions",
    "HostSelection",
    "named_hosts",
    "parse_host",
    "parse_hosts",
    "read_hosts_file",
    "require_hosts",
    "resolve_hosts",
]


class HostOptions(msgspec.Struct, frozen=True):
    """How a command was told its hosts."""

    hosts: tuple[str, ...] = ()
    hosts_file: str | None = None
    cluster: str | None = None


class HostSelection(msgspec.Struct, frozen=True):
    """The hosts of a command, the cluster whose settings apply, and who named them (for the user)."""

    hosts: tuple[str, ...]
    origin: str
    cluster: Cluster | None = None


def resolve_hosts(options: HostOptions, config: SparkrunConfig) -> HostSelection | None:
    """``--hosts``, ``--hosts-file``, ``--cluster``, the default cluster, ``cluster.hosts`` of the settings, in that order; else ``None``.

    Hosts that are named outright take no settings from the default cluster. A cluster named beside them gives its user, executor and
    hardware, not its wiring and caches. Raises ``UsageError`` for a bad host, ``HostsError`` for an empty list or an unknown cluster.
    """
    clusters = ClusterManager(config.paths)
    named = clusters.load(options.cluster) if options.cluster else None
    outright = named_hosts(options, config)
    if outright:
        return HostSelection(*outright, named.beside_named_hosts() if named else None)
    cluster = named or clusters.default()
    config.warnings += clusters.warnings
    if cluster:
        return HostSelection(_cluster_hosts(cluster), f"cluster '{cluster.name}'", cluster)
    last = parse_hosts(config.texts("cluster.hosts"))
    return HostSelection(last, f"cluster.hosts in {config.paths.config_file}") if last else None


def require_hosts(options: HostOptions, config: SparkrunConfig) -> HostSelection:
    """As ``resolve_hosts``; none is a ``HostsError``."""
    selection = resolve_hosts(options, config)
    if selection is None:
        save = "sparkrun cluster create NAME -H host1,host2 --default"
        raise HostsError("no hosts specified", hint=f"name them with -H host1,host2, or save them once: {save}")
    return selection


def named_hosts(options: HostOptions, config: SparkrunConfig) -> tuple[tuple[str, ...], str] | None:
    """The hosts that ``--hosts`` or ``--hosts-file`` names, and which of them did; ``None`` when neither was given. Raises as they do."""
    if options.hosts and options.hosts_file:
        config.warnings.append(f"--hosts-file {options.hosts_file} is not read: --hosts names the hosts")
    if options.hosts:
        return _some(parse_hosts(options.hosts), "--hosts"), "--hosts"
    if options.hosts_file:
        return read_hosts_file(options.hosts_file, config), f"--hosts-file {options.hosts_file}"
    return None


def read_hosts_file(name: str, config: SparkrunConfig) -> tuple[str, ...]:
    """The hosts in a file, one or more a line; ``#`` begins a comment.

    Raises ``HostsError`` for a file that cannot be read or names none, ``UsageError`` with the line of a bad host.
    """
    try:
        text = expand(name, config.env).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise HostsError(f"cannot read the hosts file {name}: {getattr(error, 'strerror', None) or error}") from error
    lines = [line.partition("#")[0] for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        _parse_in(f"{name}:{number}", [line])
    return _some(_parse_in(name, lines), name)


def _cluster_hosts(cluster: Cluster) -> tuple[str, ...]:
    origin = f"cluster '{cluster.name}'"
    try:
        return _some(parse_hosts(cluster.hosts), origin)
    except UsageError as error:
        raise HostsError(f"{origin}: {error.message}", hint=f"correct it: sparkrun cluster update {cluster.name} -H host1,host2") from error


def _some(hosts: tuple[str, ...], origin: str) -> tuple[str, ...]:
    if not hosts:
        raise HostsError(f"{origin} names no host")
    return hosts


def _parse_in(where: str, texts: Iterable[str]) -> tuple[str, ...]:
    try:
        return parse_hosts(texts)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error
