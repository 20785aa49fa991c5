"""The network between hosts as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkrun.api import FabricHostReport, FabricPortReport, FabricReport, Link
from sparkrun.cli.tables import columns
from sparkrun.orchestration.collectives import split_shared
from sparkrun.utils.text import counted

_PORT_TITLES = ("PORT", "INTERFACE", "STATE", "SPEED", "ADDRESS", "GID", "USE")
_LINK_TITLES = ("HOST", "PORT", "INTERFACE", "PEER", "PORT", "INTERFACE", "SUBNET")
_NOTHING = "-"


def fabric_text(report: FabricReport) -> str:
    """Hosts and ports, links, environment, notes, and what is unknown."""
    return "\n".join(_lines(report))


def _lines(report: FabricReport) -> Iterator[str]:
    name = f"Cluster: {report.cluster}" if report.cluster else f"Hosts from {report.origin}"
    ring = f" ({', '.join(report.ring_order)})" if report.ring_order else ""
    yield f"{name} — {counted(len(report.hosts), 'host')}, topology {report.topology}{ring}"
    for host in report.hosts:
        yield from ("", *_host_lines(host, alone=len(report.hosts) == 1))
    if report.links:
        yield from ("", "Links:", *_indented(columns([_LINK_TITLES, *(_link_row(link) for link in report.links)])))
    yield from _env_lines(report)
    yield from _remarks(report)


def _host_lines(host: FabricHostReport, *, alone: bool) -> Iterator[str]:
    meeting = "alone, so it needs no network" if alone else _meeting(host)
    yield f"{host.host}: {meeting}; {host.collective.upper()}"
    if host.ports:
        yield from _indented(columns([_PORT_TITLES, *(_port_row(port) for port in host.ports)]))
    else:
        yield "  no RDMA device"


def _meeting(host: FabricHostReport) -> str:
    where = " ".join(part for part in (host.bootstrap_interface, host.bootstrap_address) if part)
    return f"meets the other hosts at {where}" if where else "no address is known at which it meets the other hosts"


def _port_row(port: FabricPortReport) -> tuple[str, ...]:
    return (
        port.name,
        port.netdev or _NOTHING,
        port.state or _NOTHING,
        f"{port.speed_gbps:g} Gb/s" if port.speed_gbps else _NOTHING,
        " ".join(port.addresses) or _NOTHING,
        _NOTHING if port.gid_index is None else str(port.gid_index),
        f"reaches {', '.join(port.reaches)}" if port.used else f"not used: {port.reason}",
    )


def _link_row(link: Link) -> tuple[str, ...]:
    return (link.host, link.port, link.netdev or _NOTHING, link.peer, link.peer_port, link.peer_netdev or _NOTHING, link.subnet)


def _env_lines(report: FabricReport) -> Iterator[str]:
    """What is equal everywhere once, then each host's own."""
    if len(report.hosts) < 2:
        return
    shared, own = split_shared({host.host: host.env for host in report.hosts})
    yield from _variables("Environment of every host:", shared)
    for host in report.hosts:
        yield from _variables(f"Environment of {host.host} alone:", own[host.host])
    left_out = dict.fromkeys(name for host in report.hosts for name in host.left_out)
    if left_out:
        yield from ("", f"Not set, because of the cluster's env: {', '.join(left_out)}")


def _variables(title: str, env: Mapping[str, str]) -> Iterator[str]:
    if env:
        yield from ("", title, *(f"  {name}={value}" for name, value in env.items()))


def _remarks(report: FabricReport) -> Iterator[str]:
    """Notes, but for those that say once more why a port is not used; warnings; hosts that did not answer."""
    reasons = tuple(f"is not used: {port.reason}" for host in report.hosts for port in host.ports if port.reason)
    remarks = [f"Note: {note}" for note in report.notes if not note.endswith(reasons)]
    remarks += [f"warning: {warning}" for host in report.hosts for warning in host.warnings]
    for silent in report.unreachable:
        remarks += [f"Unknown: {silent.host} ({silent.reason})", *(f"  hint: {line}" for line in (silent.hint or "").splitlines())]
    if remarks:
        yield from ("", *remarks)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
