"""Choosing the ports between hosts."""

from __future__ import annotations

import pytest

from sparkrun.core.fabric import Fabric, FabricFacts, FabricOptions, FabricPort, Gid, HostFabric, select_fabric
from tests.core.fabric.hosts import interface, network, port, spark

UP, LOW = "enp1s0f0np0", "enP2p1s0f0np0"


def used(host: HostFabric) -> list[str]:
    return [each.port.name for each in host.used]


def reason(fabric: Fabric, host: str, hca: str) -> str:
    return next(each.reason for each in fabric.hosts[host].unused if each.port.hca == hca)


def switched(count: int, *subnets: int) -> dict[str, FabricFacts]:
    netdevs = (UP, LOW)
    return {
        f"spark-{n}": spark({netdevs[at]: f"192.168.{subnet}.{n}/24" for at, subnet in enumerate(subnets)}, f"10.0.0.{n}/24")
        for n in range(1, count + 1)
    }


def test_one_cable_between_two_hosts_is_direct_and_both_pcie_functions_are_used() -> None:
    fabric = select_fabric(switched(2, 11, 12))
    assert fabric.topology == "direct"
    assert used(fabric.hosts["spark-1"]) == ["rocep1s0f0:1", "roceP2p1s0f0:1"]
    assert [each.address for each in fabric.hosts["spark-2"].used] == ["192.168.11.2", "192.168.12.2"]
    assert fabric.all_notes == ()


def test_hosts_reach_each_other_on_their_first_port_in_common() -> None:
    fabric = select_fabric(switched(2, 11, 12))
    name, head = list(fabric.hosts)
    assert fabric.addresses_towards(head) == {name: fabric.hosts[name].used[0].address}


def test_four_hosts_on_a_switch_use_every_port_that_reaches_all_others() -> None:
    fabric = select_fabric(switched(4, 11, 12))
    assert fabric.topology == "switch"
    assert all(used(host) == ["rocep1s0f0:1", "roceP2p1s0f0:1"] for host in fabric.hosts.values())
    assert fabric.hosts["spark-3"].used[0].reaches == ("spark-1", "spark-2", "spark-4")


def test_both_functions_in_one_subnet_are_used() -> None:
    facts = {f"spark-{n}": spark({UP: f"192.168.11.{n}/24", LOW: f"192.168.11.{n + 10}/24"}) for n in (1, 2, 3)}
    fabric = select_fabric(facts)
    assert fabric.topology == "switch"
    assert all(len(host.used) == 2 and not host.crossed_rails for host in fabric.hosts.values())


def test_a_subnet_that_one_host_lacks_is_left_alone_by_the_others() -> None:
    facts = switched(3, 11, 12)
    facts["spark-3"] = spark({UP: "192.168.11.3/24"}, "10.0.0.3/24")
    fabric = select_fabric(facts)
    assert fabric.topology == "switch"
    assert [used(host) for host in fabric.hosts.values()] == [["rocep1s0f0:1"]] * 3
    assert reason(fabric, "spark-1", "roceP2p1s0f0") == "its subnet (192.168.12.1/24) reaches spark-2, not spark-3"
    assert (
        "spark-1: roceP2p1s0f0 port 1 (enP2p1s0f0np0) is not used: its subnet (192.168.12.1/24) reaches spark-2, not spark-3"
        in fabric.all_notes
    )


def test_a_port_without_an_address_or_in_a_subnet_of_its_own_is_named_with_the_reason() -> None:
    facts = switched(2, 11, 12)
    facts["spark-1"] = spark({UP: "192.168.11.1/24", LOW: "192.168.12.1/24", "enp1s0f1np1": "", "enP2p1s0f1np1": "192.168.99.1/24"})
    fabric = select_fabric(facts)
    assert used(fabric.hosts["spark-1"]) == ["rocep1s0f0:1", "roceP2p1s0f0:1"]
    assert fabric.hosts["spark-1"].notes == (
        "spark-1: rocep1s0f1 port 1 (enp1s0f1np1) is not used: enp1s0f1np1 has no IPv4 address",
        "spark-1: roceP2p1s0f1 port 1 (enP2p1s0f1np1) is not used: no other host has a port in its subnet (192.168.99.1/24)",
    )
    assert fabric.hosts["spark-2"].notes == ()


def test_ports_that_are_down_are_listed_but_make_no_noise() -> None:
    fabric = select_fabric(switched(2, 11))
    assert reason(fabric, "spark-1", "rocep1s0f1") == "its link is DOWN"
    assert fabric.all_notes == ()


def test_an_ipv6_address_alone_is_no_address_for_roce() -> None:
    fabric = select_fabric({"a": network((port("m0", "f0", "fd00::1/64"),)), "b": network((port("m0", "f0", "fd00::2/64"),))})
    assert fabric.topology == "none"
    assert reason(fabric, "a", "m0") == "f0 has no IPv4 address"


def test_prefixes_that_differ_count_only_where_each_lies_in_the_others_subnet() -> None:
    wide = {"a": network((port("m0", "f0", "192.168.0.1/16"),)), "b": network((port("m0", "f0", "192.168.9.2/24"),))}
    assert select_fabric(wide).topology == "none"
    near = {"a": network((port("m0", "f0", "192.168.9.1/16"),)), "b": network((port("m0", "f0", "192.168.9.2/24"),))}
    assert select_fabric(near).topology == "direct"


@pytest.mark.parametrize(("one", "other", "topology"), [("10.9.0.0/31", "10.9.0.1/31", "direct"), ("10.9.0.1/32", "10.9.0.1/32", "none")])
def test_short_subnets(one: str, other: str, topology: str) -> None:
    facts = {"a": network((port("m0", "f0", one),)), "b": network((port("m0", "f0", other),))}
    assert select_fabric(facts).topology == topology


def test_an_address_that_two_hosts_have_joins_nothing() -> None:
    facts = {"a": network((port("m0", "f0", "192.168.1.1/24"),)), "b": network((port("m1", "f1", "192.168.1.1/24"),))}
    assert reason(select_fabric(facts), "a", "m0") == "192.168.1.1/24 is also the address of b m1 port 1 (f1)"


def test_of_several_addresses_the_shared_one_counts() -> None:
    facts = {
        "a": network((port("m0", "f0", "172.30.0.1/24", "192.168.1.1/24"),)),
        "b": network((port("m0", "f0", "192.168.1.2/24", "172.31.0.2/24"),)),
    }
    fabric = select_fabric(facts)
    assert [each.address for host in fabric.hosts.values() for each in host.used] == ["192.168.1.1", "192.168.1.2"]
    assert [host.gid_index for host in fabric.hosts.values()] == [5, 3]


def ring(*pairs: tuple[int, int], count: int, prefix: int = 24) -> dict[str, FabricFacts]:
    """Link i between two hosts, on the next free port of each; ports are filled from the first on."""
    names = [("m0", "f0"), ("m1", "f1"), ("m2", "f2")]
    ports: dict[int, list[FabricPort]] = {n: [] for n in range(count)}
    for link, (one, other) in enumerate(pairs):
        for octet, host in ((1, one), (2, other)):
            hca, netdev = names[len(ports[host])]
            ports[host].append(port(hca, netdev, f"192.168.{link}.{octet}/{prefix}", pci=f"0000:0{len(ports[host])}:00.0"))
    return {f"h{n}": network(tuple(own), interface("eth0", f"10.0.0.{n + 1}/24"), route="eth0") for n, own in ports.items()}


def test_three_hosts_linked_in_pairs_are_a_ring() -> None:
    fabric = select_fabric(ring((0, 1), (1, 2), (2, 0), count=3))
    assert fabric.topology == "ring"
    assert fabric.ring_order == ("h0", "h1", "h2")
    assert [each.reaches for each in fabric.hosts["h0"].used] == [("h1",), ("h2",)]
    assert not fabric.hosts["h0"].neighbours_only
    assert fabric.all_notes == ()


def test_a_ring_of_four_gives_its_order_and_says_that_ranks_have_to_follow_it() -> None:
    fabric = select_fabric(ring((0, 2), (2, 1), (1, 3), (3, 0), count=4))
    assert fabric.topology == "ring"
    assert fabric.ring_order == ("h0", "h2", "h1", "h3")
    assert fabric.hosts["h0"].neighbours_only
    assert fabric.notes == ("hosts reach only their neighbours in the ring (h0, h2, h1, h3); ranks have to follow that order",)


def test_four_hosts_linked_in_all_pairs_are_a_mesh() -> None:
    fabric = select_fabric(ring((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), count=4))
    assert fabric.topology == "mesh"
    assert all(len(host.used) == 3 and host.is_linked_pairwise for host in fabric.hosts.values())


@pytest.mark.parametrize("pairs", [((0, 1), (1, 2)), ((0, 1), (1, 2), (2, 3)), ((0, 1), (2, 3))])
def test_an_open_chain_is_no_fabric(pairs: tuple[tuple[int, int], ...]) -> None:
    count = 1 + max(max(pair) for pair in pairs)
    fabric = select_fabric(ring(*pairs, count=count))
    assert fabric.topology == "none"
    assert all(not host.used and host.has_idle_rdma for host in fabric.hosts.values())
    assert "no fabric joins all hosts" in fabric.notes[0]


def test_two_separate_triangles_are_no_ring() -> None:
    assert select_fabric(ring((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), count=6)).topology == "none"


def test_crossed_cables_are_recognised_and_told() -> None:
    facts = {
        "a": network((port("m0", "f0", "192.168.1.1/24", pci="0"), port("m1", "f1", "192.168.2.1/24", pci="1"))),
        "b": network((port("m0", "f0", "192.168.2.2/24", pci="0"), port("m1", "f1", "192.168.1.2/24", pci="1"))),
    }
    fabric = select_fabric(facts)
    assert fabric.topology == "direct"
    assert all(host.crossed_rails for host in fabric.hosts.values())
    assert "crossed" in fabric.notes[0]


def test_link_local_addresses_join_two_hosts_where_there_is_nothing_better() -> None:
    facts = {n: network((port("m0", "f0", f"169.254.3.{n}/16"),)) for n in "12"}
    fabric = select_fabric(facts)
    assert fabric.topology == "direct"
    assert "link-local" in fabric.notes[0]


def test_link_local_addresses_join_nothing_beside_lasting_ones_or_among_three_hosts() -> None:
    mixed = {n: network((port("m0", "f0", f"192.168.1.{n}/24"), port("m1", "f1", f"169.254.3.{n}/16"))) for n in "12"}
    fabric = select_fabric(mixed)
    assert used(fabric.hosts["1"]) == ["m0:1"]
    assert "link-local" in reason(fabric, "1", "m1")
    assert select_fabric({n: network((port("m0", "f0", f"169.254.3.{n}/16"),)) for n in "123"}).topology == "none"


def test_ports_of_infiniband_need_no_address() -> None:
    def infiniband(subnet: str) -> FabricPort:
        return FabricPort(
            hca="mlx5_0",
            state="ACTIVE",
            link_layer="InfiniBand",
            gids={0: Gid("IB/RoCE v1", f"fe80:0000:0000:{subnet}:0000:0000:0000:0001")},
        )

    joined = select_fabric({name: network((infiniband("0000"),)) for name in "abc"})
    assert joined.topology == "switch"
    assert joined.hosts["a"].gid_index is None
    assert joined.links[0].subnet == "fe80:0000:0000:0000"
    assert select_fabric({"a": network((infiniband("0001"),)), "b": network((infiniband("0002"),))}).topology == "none"
    assert (
        reason(select_fabric({"a": network((FabricPort(hca="x", state="ACTIVE", link_layer="InfiniBand"),)), "b": network(())}), "a", "x")
        == "it has no GID"
    )


def test_ports_of_one_device_are_chosen_one_by_one() -> None:
    facts = {n: network((port("m0", "f0", f"192.168.1.{n}/24"), port("m0", "f1", f"192.168.{n}0.{n}/24", number=2))) for n in "12"}
    fabric = select_fabric(facts)
    assert used(fabric.hosts["1"]) == ["m0:1"]
    assert reason(fabric, "1", "m0") == "no other host has a port in its subnet (192.168.10.1/24)"


def test_fabric_interfaces_of_the_cluster_leave_others_out() -> None:
    fabric = select_fabric(switched(2, 11, 12), FabricOptions(fabric_interfaces=("enp1*",)))
    assert used(fabric.hosts["spark-1"]) == ["rocep1s0f0:1"]
    assert reason(fabric, "spark-1", "roceP2p1s0f0") == "fabric_interfaces (enp1*) leaves it out"


def test_a_claimed_topology_that_the_addresses_deny_is_told() -> None:
    fabric = select_fabric(switched(3, 11), FabricOptions(topology="ring"))
    assert fabric.topology == "switch"
    assert fabric.notes == ("the cluster says topology ring, the addresses say switch; the addresses are followed",)
    assert select_fabric(switched(3, 11), FabricOptions(topology="switch")).notes == ()


def test_one_host_needs_no_fabric_and_no_address() -> None:
    fabric = select_fabric({"spark-1": spark({UP: "192.168.11.1/24"})})
    host = fabric.hosts["spark-1"]
    assert (fabric.topology, host.used, host.bootstrap_interface, host.node_address, host.is_networked) == ("none", (), None, None, False)
    assert fabric.all_notes == ()
    assert fabric.hosts_without_address == ()


def test_no_fabric_names_the_management_way_of_every_host() -> None:
    fabric = select_fabric({f"spark-{n}": spark({}, f"10.0.0.{n}/24") for n in (1, 2)})
    assert fabric.notes == (
        "no fabric joins all hosts; their traffic goes over the management network (spark-1: enP7s7 10.0.0.1, spark-2: enP7s7 10.0.0.2)",
    )
    assert not any(host.has_idle_rdma for host in fabric.hosts.values())


def test_a_host_that_nobody_looked_at_leaves_the_fabric_open_and_says_so() -> None:
    fabric = select_fabric({"spark-1": spark({UP: "192.168.11.1/24"}), "10.0.0.2": FabricFacts()})
    assert fabric.topology == "none"
    assert "10.0.0.2: its network was not looked at" in fabric.all_notes
    assert not any("no fabric joins" in note for note in fabric.all_notes)
    assert not fabric.hosts["spark-1"].has_idle_rdma
    assert fabric.hosts["10.0.0.2"].node_address == "10.0.0.2"


def test_a_missing_ip_tool_is_told() -> None:
    blind = FabricFacts(observed=True, ports=(FabricPort(hca="m0", state="ACTIVE", netdev="f0"),), has_ip_tool=False)
    notes = select_fabric({"a": blind, "b": blind}).all_notes
    assert "a: the ip tool is not there, so no address is known" in notes


def test_links_name_both_ends_and_the_subnet() -> None:
    (link, _) = select_fabric(switched(2, 11, 12)).links
    assert (link.host, link.port, link.netdev) == ("spark-1", "rocep1s0f0:1", UP)
    assert (link.peer, link.peer_port, link.peer_netdev, link.subnet) == ("spark-2", "rocep1s0f0:1", UP, "192.168.11.0/24")


def test_accelerators_with_ports_of_their_own_are_noticed() -> None:
    facts = {n: network((), interface("acc0", driver="habanalabs"), interface("eth0", f"10.0.0.{n}/24"), route="eth0") for n in "12"}
    assert select_fabric(facts).hosts["1"].has_accelerator_network
