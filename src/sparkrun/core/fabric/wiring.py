"""Which port reaches which, from addresses alone, and the shape that follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sparkrun.core.fabric.facts import FabricPort, InterfaceAddress
from sparkrun.core.fabric.result import Link, Topology

_GID_PREFIX_CHARACTERS = len("fe80:0000:0000:0000")
_IPV4_BITS = 32

Key: TypeAlias = tuple[str, str]
"""A host and a port of it."""


class Endpoint(NamedTuple):
    """A port that could be used, with what decides whom it reaches: IPv4 addresses as numbers, or its InfiniBand subnet."""

    host: str
    port: FabricPort
    addresses: tuple[tuple[InterfaceAddress, int], ...] = ()
    infiniband_subnet: str = ""

    @property
    def key(self) -> Key:
        """What tells it from every other."""
        return self.host, self.port.name


Graph: TypeAlias = Mapping[Key, tuple[Endpoint, ...]]


class Wiring(NamedTuple):
    """The ports to use and the hosts each reaches over ports that are used as well."""

    topology: Topology
    used: Mapping[Key, tuple[str, ...]] = {}
    crossed: bool = False
    ring_order: tuple[str, ...] = ()


def endpoint(host: str, port: FabricPort, *, link_local: bool) -> Endpoint | None:
    """The port as an endpoint, or ``None`` when it has no address that counts."""
    if port.is_infiniband:
        first = port.gids.get(0)
        return Endpoint(host, port, infiniband_subnet=first.address[:_GID_PREFIX_CHARACTERS]) if first else None
    counting = [each for each in port.addresses if each.is_v4 and (each.is_global or (link_local and each.is_link_local))]
    return Endpoint(host, port, tuple((each, _number(each.address)) for each in counting)) if counting else None


def shared_subnet(one: Endpoint, other: Endpoint) -> tuple[InterfaceAddress, InterfaceAddress] | None:
    """The pair of addresses of which each lies in the other's subnet; ``None`` when there is none."""
    for mine, my_number in one.addresses:
        for theirs, their_number in other.addresses:
            rest = _IPV4_BITS - max(mine.prefix, theirs.prefix)
            if my_number != their_number and (my_number ^ their_number) >> rest == 0:
                return mine, theirs
    return None


def reaches(one: Endpoint, other: Endpoint) -> bool:
    """Whether packets from one port can arrive at the other without a router."""
    if one.host == other.host:
        return False
    if one.infiniband_subnet or other.infiniband_subnet:
        return one.infiniband_subnet == other.infiniband_subnet
    return shared_subnet(one, other) is not None


def recognise(endpoints: Sequence[Endpoint], graph: Graph, hosts: Sequence[str]) -> Wiring:
    """The shape that joins all hosts: common subnets first, then links between pairs; ``none`` when neither does."""
    rails = _greatest(endpoints, graph, len(hosts) - 1)
    if rails:
        topology: Topology = "direct" if len(hosts) == 2 else "switch"
        return Wiring(topology, _reached(rails, graph), crossed=_are_crossed(rails, hosts))
    return _pairwise(endpoints, graph, hosts) if len(hosts) > 2 else Wiring("none")


def reach_graph(endpoints: Sequence[Endpoint]) -> Graph:
    """For every port the ports that it reaches."""
    return {one.key: tuple(other for other in endpoints if reaches(one, other)) for one in endpoints}


def links(endpoints: Sequence[Endpoint]) -> tuple[Link, ...]:
    """Every two ports that reach each other, each pair once."""
    pairs = ((one, other) for at, one in enumerate(endpoints) for other in endpoints[at + 1 :] if reaches(one, other))
    return tuple(_link(one, other) for one, other in pairs)


def _pairwise(endpoints: Sequence[Endpoint], graph: Graph, hosts: Sequence[str]) -> Wiring:
    kept = _greatest(endpoints, graph, 1)
    reached = _reached(kept, graph)
    neighbours = {host: {other for port in kept if port.host == host for other in reached[port.key]} for host in hosts}
    if order := _circle(neighbours, hosts):
        return Wiring("ring", reached, ring_order=order)
    if all(len(found) == len(hosts) - 1 for found in neighbours.values()):
        return Wiring("mesh", reached)
    return Wiring("none")


def _greatest(endpoints: Sequence[Endpoint], graph: Graph, peers: int) -> tuple[Endpoint, ...]:
    """The largest set of ports of which each reaches that many hosts over the others: one that goes may take others with it."""
    kept = tuple(endpoints)
    while True:
        reached = _reached(kept, graph)
        remaining = tuple(port for port in kept if len(reached[port.key]) == peers)
        if len(remaining) == len(kept):
            return kept
        kept = remaining


def _reached(kept: Sequence[Endpoint], graph: Graph) -> dict[Key, tuple[str, ...]]:
    keys = {port.key for port in kept}
    return {port.key: tuple(dict.fromkeys(other.host for other in graph[port.key] if other.key in keys)) for port in kept}


def _circle(neighbours: Mapping[str, Collection[str]], hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts from neighbour to neighbour when they close one circle, else nothing."""
    if any(len(found) != 2 for found in neighbours.values()):
        return ()
    order = [hosts[0]]
    while len(order) < len(hosts):
        onward = [host for host in hosts if host in neighbours[order[-1]] and host not in order]
        if not onward:
            return ()
        order.append(onward[0])
    return tuple(order)


def _are_crossed(rails: Sequence[Endpoint], hosts: Sequence[str]) -> bool:
    by_host = [[port for port in rails if port.host == host] for host in hosts]
    first = by_host[0]
    return any(not reaches(one, other) for others in by_host[1:] for one, other in zip(first, others, strict=False))


def _link(one: Endpoint, other: Endpoint) -> Link:
    pair = shared_subnet(one, other)
    subnet = _subnet(max(pair, key=lambda each: each.prefix)) if pair else one.infiniband_subnet
    return Link(one.host, one.port.name, one.port.netdev, other.host, other.port.name, other.port.netdev, subnet)


def _subnet(address: InterfaceAddress) -> str:
    number = _number(address.address) >> (_IPV4_BITS - address.prefix) << (_IPV4_BITS - address.prefix)
    return ".".join(str(number >> bits & 255) for bits in (24, 16, 8, 0)) + f"/{address.prefix}"


def _number(address: str) -> int:
    first, second, third, fourth = (int(part) for part in address.split("."))
    return first << 24 | second << 16 | third << 8 | fourth
