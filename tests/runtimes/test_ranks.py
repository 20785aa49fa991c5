from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import PlacementError
from sparkrun.core.placement import Placement, Slot
from sparkrun.runtimes.ranks import RankContext, RankPorts, rank_contexts, with_env_keys, with_peers

PORTS = RankPorts(rendezvous=25000)


def placed(*hosts: str) -> Placement:
    """One slot after the other, on these hosts."""
    seen: dict[str, int] = {}
    slots = []
    for rank, host in enumerate(hosts):
        seen[host] = seen.get(host, -1) + 1
        slots.append(Slot(rank, host, (seen[host],)))
    return Placement(tuple(slots), "greedy")


def contexts(placement: Placement, size: int) -> tuple[RankContext, ...]:
    return rank_contexts(placement, size, {host: f"10.0.0.{host[-1]}" for host in placement.hosts}, PORTS)


def test_one_host_is_one_process() -> None:
    (only,) = contexts(placed("h1", "h1", "h1", "h1"), 2)
    assert (only.solo, only.local_replicas, only.replicas, only.gpus) == (True, 2, 2, (0, 1, 2, 3))


def test_two_hosts_of_one_replica() -> None:
    head, worker = contexts(placed("h1", "h2"), 2)
    assert (head.head, head.leads, head.role, worker.role) == (True, True, "head", "worker_1")
    assert (worker.replica_rank, worker.replica_nodes, worker.address, worker.master_address) == (1, 2, "10.0.0.2", "10.0.0.1")


def test_nodes_with_several_accelerators_are_one_process_each() -> None:
    ranks = contexts(placed("h1", "h1", "h2", "h2"), 4)
    assert [(rank.replica_nodes, rank.gpus) for rank in ranks] == [(2, (0, 1)), (2, (0, 1))]


def test_an_address_that_nobody_gave_is_the_host_s_name() -> None:
    assert rank_contexts(placed("h1", "h2"), 2, {}, PORTS)[1].master_address == "h1"


def test_replicas_of_several_hosts_must_not_share_one() -> None:
    with pytest.raises(PlacementError, match="h2 would hold parts of replicas 0 and 1"):
        contexts(placed("h1", "h1", "h2", "h2", "h3", "h3"), 3)


def test_keys_that_differ_and_keys_that_are_shared() -> None:
    ranks = with_env_keys(contexts(placed("h1", "h2"), 2), [{"A": "1", "IP": "1"}, {"A": "1", "IP": "2", "ONLY": "x"}])
    assert {(rank.host_keys, rank.shared_keys) for rank in ranks} == {(("IP", "ONLY"), ("A",))}


def test_peers_are_told_name_and_user() -> None:
    ranks = with_peers(contexts(placed("h1", "h2"), 2), ["a", "b"], ["ann", "bob"])
    assert [(peer.address, peer.name, peer.user) for peer in ranks[0].peers] == [("10.0.0.1", "a", "ann"), ("10.0.0.2", "b", "bob")]


@given(tensor=st.integers(1, 4), replicas=st.integers(1, 4))
def test_every_slot_belongs_to_one_process_and_every_replica_to_one_master(tensor: int, replicas: int) -> None:
    placement = placed(*(f"h{number}" for number in range(tensor * replicas)))
    ranks = contexts(placement, tensor)
    assert [rank.rank for rank in ranks] == list(range(len(placement.slots)))
    assert {rank.node_count for rank in ranks} == {len(ranks)}
    if len(ranks) > 1:
        assert {rank.replicas for rank in ranks} == {replicas}
        assert [(rank.replica, rank.replica_rank) for rank in ranks] == [(r, t) for r in range(replicas) for t in range(tensor)]
        assert all(rank.master_address == ranks[rank.replica * tensor].address for rank in ranks)
