"""Reading the FABRIC section of a probe."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.fabric import FabricFacts, Gid, Interface, InterfaceAddress, parse_fabric
from sparkrun.utils.shell import Section, parse_answers

TEXT = """\
SPARKRUN_FABRIC_START
FABRIC_IP=1
FABRIC_IF_0_NAME=enP7s7
FABRIC_IF_0_UP=1
FABRIC_IF_0_WIRELESS=0
FABRIC_IF_0_VIRTUAL=0
FABRIC_IF_0_DRIVER=r8127
FABRIC_IF_0_MTU=1500
FABRIC_IF_0_SPEED_MBPS=10000
FABRIC_IF_0_ADDRESSES=10.0.0.1/24 fd00:0::1/64
FABRIC_IF_1_NAME=wlp9s0
FABRIC_IF_1_UP=0
FABRIC_IF_1_WIRELESS=1
FABRIC_IF_1_VIRTUAL=0
FABRIC_IF_1_SPEED_MBPS=-1
FABRIC_IF_COUNT=2
FABRIC_PORT_0_HCA=mlx5_10
FABRIC_PORT_0_PORT=1
FABRIC_PORT_0_STATE=DOWN
FABRIC_PORT_1_HCA=mlx5_2
FABRIC_PORT_1_PORT=2
FABRIC_PORT_1_STATE=ACTIVE
FABRIC_PORT_1_LINK=Ethernet
FABRIC_PORT_1_RATE=200 Gb/sec (4X HDR)
FABRIC_PORT_1_PCI=
FABRIC_PORT_1_NUMA=-1
FABRIC_PORT_1_GID_3=RoCE v2|0000:0000:0000:0000:0000:ffff:c0a8:0b01|enp1s0f0np0
FABRIC_PORT_1_NETDEV=enp1s0f0np0
FABRIC_PORT_1_MTU=9000
FABRIC_PORT_1_ADDRESSES=192.168.11.1/24
FABRIC_PORT_2_HCA=mlx5_2
FABRIC_PORT_2_PORT=1
FABRIC_PORT_2_STATE=INIT
FABRIC_PORT_COUNT=3
FABRIC_ROUTE_IF=enP7s7
FABRIC_ROUTE_SOURCE=10.0.0.1
FABRIC_SSH_ADDRESS=::ffff:10.0.0.1
SPARKRUN_FABRIC_END
"""


def parsed(text: str) -> FabricFacts:
    return parse_fabric(parse_answers(text).section("FABRIC"))


def test_every_port_comes_with_its_own_interface_and_addresses() -> None:
    found = parsed(TEXT).ports[1]
    assert (found.hca, found.port, found.state, found.netdev) == ("mlx5_2", 2, "ACTIVE", "enp1s0f0np0")
    assert found.addresses == (InterfaceAddress("192.168.11.1", 24),)
    assert (found.speed_gbps, found.mtu, found.numa) == (200.0, 9000, None)
    assert found.gids == {3: Gid("RoCE v2", "0000:0000:0000:0000:0000:ffff:c0a8:0b01", "enp1s0f0np0")}


def test_ports_without_a_pci_name_are_ordered_by_number_not_by_letter() -> None:
    assert [port.name for port in parsed(TEXT).ports] == ["mlx5_2:1", "mlx5_2:2", "mlx5_10:1"]


def test_pci_names_order_ports_before_all_else() -> None:
    text = "FABRIC_PORT_COUNT=3\n" + "".join(
        f"FABRIC_PORT_{n}_HCA={hca}\nFABRIC_PORT_{n}_PCI={pci}\n"
        for n, (hca, pci) in enumerate([("a", "0002:01:00.0"), ("z", "0000:01:00.1"), ("b", "")])
    )
    assert [port.hca for port in parse_fabric(parse_answers(text).section("")).ports] == ["z", "a", "b"]


def test_interfaces_are_read_with_their_kind_and_canonical_addresses() -> None:
    wired, wireless = parsed(TEXT).interfaces
    assert wired == Interface(
        name="enP7s7",
        addresses=(InterfaceAddress("10.0.0.1", 24), InterfaceAddress("fd00::1", 64)),
        driver="r8127",
        mtu=1500,
        speed_gbps=10.0,
    )
    assert (wireless.is_up, wireless.is_wireless, wireless.speed_gbps, wireless.addresses) == (False, True, None, ())


def test_route_and_ssh_address_are_read() -> None:
    seen = parsed(TEXT)
    assert (seen.observed, seen.has_ip_tool, seen.route_interface, seen.ssh_address) == (True, True, "enP7s7", "10.0.0.1")


def test_a_section_that_never_came_is_unknown_not_empty() -> None:
    seen = parse_fabric(Section("FABRIC"))
    assert seen == FabricFacts()
    assert not seen.observed


def test_a_missing_ip_tool_is_a_fact() -> None:
    assert not parse_fabric(Section("FABRIC", (("FABRIC_IP", "0"), ("FABRIC_PORT_COUNT", "0")))).has_ip_tool


KEYS = st.sampled_from(
    ["FABRIC_PORT_COUNT", "FABRIC_IF_COUNT", "FABRIC_SSH_ADDRESS", "FABRIC_IP"]
    + [f"FABRIC_PORT_{n}_{name}" for n in (0, 1, 7) for name in ("HCA", "PORT", "RATE", "MTU", "NUMA", "ADDRESSES", "GID_0", "GID_x", "")]
    + [f"FABRIC_IF_{n}_{name}" for n in (0, 1) for name in ("NAME", "MTU", "SPEED_MBPS", "ADDRESSES")]
)
VALUES = st.one_of(
    st.sampled_from(["", "1", "2", "-1", "9" * 12, "[N/A]", "10.0.0.1/33", "10.0.0/8 ::1/200 x/1", "a|b", "RoCE v2"]), st.text(max_size=8)
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=25))
def test_no_answer_however_broken_fails(pairs: list[tuple[str, str]]) -> None:
    seen = parse_fabric(Section("FABRIC", tuple(pairs)))
    assert all(port.hca for port in seen.ports)
    assert all(0 <= each.prefix <= 128 for interface in seen.interfaces for each in interface.addresses)


def test_a_part_that_does_not_tell_what_it_is_is_left_out() -> None:
    answers = (("FABRIC_PORT_COUNT", "1"), ("FABRIC_PORT_0_NAME", "x"), ("FABRIC_IF_COUNT", "1"), ("FABRIC_IF_0_HCA", "y"))

    seen = parse_fabric(Section("FABRIC", answers))

    assert (seen.ports, seen.interfaces) == ((), ())
