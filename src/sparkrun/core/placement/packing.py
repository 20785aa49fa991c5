"""How many ranks go to which host: as few hosts as the demand allows, one filled after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparkrun.core.placement.fit import HostRoom
from sparkrun.core.placement.model import Demand

Counts = tuple[int, ...]
"""Ranks for each host, in the order of the hosts."""


def pack(rooms: Sequence[HostRoom], demand: Demand) -> tuple[tuple[HostRoom, int], ...] | None:
    """Hosts with their number of ranks, in rank order; ``None`` when there is no way.

    Hosts are filled in the given order. Where that breaks a limit on nodes, each host takes fewer ranks, or the roomiest hosts go first.
    """
    for hosts in _orders(rooms, demand):
        places = [room.ranks(demand.gpus_per_rank) for room in hosts]
        for most in range(min(max(places, default=0), demand.ranks), 0, -1):
            counts = _even(places, demand.ranks, most) if demand.even else _filled(places, demand.ranks, most)
            if counts and _allowed(counts, demand):
                return tuple((room, count) for room, count in zip(hosts, counts, strict=True) if count)
    return None


def _orders(rooms: Sequence[HostRoom], demand: Demand) -> Iterator[Sequence[HostRoom]]:
    yield rooms
    if demand.max_nodes is not None:
        yield sorted(rooms, key=lambda room: -room.ranks(demand.gpus_per_rank))


def _filled(places: Sequence[int], ranks: int, most: int) -> Counts | None:
    """At most ``most`` ranks a host, host after host."""
    counts: list[int] = []
    for place in places:
        counts.append(min(place, most, ranks - sum(counts)))
    return tuple(counts) if sum(counts) == ranks else None


def _even(places: Sequence[int], ranks: int, each: int) -> Counts | None:
    """Exactly ``each`` ranks on every host that is used."""
    if ranks % each:
        return None
    counts: list[int] = []
    for place in places:
        counts.append(each if place >= each and sum(counts) < ranks else 0)
    return tuple(counts) if sum(counts) == ranks else None


def _allowed(counts: Counts, demand: Demand) -> bool:
    nodes = sum(count > 0 for count in counts)
    return demand.min_nodes <= nodes and (demand.max_nodes is None or nodes <= demand.max_nodes)
