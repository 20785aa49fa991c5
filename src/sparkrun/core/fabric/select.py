"""Which ports and interfaces the hosts of a launch use to talk to each other. Decides; touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sparkrun.core.fabric.bootstrap import Bootstrap, Meeting, choose_bootstrap, cluster_address
from sparkrun.core.fabric.facts import FabricFacts, FabricPort
from sparkrun.core.fabric.result import Fabric, FabricOptions, HostFabric, UnusedPort, UsedPort
from sparkrun.core.fabric.wiring import Endpoint, Graph, Key, Wiring, endpoint, links, reach_graph, recognise, shared_subnet

_ACCELERATOR_DRIVER = "habanalabs"


def select_fabric(facts: Mapping[str, FabricFacts], options: FabricOptions | None = None) -> Fabric:
    """The wiring between hosts, from what each of their ports reports.

    A port is used when its link is up and its subnet is shared with every other host, or, where no subnet joins all hosts and the
    links form a circle or a full mesh, with one neighbour. One host alone uses nothing. ``facts`` is in the order of the hosts.
    """
    if len(facts) < 2:
        return Fabric(topology="none", hosts={host: _alone(host, seen) for host, seen in facts.items()})
    choice = _choose(facts, options or FabricOptions())
    hosts = {host: _host(host, choice) for host in facts}
    return Fabric(
        topology=choice.wiring.topology,
        hosts=hosts,
        links=links(choice.endpoints),
        ring_order=choice.wiring.ring_order,
        notes=(*_wiring_notes(choice), *_management_notes(choice, hosts)),
    )


class _Choice(NamedTuple):
    facts: Mapping[str, FabricFacts]
    options: FabricOptions
    endpoints: tuple[Endpoint, ...]
    graph: Graph
    wiring: Wiring
    by_key: Mapping[Key, Endpoint]
    link_local: bool

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.facts)

    @property
    def is_seen(self) -> bool:
        return all(seen.observed for seen in self.facts.values())


def _choose(facts: Mapping[str, FabricFacts], options: FabricOptions) -> _Choice:
    choice = _attempt(facts, options, link_local=False)
    if choice.wiring.topology == "none" and len(facts) == 2:
        # With one cable between two hosts, a link-local address can only lead to the other one.
        with_link_local = _attempt(facts, options, link_local=True)
        return with_link_local if with_link_local.wiring.topology != "none" else choice
    return choice


def _attempt(facts: Mapping[str, FabricFacts], options: FabricOptions, *, link_local: bool) -> _Choice:
    allowed = ((host, port) for host, seen in facts.items() for port in seen.active_ports if _is_allowed(port, options))
    found = (endpoint(host, port, link_local=link_local) for host, port in allowed)
    endpoints = tuple(each for each in found if each)
    graph = reach_graph(endpoints)
    wiring = recognise(endpoints, graph, tuple(facts))
    return _Choice(facts, options, endpoints, graph, wiring, {each.key: each for each in endpoints}, link_local)


def _is_allowed(port: FabricPort, options: FabricOptions) -> bool:
    return not options.fabric_interfaces or any(fnmatchcase(port.netdev, pattern) for pattern in options.fabric_interfaces)


def _alone(host: str, seen: FabricFacts) -> HostFabric:
    return HostFabric(host=host, unused=tuple(UnusedPort(port, "one host needs no fabric") for port in seen.ports))


def _host(host: str, choice: _Choice) -> HostFabric:
    seen = choice.facts[host]
    used = tuple(_used(host, port, choice) for port in seen.ports if (host, port.name) in choice.wiring.used)
    unused = tuple(UnusedPort(port, _reason(host, port, choice)) for port in seen.ports if (host, port.name) not in choice.wiring.used)
    bootstrap = choose_bootstrap(host, seen, _meeting(host, used, choice))
    return HostFabric(
        host=host,
        topology=choice.wiring.topology,
        used=used,
        unused=unused,
        bootstrap_interface=bootstrap.interface,
        node_address=bootstrap.address,
        interface_names=tuple(each.name for each in seen.interfaces),
        crossed_rails=choice.wiring.crossed,
        neighbours_only=len(choice.wiring.ring_order) > 3,
        has_idle_rdma=choice.is_seen and not used and bool(seen.active_ports),
        has_accelerator_network=any(each.driver.startswith(_ACCELERATOR_DRIVER) and each.is_up for each in seen.interfaces),
        notes=tuple(_host_notes(host, choice, unused, bootstrap)),
    )


def _used(host: str, port: FabricPort, choice: _Choice) -> UsedPort:
    """The port with that one of its addresses by which it reaches a port that is used too."""
    one = choice.by_key[host, port.name]
    peers = (other for other in choice.graph[one.key] if other.key in choice.wiring.used)
    pair = next((pair for other in peers if (pair := shared_subnet(one, other))), None)
    address, prefix = (pair[0].address, pair[0].prefix) if pair else ("", 0)
    return UsedPort(port, address, prefix, choice.wiring.used[one.key])


def _meeting(host: str, used: Sequence[UsedPort], choice: _Choice) -> Meeting:
    others = (cluster_address(other, choice.options) for other in choice.hosts if other != host)
    first = next(((each.port.netdev, each.address) for each in used if each.port.netdev and each.address), None)
    return Meeting(
        options=choice.options,
        peer_addresses=tuple(address for address in others if address),
        narrow=_narrow_interfaces(host, choice),
        fabric_address=first if choice.wiring.topology in ("direct", "switch") else None,
    )


def _narrow_interfaces(host: str, choice: _Choice) -> dict[str, tuple[str, ...]]:
    """The host's fabric interfaces that reach some of the other hosts, but not all, with those that they reach."""
    reached = {each.port.netdev: _hosts_reached(each, choice) for each in choice.endpoints if each.host == host}
    return {netdev: hosts for netdev, hosts in reached.items() if 0 < len(hosts) < len(choice.facts) - 1}


def _hosts_reached(one: Endpoint, choice: _Choice) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other.host for other in choice.graph[one.key]))


def _reason(host: str, port: FabricPort, choice: _Choice) -> str:
    if not port.is_active:
        return f"its link is {port.state or 'in an unknown state'}"
    if not _is_allowed(port, choice.options):
        return f"fabric_interfaces ({', '.join(choice.options.fabric_interfaces)}) leaves it out"
    one = choice.by_key.get((host, port.name))
    return _reason_without_address(port) if one is None else _reason_without_peer(one, choice)


def _reason_without_address(port: FabricPort) -> str:
    if port.is_infiniband:
        return "it has no GID"
    if not port.netdev:
        return "no network interface belongs to it"
    if any(each.is_v4 and each.is_link_local for each in port.addresses):
        return f"{port.netdev} has only a link-local IPv4 address, which tells nothing of who is at the other end"
    return f"{port.netdev} has no IPv4 address"


def _reason_without_peer(one: Endpoint, choice: _Choice) -> str:
    reached = _hosts_reached(one, choice)
    missed = [host for host in choice.hosts if host != one.host and host not in reached]
    here = ", ".join(str(address) for address, _ in one.addresses) or f"InfiniBand subnet {one.infiniband_subnet}"
    if twin := _same_address(one, choice):
        return f"{here} is also the address of {twin.host} {twin.port.label}"
    if not reached:
        return f"no other host has a port in its subnet ({here})"
    if missed:
        return f"its subnet ({here}) reaches {', '.join(reached)}, not {', '.join(missed)}"
    return f"the ports that it reaches ({here}) do not reach all hosts"


def _same_address(one: Endpoint, choice: _Choice) -> Endpoint | None:
    mine = {number for _, number in one.addresses}
    return next((each for each in choice.endpoints if each.host != one.host and mine & {number for _, number in each.addresses}), None)


def _host_notes(host: str, choice: _Choice, unused: Sequence[UnusedPort], bootstrap: Bootstrap) -> Iterator[str]:
    seen, options = choice.facts[host], choice.options
    if not seen.observed:
        yield f"{host}: its network was not looked at"
    elif not seen.has_ip_tool:
        yield f"{host}: the ip tool is not there, so no address is known"
    if seen.observed and options.management_interface and not seen.interface(options.management_interface):
        yield f"{host}: there is no interface {options.management_interface} (mgmt_interface of the cluster)"
    yield from (f"{host}: {each.port.label} is not used: {each.reason}" for each in unused if each.port.is_active)
    if bootstrap.note:
        yield bootstrap.note


def _wiring_notes(choice: _Choice) -> Iterator[str]:
    wiring, claimed = choice.wiring, choice.options.topology
    if claimed and wiring.topology != "none" and claimed != wiring.topology:
        yield f"the cluster says topology {claimed}, the addresses say {wiring.topology}; the addresses are followed"
    if choice.link_local:
        yield "the fabric has link-local addresses only; give its ports addresses that stay: sparkrun setup cx7"
    if wiring.crossed:
        yield "the fabric's rails are crossed (the n-th ports of two hosts are in different subnets); this needs NCCL 2.30 or later"
    if len(wiring.ring_order) > 3:
        order = ", ".join(wiring.ring_order)
        yield f"hosts reach only their neighbours in the ring ({order}); ranks have to follow that order"


def _management_notes(choice: _Choice, hosts: Mapping[str, HostFabric]) -> Iterator[str]:
    if choice.wiring.topology != "none" or not choice.is_seen:
        return
    ways = ", ".join(f"{name}: {_way(host)}" for name, host in hosts.items())
    yield f"no fabric joins all hosts; their traffic goes over the management network ({ways})"


def _way(host: HostFabric) -> str:
    if host.bootstrap_interface:
        return f"{host.bootstrap_interface} {host.node_address}"
    return host.node_address or "unknown"
