"""The processes of a launch: which one stands where in its replica, and whom it meets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from sparkrun.core.errors import PlacementError
from sparkrun.core.placement import Placement, Slot

DATA_PARALLEL_RPC_PORT = 13345
"""Where vLLM's data-parallel ranks meet unless told otherwise."""


class RankPorts(msgspec.Struct, frozen=True, kw_only=True):
    """Ports that the planner found free. Replicas that share a head host count on from ``rendezvous``."""

    rendezvous: int
    data_parallel_rpc: int = DATA_PARALLEL_RPC_PORT


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """How others reach a process: its address, the container it runs in, and the user to log in as on its host."""

    address: str
    fabric_address: str = ""
    name: str = ""
    user: str = ""

    @property
    def fast_address(self) -> str:
        """On the fabric where that leads to it, else its address."""
        return self.fabric_address or self.address


class RankContext(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a launch: one node of one replica, or one node with several whole replicas. The defaults are a launch of one.

    Addresses are those by which the other nodes reach a node.
    """

    rank: int = 0
    """Among all processes; 0 is the head, which answers requests."""
    node_count: int = 1
    """How many processes there are."""
    replica: int = 0
    """The replica it belongs to, or the first of those it holds."""
    replicas: int = 1
    """How many replicas there are in all."""
    replica_rank: int = 0
    """Its place in its replica."""
    replica_nodes: int = 1
    """How many processes its replica has."""
    local_replicas: int = 1
    """How many replicas it holds by itself, on a host with many accelerators."""
    host: str = ""
    address: str = ""
    fabric_address: str = ""
    """On the fabric, where that leads to the head."""
    head_address: str = ""
    """The address of rank 0."""
    master_address: str = ""
    """The address of the first process of its replica."""
    master_port: int = 0
    data_parallel_rpc_port: int = DATA_PARALLEL_RPC_PORT
    gpus: tuple[int, ...] = ()
    peers: tuple[Peer, ...] = ()
    """Every process, in rank order."""
    host_keys: tuple[str, ...] = ()
    """Variables whose value differs from host to host, so that no engine may copy them to another."""
    shared_keys: tuple[str, ...] = ()
    """Variables that have the same value on every host."""

    @property
    def solo(self) -> bool:
        """Whether it is the only process."""
        return self.node_count == 1

    @property
    def head(self) -> bool:
        """Whether it answers requests for all."""
        return self.rank == 0

    @property
    def fast_address(self) -> str:
        """Where the head reaches it with what is much and need not be announced: on the fabric where there is one."""
        return self.fabric_address or self.address

    @property
    def role(self) -> str:
        """Its role in a name, where there is one head and workers that need no order."""
        return "solo" if self.solo else "head" if self.head else f"worker_{self.rank}"

    @property
    def leads(self) -> bool:
        """Whether it is the first process of its replica."""
        return self.replica_rank == 0


class _Node(msgspec.Struct, frozen=True):
    """Slots of one process."""

    replica: int
    replicas: int
    slots: tuple[Slot, ...]

    @property
    def host(self) -> str:
        return self.slots[0].host


def rank_contexts(placement: Placement, replica_size: int, addresses: Mapping[str, str], ports: RankPorts) -> tuple[RankContext, ...]:
    """The processes of a placement in rank order. ``replica_size`` is how many slots one replica takes.

    On one host there is one process, whatever it holds. Whole replicas that share a host share a process. Raises ``PlacementError``
    when a replica that spans hosts shares one of them with another replica, since both would want the same ports.
    """
    nodes = tuple(_nodes(placement, replica_size))
    _refuse_shared_hosts(nodes)
    by_replica = {node.replica: [other for other in nodes if other.replica == node.replica] for node in nodes}
    known = {node.host: addresses.get(node.host, node.host) for node in nodes}
    peers = tuple(Peer(address=known[node.host]) for node in nodes)
    replicas = sum(node.replicas for node in nodes if node is by_replica[node.replica][0])
    return tuple(
        RankContext(
            rank=rank,
            node_count=len(nodes),
            replica=node.replica,
            replicas=replicas,
            replica_rank=by_replica[node.replica].index(node),
            replica_nodes=len(by_replica[node.replica]),
            local_replicas=node.replicas,
            host=node.host,
            address=known[node.host],
            head_address=peers[0].address,
            master_address=known[by_replica[node.replica][0].host],
            master_port=ports.rendezvous,
            data_parallel_rpc_port=ports.data_parallel_rpc,
            gpus=tuple(gpu for slot in node.slots for gpu in slot.gpus),
            peers=peers,
        )
        for rank, node in enumerate(nodes)
    )


def socket_address(address: str, port: int) -> str:
    """``address:port``, an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def with_peers(ranks: Sequence[RankContext], names: Sequence[str], users: Sequence[str]) -> tuple[RankContext, ...]:
    """The processes, told the container and the login of each (in rank order)."""
    peers = tuple(
        Peer(address=rank.address, fabric_address=rank.fabric_address, name=name, user=user)
        for rank, name, user in zip(ranks, names, users, strict=True)
    )
    return tuple(msgspec.structs.replace(rank, peers=peers) for rank in ranks)


def with_fabric(ranks: Sequence[RankContext], addresses: Mapping[str, str]) -> tuple[RankContext, ...]:
    """The processes, told the fabric's address of each host that the head reaches there."""
    peers = tuple(
        msgspec.structs.replace(peer, fabric_address=addresses.get(rank.host, "")) for rank, peer in zip(ranks, ranks[0].peers, strict=True)
    )
    return tuple(msgspec.structs.replace(rank, fabric_address=addresses.get(rank.host, ""), peers=peers) for rank in ranks)


def with_env_keys(ranks: Sequence[RankContext], envs: Sequence[Mapping[str, str]]) -> tuple[RankContext, ...]:
    """The processes, told which variables of their environments (in rank order) differ and which are the same everywhere."""
    names = sorted({name for env in envs for name in env})
    shared = tuple(name for name in names if len({env.get(name) for env in envs}) == 1)
    differing = tuple(name for name in names if name not in shared)
    return tuple(msgspec.structs.replace(rank, host_keys=differing, shared_keys=shared) for rank in ranks)


def _nodes(placement: Placement, replica_size: int) -> Iterator[_Node]:
    slots = placement.slots
    if len(placement.hosts) == 1:
        yield _Node(0, max(len(slots) // replica_size, 1), slots)
        return
    replicas = [slots[start : start + replica_size] for start in range(0, len(slots), replica_size)]
    for host, held in groupby(enumerate(replicas), key=lambda numbered: _only_host(numbered[1])):
        numbered = list(held)
        if host is not None:
            yield _Node(numbered[0][0], len(numbered), tuple(slot for _, part in numbered for slot in part))
            continue
        for number, part in numbered:
            for _, own in groupby(part, key=lambda slot: slot.host):
                yield _Node(number, 1, tuple(own))


def _only_host(slots: Iterable[Slot]) -> str | None:
    hosts = {slot.host for slot in slots}
    return hosts.pop() if len(hosts) == 1 else None


def _refuse_shared_hosts(nodes: Sequence[_Node]) -> None:
    seen: dict[str, int] = {}
    for node in nodes:
        if node.host in seen:
            raise PlacementError(
                f"{node.host} would hold parts of replicas {seen[node.host]} and {node.replica}",
                hint="give hosts with equal numbers of accelerators, or lower data_parallel",
            )
        seen[node.host] = node.replica
