"""What holds for any wiring between hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkrun.core.fabric import Fabric, FabricPort, UsedPort, select_fabric
from tests.core.fabric.topologies import Networks, any_networks, odd_networks, rings, switched_networks

MANY = settings(max_examples=50, deadline=None)


def sees(one: FabricPort, other: FabricPort) -> bool:
    """Whether two ports have addresses each of which lies in the other's subnet; written without a look at the code."""
    mine, theirs = ([ipaddress.ip_interface(str(each)) for each in port.addresses if each.is_v4] for port in (one, other))
    return any(a.ip in b.network and b.ip in a.network and a.ip != b.ip for a in mine for b in theirs)


def used(fabric: Fabric) -> Iterator[tuple[str, UsedPort]]:
    return ((name, each) for name, host in fabric.hosts.items() for each in host.used)


def peers_of(name: str, port: FabricPort, fabric: Fabric) -> set[str]:
    return {other for other, each in used(fabric) if other != name and sees(port, each.port)}


@MANY
@given(any_networks())
def test_every_port_used_reaches_all_the_peers_it_must(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for name, each in used(fabric):
        reached = peers_of(name, each.port, fabric)
        assert set(each.reaches) == reached
        assert len(reached) == (len(facts) - 1 if fabric.topology in ("direct", "switch") else 1)


@MANY
@given(any_networks())
def test_every_port_is_either_used_or_left_alone_with_a_reason(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for name, seen in facts.items():
        host = fabric.hosts[name]
        assert sorted([each.port.name for each in host.used] + [each.port.name for each in host.unused]) == sorted(
            p.name for p in seen.ports
        )
        assert all(each.reason for each in host.unused)
        assert all(each.port.is_active and each.address in {own.address for own in each.port.addresses} for each in host.used)


@MANY
@given(any_networks())
def test_a_fabric_is_there_for_all_hosts_or_for_none(facts: Networks) -> None:
    fabric = select_fabric(facts)
    assert {bool(host.used) for host in fabric.hosts.values()} == {fabric.topology != "none"}
    assert {host.topology for host in fabric.hosts.values()} == {fabric.topology}


@MANY
@given(any_networks())
def test_no_port_is_left_out_that_would_reach_all(facts: Networks) -> None:
    fabric = select_fabric(facts)
    if fabric.topology not in ("direct", "switch"):
        return
    for name, host in fabric.hosts.items():
        lasting = [each.port for each in host.unused if each.port.is_active and all(own.is_global for own in each.port.addresses)]
        assert not [port.name for port in lasting if len(peers_of(name, port, fabric)) == len(facts) - 1]


@MANY
@given(switched_networks())
def test_a_switch_is_recognised_with_every_rail(facts: Networks) -> None:
    fabric = select_fabric(facts)
    assert fabric.topology == ("direct" if len(facts) == 2 else "switch")
    assert all(not host.unused for host in fabric.hosts.values())


@MANY
@given(rings())
def test_a_ring_is_recognised_and_walked_from_neighbour_to_neighbour(facts: Networks) -> None:
    fabric = select_fabric(facts)
    assert fabric.topology == "ring"
    assert all(not host.unused for host in fabric.hosts.values())
    assert sorted(fabric.ring_order) == sorted(facts)
    closed = (*fabric.ring_order, fabric.ring_order[0])
    assert all(other in {peer for each in fabric.hosts[one].used for peer in each.reaches} for one, other in pairwise(closed))


@MANY
@given(any_networks(), st.randoms(use_true_random=False))
def test_the_order_of_hosts_changes_nothing_but_the_order(facts: Networks, random: object) -> None:
    names = list(facts)
    random.shuffle(names)  # type: ignore[attr-defined]
    one, other = select_fabric(facts), select_fabric({name: facts[name] for name in names})
    assert one.topology == other.topology
    assert list(other.hosts) == names
    for name in names:
        assert [each.port for each in one.hosts[name].used] == [each.port for each in other.hosts[name].used]
        assert one.hosts[name].node_address == other.hosts[name].node_address


@MANY
@given(any_networks())
def test_the_same_facts_give_the_same_fabric(facts: Networks) -> None:
    assert select_fabric(facts) == select_fabric(dict(facts))


@MANY
@given(odd_networks())
def test_every_active_port_that_is_not_used_is_named(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for host in fabric.hosts.values():
        for each in host.unused:
            assert any(each.port.label in note for note in host.notes) == each.port.is_active


@MANY
@given(any_networks())
def test_nodes_meet_where_the_cluster_names_them(facts: Networks) -> None:
    for name, host in select_fabric(facts).hosts.items():
        assert host.node_address == name
        assert host.bootstrap_interface in {each.name for each in facts[name].interfaces}
