"""Seeing the network between hosts as a launch over all of them would use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sparkrun.api._context import reach
from sparkrun.api._plain import PlainData
from sparkrun.core.backend_select import BackendBundle, resolve_per_host_backends
from sparkrun.core.cluster_manager import cluster_env
from sparkrun.core.context import SparkrunContext
from sparkrun.core.fabric import Fabric, FabricOptions, FabricPort, HostFabric, Link, Topology, select_fabric
from sparkrun.core.facts import HostFacts, Unreachable
from sparkrun.core.hosts import HostOptions, HostSelection, require_hosts
from sparkrun.orchestration.observe import Question, observe_hosts
from sparkrun.platforms import resolve_platform
from sparkrun.runtimes._cluster_ops import resolve_comm_env

Env = dict[str, str]


class FabricPortReport(msgspec.Struct, frozen=True, kw_only=True):
    """One port of a host. ``speed_gbps`` is Gbit/s, ``mtu`` bytes; what could not be read is ``None`` or empty."""

    hca: str
    port: int
    netdev: str
    state: str
    link_layer: str
    speed_gbps: float | None
    mtu: int | None
    pci: str
    numa: int | None
    addresses: tuple[str, ...]
    """With the length of their prefix: ``192.168.11.1/24``."""
    used: bool
    address: str | None = None
    """The one of its addresses that reaches the other hosts; ``None`` on InfiniBand, and where the port is not used."""
    gid_index: int | None = None
    """Index of the RoCE v2 GID of ``address``."""
    reaches: tuple[str, ...] = ()
    reason: str | None = None
    """Why it is not used."""

    @property
    def name(self) -> str:
        """The port as UCX writes it."""
        return f"{self.hca}:{self.port}"


class FabricHostReport(msgspec.Struct, frozen=True, kw_only=True):
    """One host: its ports, where its processes meet those of other hosts, and what its collective library is told."""

    host: str
    hostname: str
    accelerator_vendor: str | None
    collective: str
    """``nccl``, ``rccl`` or ``hccl``."""
    bootstrap_interface: str | None
    bootstrap_address: str | None
    ports: tuple[FabricPortReport, ...]
    """In the order of their PCI names, which is the order of the rails."""
    env: Env
    """Sorted by name."""
    left_out: tuple[str, ...] = ()
    """Variables that would be set, were it not for what the cluster's ``env`` says."""
    warnings: tuple[str, ...] = ()


class FabricReport(PlainData, frozen=True, kw_only=True):
    """The wiring between the hosts that answered, in the given order, and the hosts that did not."""

    schema: str = "sparkrun.fabric/1"
    cluster: str | None
    origin: str
    """Who named the hosts."""
    topology: Topology
    ring_order: tuple[str, ...]
    hosts: tuple[FabricHostReport, ...]
    links: tuple[Link, ...]
    notes: tuple[str, ...]
    unreachable: tuple[Unreachable, ...] = ()


def fabric(hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> FabricReport:
    """The wiring between hosts as a launch over all of them would see and use it. Looks, and changes nothing.

    A host that does not answer is in ``unreachable``, and the rest is told without it. Raises ``HostsError``, ``ClusterError``, and
    ``ConfigError`` for an ``env`` of the cluster that cannot be put in full.
    """
    sctx = reach(hosts, sctx)
    selection = require_hosts(hosts, sctx.config)
    found = observe_hosts(selection.hosts, Question(), sctx.runner)
    facts = {seen.host: seen for seen in found if isinstance(seen, HostFacts)}
    chosen = select_fabric({host: seen.fabric for host, seen in facts.items()}, _options(selection))
    return FabricReport(
        cluster=selection.cluster.name if selection.cluster else None,
        origin=selection.origin,
        topology=chosen.topology,
        ring_order=chosen.ring_order,
        hosts=tuple(_host_reports(chosen, facts, cluster_env(selection.cluster, sctx.config) if selection.cluster else {})),
        links=chosen.links,
        notes=chosen.all_notes,
        unreachable=tuple(silent for silent in found if isinstance(silent, Unreachable)),
    )


def _options(selection: HostSelection) -> FabricOptions:
    cluster = selection.cluster
    if cluster is None:
        return FabricOptions()
    return FabricOptions(
        management_interface=cluster.mgmt_interface, fabric_interfaces=cluster.fabric_interfaces, topology=cluster.topology
    )


def _host_reports(chosen: Fabric, facts: Mapping[str, HostFacts], user_env: Env) -> Iterator[FabricHostReport]:
    backends = resolve_per_host_backends({host: seen.hardware for host, seen in facts.items()})
    detected = resolve_comm_env(chosen, {}, backends)
    given = resolve_comm_env(chosen, user_env, backends)
    for host, seen in facts.items():
        left_out = tuple(name for name in detected[host] if name not in given[host])
        yield _host_report(seen, chosen.hosts[host], backends[host], given[host], left_out)


def _host_report(seen: HostFacts, wired: HostFabric, backend: BackendBundle, env: Env, left_out: tuple[str, ...]) -> FabricHostReport:
    return FabricHostReport(
        host=seen.host,
        hostname=seen.hostname,
        accelerator_vendor=backend.accelerator_vendor,
        collective=backend.collective,
        bootstrap_interface=wired.bootstrap_interface,
        bootstrap_address=wired.node_address,
        ports=tuple(_port_report(port, wired) for port in seen.fabric.ports),
        env=env,
        left_out=left_out,
        warnings=resolve_platform(seen.hardware).validate_host(seen),
    )


def _port_report(port: FabricPort, wired: HostFabric) -> FabricPortReport:
    used = next((each for each in wired.used if each.port.name == port.name), None)
    return FabricPortReport(
        hca=port.hca,
        port=port.port,
        netdev=port.netdev,
        state=port.state,
        link_layer=port.link_layer,
        speed_gbps=port.speed_gbps,
        mtu=port.mtu,
        pci=port.pci,
        numa=port.numa,
        addresses=tuple(str(each) for each in port.addresses),
        used=used is not None,
        address=(used.address or None) if used else None,
        gid_index=used.gid_index if used else None,
        reaches=used.reaches if used else (),
        reason=next((each.reason for each in wired.unused if each.port.name == port.name), None),
    )
