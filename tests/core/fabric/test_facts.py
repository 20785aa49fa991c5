"""What one host's network facts tell."""

from __future__ import annotations

import msgspec
import pytest

from sparkrun.core.fabric import FabricFacts, FabricPort, Gid, Interface
from tests.core.fabric.hosts import address, interface, mapped_gid, network, port, spark


def test_the_default_route_decides_the_management_interface() -> None:
    seen = network((), interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24"), route="eth1", ssh="10.0.0.1")
    assert seen.management_interface == "eth1"
    assert seen.management_addresses == (address("10.1.0.1/24"),)


def test_without_a_default_route_the_interface_that_ssh_came_in_by_is_the_management_one() -> None:
    seen = network((), interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24"), ssh="10.1.0.1")
    assert seen.management_interface == "eth1"


def test_without_route_and_ssh_the_first_wired_interface_that_is_no_fabric_is_the_management_one() -> None:
    others = (
        interface("docker0", "172.17.0.1/16", virtual=True),
        interface("wlan0", "10.3.0.1/24", wireless=True),
        interface("eth8"),
        interface("eth9", "10.0.0.1/24"),
    )
    seen = network((port("mlx5_0", "fab0", "192.168.1.1/24"),), *others, ssh="127.0.0.1")
    assert seen.management_interface == "eth9"


def test_a_host_without_any_address_has_no_management_interface() -> None:
    assert FabricFacts(observed=True).management_interface is None
    assert FabricFacts(observed=True).management_addresses == ()


def test_addresses_are_listed_by_interface() -> None:
    seen = network((), interface("eth0", "10.0.0.1/24", "fd00::1/64"), interface("eth1"))
    assert {name: [str(each) for each in own] for name, own in seen.addresses.items()} == {
        "eth0": ["10.0.0.1/24", "fd00::1/64"],
        "lo": ["127.0.0.1/8", "::1/128"],
    }


@pytest.mark.parametrize(
    ("text", "v4", "loopback", "link_local"),
    [
        ("10.0.0.1/24", True, False, False),
        ("127.0.1.1/8", True, True, False),
        ("169.254.7.7/16", True, False, True),
        ("::1/128", False, True, False),
        ("fe80::1/64", False, False, True),
        ("fd00::1/64", False, False, False),
    ],
)
def test_kinds_of_addresses(text: str, v4: bool, loopback: bool, link_local: bool) -> None:
    found = address(text)
    assert (found.is_v4, found.is_loopback, found.is_link_local) == (v4, loopback, link_local)
    assert found.is_global is not (loopback or link_local)
    assert str(found) == text


def test_ipv4_is_the_main_address_even_behind_ipv6() -> None:
    assert interface("eth0", "fe80::1/64", "fd00::1/64", "10.0.0.1/24").main_address == "10.0.0.1"
    assert interface("eth0", "fe80::1/64", "fd00::1/64").main_address == "fd00::1"
    assert interface("eth0", "fe80::1/64", "169.254.1.1/16").main_address is None


def test_the_gid_of_an_address_is_its_roce_v2_entry() -> None:
    found = FabricPort(
        hca="a",
        gids={
            2: Gid("IB/RoCE v1", mapped_gid("192.168.1.1")),
            3: Gid("RoCE v2", mapped_gid("192.168.1.1")),
            5: Gid("RoCE v2", mapped_gid("192.168.2.1")),
        },
    )
    assert (found.gid_index("192.168.1.1"), found.gid_index("192.168.2.1"), found.gid_index("192.168.3.1")) == (3, 5, None)


def test_a_gid_that_holds_no_ipv4_address_has_none() -> None:
    assert Gid("RoCE v2", "fe80:0000:0000:0000:0000:0000:0000:0001").ipv4 is None
    assert Gid("RoCE v2", "0000:0000:0000:0000:0000:ffff:c0a8:0b01").ipv4 == "192.168.11.1"


def test_rdma_is_a_capability_only_of_a_port_with_a_link() -> None:
    assert spark({"enp1s0f0np0": "192.168.11.1/24"}).capabilities == ("rdma:roce-v2",)
    assert spark({}).capabilities == ()
    assert FabricFacts(ports=(FabricPort(hca="ib0", state="ACTIVE", link_layer="InfiniBand"),)).capabilities == ("rdma:infiniband",)


def test_facts_survive_being_saved() -> None:
    seen = spark({"enp1s0f0np0": "192.168.11.1/24"})
    assert msgspec.json.decode(msgspec.json.encode(seen), type=FabricFacts) == seen


def test_a_port_and_an_interface_are_found_by_what_they_own() -> None:
    seen = network((), Interface(name="eth0", addresses=(address("10.0.0.1/24"),)))
    assert seen.owner_of("10.0.0.1") == seen.interface("eth0")
    assert seen.owner_of("10.0.0.2") is None
    assert seen.interface("eth7") is None
