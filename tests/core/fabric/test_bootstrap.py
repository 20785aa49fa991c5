"""The interface on which nodes meet, and the address they give each other."""

from __future__ import annotations

import pytest

from sparkrun.core.fabric import FabricFacts, FabricOptions, HostFabric, Interface, select_fabric
from sparkrun.core.fabric.bootstrap import host_name
from tests.core.fabric.hosts import interface, network, port, spark

UP = "enp1s0f0np0"


def meeting(host: HostFabric) -> tuple[str | None, str | None]:
    return host.bootstrap_interface, host.node_address


def wifi_spark(number: int, ssh: str | None = None) -> FabricFacts:
    """A Spark whose default route is Wi-Fi, with one fabric address."""
    fabric = port("rocep1s0f0", UP, f"192.168.11.{number}/24", pci="0000:01:00.0")
    wifi = interface("wlP9s9", f"10.8.0.{number}/24", wireless=True)
    return network((fabric,), wifi, interface("docker0", "172.17.0.1/16", virtual=True), route="wlP9s9", ssh=ssh)


def test_hosts_given_by_fabric_address_meet_on_the_fabric_though_the_default_route_is_wifi() -> None:
    hosts = select_fabric({f"192.168.11.{n}": wifi_spark(n) for n in (1, 2)}).hosts
    assert [meeting(host) for host in hosts.values()] == [(UP, "192.168.11.1"), (UP, "192.168.11.2")]


def test_user_port_and_brackets_do_not_hide_an_address() -> None:
    facts = {"dgx@192.168.11.1:2222": wifi_spark(1), "192.168.11.2": wifi_spark(2)}
    assert meeting(select_fabric(facts).hosts["dgx@192.168.11.1:2222"]) == (UP, "192.168.11.1")


@pytest.mark.parametrize(
    ("host", "name"),
    [("a", "a"), ("u@a:22", "a"), ("u@[fd00::1]:22", "fd00::1"), ("fd00::1", "fd00::1"), ("10.0.0.1:22", "10.0.0.1")],
)
def test_the_name_in_a_host(host: str, name: str) -> None:
    assert host_name(host) == name


def test_a_name_that_somebody_resolved_counts_as_its_address() -> None:
    options = FabricOptions(addresses={"spark-1": "192.168.11.1", "spark-2": "192.168.11.2"})
    hosts = select_fabric({f"spark-{n}": wifi_spark(n) for n in (1, 2)}, options).hosts
    assert meeting(hosts["spark-1"]) == (UP, "192.168.11.1")


def test_a_name_that_resolves_to_loopback_is_not_believed() -> None:
    options = FabricOptions(addresses={"spark-1": "127.0.1.1"})
    hosts = select_fabric({f"spark-{n}": spark({}, f"10.0.0.{n}/24") for n in (1, 2)}, options).hosts
    assert meeting(hosts["spark-1"]) == ("enP7s7", "10.0.0.1")
    assert hosts["spark-1"].notes == ("spark-1: 127.0.1.1 means this host alone; other nodes are given 10.0.0.1 (enP7s7)",)


def test_without_an_address_nodes_meet_on_the_management_interface() -> None:
    hosts = select_fabric({f"spark-{n}": spark({UP: f"192.168.11.{n}/24"}, f"10.0.0.{n}/24") for n in (1, 2)}).hosts
    assert [meeting(host) for host in hosts.values()] == [("enP7s7", "10.0.0.1"), ("enP7s7", "10.0.0.2")]


def test_a_wifi_default_route_gives_way_to_the_wire_that_ssh_came_in_by() -> None:
    hosts = select_fabric({f"spark-{n}": wifi_spark(n, ssh=f"192.168.11.{n}") for n in (1, 2)}).hosts
    assert meeting(hosts["spark-2"]) == (UP, "192.168.11.2")
    assert hosts["spark-2"].notes == ()


def test_where_there_is_only_wifi_it_is_used_and_said() -> None:
    hosts = select_fabric({f"spark-{n}": wifi_spark(n, ssh=f"10.8.0.{n}") for n in (1, 2)}).hosts
    assert meeting(hosts["spark-1"]) == ("wlP9s9", "10.8.0.1")
    assert hosts["spark-1"].notes == (
        "spark-1: the nodes meet over Wi-Fi (wlP9s9); name the host by a wired address, or set mgmt_interface for the cluster",
    )


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "user@localhost:22", "::1", "127.0.1.1"])
def test_a_loopback_host_is_known_to_others_by_the_address_beside_theirs(name: str) -> None:
    here = network((), interface("eth0", "192.168.0.7/24"), interface("eth1", "10.1.1.1/24"), route="eth0")
    there = network((), interface("eth0", "10.1.1.2/24"), route="eth0")
    fabric = select_fabric({name: here, "10.1.1.2": there})
    assert meeting(fabric.hosts[name]) == ("eth1", "10.1.1.1")
    assert "means this host alone; other nodes are given 10.1.1.1 (eth1)" in fabric.hosts[name].notes[0]


def test_a_host_by_name_meets_its_peers_where_they_are() -> None:
    here = wifi_spark(1)
    fabric = select_fabric({"spark-1": here, "192.168.11.2": wifi_spark(2)})
    assert meeting(fabric.hosts["spark-1"]) == (UP, "192.168.11.1")


def test_a_loopback_host_without_any_other_address_has_none_and_says_so() -> None:
    fabric = select_fabric({"127.0.0.1": network(()), "10.1.1.2": network((), interface("eth0", "10.1.1.2/24"))})
    assert meeting(fabric.hosts["127.0.0.1"]) == (None, None)
    assert fabric.hosts_without_address == ("127.0.0.1",)
    assert fabric.hosts["127.0.0.1"].notes == ("127.0.0.1: no address is known that other nodes can reach",)


def test_an_unseen_loopback_host_has_no_address() -> None:
    fabric = select_fabric({"localhost": FabricFacts(), "10.1.1.2": FabricFacts()})
    assert [meeting(host) for host in fabric.hosts.values()] == [(None, None), (None, "10.1.1.2")]


def test_an_address_that_no_interface_has_is_replaced_and_said() -> None:
    fabric = select_fabric({"203.0.113.5": spark({}, "10.0.0.1/24"), "203.0.113.6": spark({}, "10.0.0.2/24")})
    host = fabric.hosts["203.0.113.5"]
    assert meeting(host) == ("enP7s7", "10.0.0.1")
    assert host.notes == ("203.0.113.5: no interface has the address 203.0.113.5; other nodes are given 10.0.0.1 (enP7s7)",)


def test_a_pinned_management_interface_wins_where_it_exists() -> None:
    options = FabricOptions(management_interface="eth1")
    there = network((), interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24"), route="eth0")
    without = network((), interface("eth0", "10.0.0.2/24"), route="eth0")
    hosts = select_fabric({"10.0.0.1": there, "10.0.0.2": without}, options).hosts
    assert meeting(hosts["10.0.0.1"]) == ("eth1", "10.1.0.1")
    assert meeting(hosts["10.0.0.2"]) == ("eth0", "10.0.0.2")
    assert hosts["10.0.0.2"].notes == ("10.0.0.2: there is no interface eth1 (mgmt_interface of the cluster)",)


def triangle(**extra: Interface) -> dict[str, FabricFacts]:
    links = {"192.168.0.1": (("192.168.0.1/24", "192.168.2.2/24")), "192.168.0.2": ("192.168.0.2/24", "192.168.1.1/24")}
    links["192.168.1.2"] = ("192.168.1.2/24", "192.168.2.1/24")
    return {
        host: network((port("m0", "f0", one, pci="0"), port("m1", "f1", other, pci="1")), *([extra[f"h{at}"]] if f"h{at}" in extra else []))
        for at, (host, (one, other)) in enumerate(links.items())
    }


def test_in_a_ring_nodes_never_meet_on_a_port_that_reaches_one_neighbour() -> None:
    fabric = select_fabric(triangle(**{f"h{at}": interface("eth0", f"10.0.0.{at + 1}/24") for at in range(3)}))
    assert fabric.topology == "ring"
    assert [meeting(host) for host in fabric.hosts.values()] == [("eth0", f"10.0.0.{n}") for n in (1, 2, 3)]
    assert fabric.hosts["192.168.0.1"].notes == (
        "192.168.0.1: f0 (192.168.0.1) reaches 192.168.0.2 only; the nodes meet on eth0 (10.0.0.1)",
    )


def test_in_a_ring_without_any_other_network_the_given_address_is_kept_and_doubted() -> None:
    host = select_fabric(triangle()).hosts["192.168.0.1"]
    assert meeting(host) == ("f0", "192.168.0.1")
    assert host.notes == ("192.168.0.1: f0 (192.168.0.1) reaches 192.168.0.2 only, and no other interface has an address",)


def test_nodes_that_cannot_meet_on_the_management_network_meet_on_the_fabric() -> None:
    facts = {f"10.0.{n}.1": spark({UP: f"192.168.11.{n}/24"}, f"10.0.{n}.1/24") for n in (1, 2)}
    hosts = select_fabric(facts, FabricOptions(bootstrap_over_fabric=True)).hosts
    assert [meeting(host) for host in hosts.values()] == [(UP, "192.168.11.1"), (UP, "192.168.11.2")]
    assert meeting(select_fabric(facts).hosts["10.0.1.1"]) == ("enP7s7", "10.0.1.1")


def test_ipv6_addresses_serve_as_well() -> None:
    facts = {f"fd00::{n}": network((), interface("eth0", f"10.0.0.{n}/24", f"fd00::{n}/64"), route="eth0") for n in (1, 2)}
    assert meeting(select_fabric(facts).hosts["fd00::1"]) == ("eth0", "fd00::1")
    assert meeting(select_fabric({"FD00:0::1": facts["fd00::1"], "fd00::2": facts["fd00::2"]}).hosts["FD00:0::1"]) == ("eth0", "fd00::1")
