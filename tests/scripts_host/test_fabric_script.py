"""What fabric.sh tells of a host's network, run for real over made-up trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.fabric import FabricFacts, Gid, Interface, InterfaceAddress, select_fabric
from sparkrun.orchestration.collectives import node_env
from sparkrun.runtimes._cluster_ops import resolve_comm_env
from tests.core.fabric.hosts import SPARK_PORTS, mapped_gid
from tests.scripts_host.fake_network import FakeNetwork

V2 = "RoCE v2"


@pytest.fixture
def net(tmp_path: Path) -> FakeNetwork:
    return FakeNetwork(tmp_path / "a")


def roce(netdev: str, *ips: str, index: int = 3) -> dict[int, tuple[str, str, str]]:
    """A GID table whose first IPv4 entry of RoCE v2 is at ``index``."""
    link_local = "fe80:0000:0000:0000:4ebb:47ff:fe00:0001"
    table = {0: ("IB/RoCE v1", link_local, netdev), 1: (V2, link_local, netdev)}
    for number, ip in enumerate(ips):
        table[index - 1 + 2 * number] = ("IB/RoCE v1", mapped_gid(ip), netdev)
        table[index + 2 * number] = (V2, mapped_gid(ip), netdev)
    return table


def make_spark(
    net: FakeNetwork, fabric: dict[str, str], management: str = "10.0.0.1/24", *, indices: dict[str, int] | None = None
) -> FakeNetwork:
    """A Spark with links and addresses on the interfaces named in ``fabric``."""
    for hca, netdev, pci in SPARK_PORTS:
        text = fabric.get(netdev)
        net.interface(netdev, *([text] if text else []), driver="mlx5_core", mtu="9000", operstate="up" if netdev in fabric else "down")
        ip = [text.partition("/")[0]] if text else []
        state = "4: ACTIVE" if netdev in fabric else "1: DOWN"
        net.port(net.device(hca, pci, netdev), state=state, gids=roce(netdev, *ip, index=(indices or {}).get(hca, 3)))
    net.interface("enP7s7", management, driver="r8127")
    net.interface("lo", "127.0.0.1/8", operstate="unknown")
    net.route("enP7s7", management.partition("/")[0])
    return net


def test_a_port_is_told_with_its_own_interface_address_and_gids(net: FakeNetwork) -> None:
    make_spark(net, {"enp1s0f0np0": "192.168.11.1/24"})
    found = net.probe().ports[0]
    assert (found.hca, found.port, found.state, found.link_layer, found.pci, found.numa) == (
        "rocep1s0f0",
        1,
        "ACTIVE",
        "Ethernet",
        "0000:01:00.0",
        None,
    )
    assert (found.netdev, found.addresses, found.mtu, found.speed_gbps) == (
        "enp1s0f0np0",
        (InterfaceAddress("192.168.11.1", 24),),
        9000,
        200.0,
    )
    assert found.gids[3] == Gid(V2, mapped_gid("192.168.11.1"), "enp1s0f0np0")
    assert sorted(found.gids) == [0, 1, 2, 3]


def test_three_interfaces_with_two_addresses_are_not_mixed_up(net: FakeNetwork) -> None:
    make_spark(net, {"enp1s0f0np0": "192.168.11.1/24", "enp1s0f1np1": "", "enP2p1s0f0np0": "192.168.12.1/30"})
    assert [(port.netdev, [str(each) for each in port.addresses]) for port in net.probe().active_ports] == [
        ("enp1s0f0np0", ["192.168.11.1/24"]),
        ("enp1s0f1np1", []),
        ("enP2p1s0f0np0", ["192.168.12.1/30"]),
    ]


def test_devices_are_answered_in_the_order_of_their_pci_names(net: FakeNetwork) -> None:
    for hca, pci in (("a", "0002:01:00.0"), ("b", "0000:01:00.1"), ("c", None), ("d", "0000:01:00.0")):
        net.port(net.device(hca, pci))
    section = net.section()
    assert [section.text(f"FABRIC_PORT_{n}_HCA") for n in range(4)] == ["d", "b", "a", "c"]
    assert section.text("FABRIC_PORT_3_PCI") == ""


def test_every_port_of_a_device_is_told_with_the_interface_of_that_port(net: FakeNetwork) -> None:
    net.interface("fab0", "192.168.1.1/24", driver="mlx4_en", dev_port="0")
    net.interface("fab1", "192.168.2.1/24", driver="mlx4_en", dev_port="1")
    device = net.device("mlx4_0", "0000:05:00.0", "fab0", "fab1")
    net.port(device, 1)
    net.port(device, 2, state="1: DOWN")
    assert [(port.name, port.netdev, port.state) for port in net.probe().ports] == [
        ("mlx4_0:1", "fab0", "ACTIVE"),
        ("mlx4_0:2", "fab1", "DOWN"),
    ]


def test_a_device_with_one_interface_needs_no_port_number_there(net: FakeNetwork) -> None:
    path = net.interface("ib0", "10.9.0.1/24", driver="mlx5_core")
    (path / "dev_port").unlink()
    net.port(
        net.device("mlx5_0", "0000:05:00.0", "ib0"), link_layer="InfiniBand", gids={0: ("IB/RoCE v1", "fe80:0000:0000:0001:0:0:0:1", "")}
    )
    found = net.probe().ports[0]
    assert (found.netdev, found.link_layer, found.gids[0].address) == ("ib0", "InfiniBand", "fe80:0000:0000:0001:0:0:0:1")


def test_the_interface_that_owns_the_ipv4_gid_is_the_ports(net: FakeNetwork) -> None:
    """A VLAN or a bond has the address; the device's own interface has none."""
    net.interface("fab0", driver="mlx5_core")
    net.interface("fab0.100", "192.168.1.1/24")
    table = {0: (V2, "fe80:0000:0000:0000:0000:0000:0000:0001", "fab0"), 3: (V2, mapped_gid("192.168.1.1"), "fab0.100")}
    net.port(net.device("mlx5_0", "0000:05:00.0", "fab0"), gids=table)
    found = net.probe().ports[0]
    assert (found.netdev, [str(each) for each in found.addresses]) == ("fab0.100", ["192.168.1.1/24"])


def test_a_port_without_an_interface_has_none(net: FakeNetwork) -> None:
    net.port(net.device("mlx5_0", "0000:05:00.0"))
    found = net.probe().ports[0]
    assert (found.netdev, found.addresses, found.gids, found.mtu) == ("", (), {}, None)


def test_the_gid_table_is_read_to_its_end_past_empty_entries(net: FakeNetwork) -> None:
    net.interface("fab0", "192.168.1.1/24", driver="mlx5_core")
    table = {1: (V2, "fe80:0000:0000:0000:0000:0000:0000:0001", "fab0"), 12: (V2, mapped_gid("192.168.1.1"), "fab0")}
    net.port(net.device("mlx5_0", "0000:05:00.0", "fab0"), gids=table)
    assert net.probe().ports[0].gid_index("192.168.1.1") == 12


def test_interfaces_are_told_with_their_kind(net: FakeNetwork) -> None:
    net.interface("enP7s7", "10.0.0.1/24", "fe80::1/64", driver="r8127", speed="10000")
    net.interface("wlP9s9", driver="mt7925e", wireless="", operstate="down", speed="-1")
    net.interface("docker0", "172.17.0.1/16", operstate="down", mtu="1400")
    net.interface("tun0", "100.64.0.7/32", operstate="unknown")
    net.interface("tun1", "100.64.0.8/32", operstate="unknown", flags="0x1002")
    net.interface("veth1")
    found = {each.name: each for each in net.probe().interfaces}
    assert set(found) == {"enP7s7", "wlP9s9", "docker0", "tun0", "tun1"}
    assert found["enP7s7"] == Interface(
        name="enP7s7",
        addresses=(InterfaceAddress("10.0.0.1", 24), InterfaceAddress("fe80::1", 64)),
        driver="r8127",
        mtu=1500,
        speed_gbps=10.0,
    )
    assert (found["wlP9s9"].is_wireless, found["wlP9s9"].is_up, found["wlP9s9"].is_virtual) == (True, False, False)
    assert (found["docker0"].is_virtual, found["docker0"].is_up) == (True, False)
    assert (found["tun0"].is_up, found["tun1"].is_up) == (True, False)


def test_a_file_among_the_interfaces_is_none(net: FakeNetwork) -> None:
    net.interface("eth0", driver="x")
    (net.sysfs / "class/net/bonding_masters").write_text("bond0\n", encoding="utf-8")
    assert [each.name for each in net.probe().interfaces] == ["eth0"]


def test_addresses_of_links_between_two_points_are_understood(net: FakeNetwork) -> None:
    net.ip_line(r"5: ppp0    inet 10.0.0.1 peer 10.0.0.2/32 scope global ppp0\       valid_lft forever")
    net.ip_line(r"6: tun0    inet 10.7.0.1 scope global tun0\       valid_lft forever")
    net.ip_line(r"7: veth9@if4    inet 10.8.0.1/24 brd 10.8.0.255 scope global veth9\       valid_lft forever")
    net.ip_line(r"7: veth9@if4    inet6 fd00::9/64 scope global dynamic \       valid_lft forever")
    found = {each.name: [str(own) for own in each.addresses] for each in net.probe().interfaces}
    assert found == {"ppp0": ["10.0.0.1/32"], "tun0": ["10.7.0.1/32"], "veth9": ["10.8.0.1/24", "fd00::9/64"]}


def test_an_interface_that_sysfs_does_not_know_is_told_by_its_address(net: FakeNetwork) -> None:
    net.ip_line("2: eth0    inet 10.0.0.1/24 scope global eth0")
    assert net.probe().interfaces == (Interface(name="eth0", addresses=(InterfaceAddress("10.0.0.1", 24),)),)


def test_the_default_route_and_the_address_ssh_came_to_are_told(net: FakeNetwork) -> None:
    net.interface("eth0", "10.0.0.1/24", driver="x")
    net.route("eth0", "10.0.0.1")
    net.env["SSH_CONNECTION"] = "10.0.0.99 50000 192.168.11.1 22"
    seen = net.probe()
    assert (seen.route_interface, seen.ssh_address, seen.management_interface) == ("eth0", "192.168.11.1", "eth0")
    assert net.section().text("FABRIC_ROUTE_SOURCE") == "10.0.0.1"


def test_a_host_without_a_route_says_nothing_of_one(net: FakeNetwork) -> None:
    net.interface("eth0", "10.0.0.1/24", driver="x")
    seen = net.probe()
    assert (seen.route_interface, seen.ssh_address, seen.management_interface) == (None, None, "eth0")


def test_without_an_ip_tool_ports_are_still_told(net: FakeNetwork) -> None:
    make_spark(net, {"enp1s0f0np0": "192.168.11.1/24"})
    net.without_ip()
    seen = net.probe()
    assert not seen.has_ip_tool
    assert len(seen.ports) == 4
    assert seen.addresses == {}


def test_a_host_without_sysfs_and_without_tools_is_seen_and_empty(net: FakeNetwork) -> None:
    net.without_ip()
    net.sysfs.rmdir()
    assert net.probe() == FabricFacts(observed=True, has_ip_tool=False)


def test_sysfs_may_be_given_as_it_is_mounted(net: FakeNetwork) -> None:
    net.port(net.device("mlx5_0", "0000:05:00.0"))
    net.env = {"SYSFS": str(net.sysfs), "SYSFS_ROOT": "/nowhere"}
    assert len(net.probe().ports) == 1


def test_names_with_odd_characters_come_through(net: FakeNetwork) -> None:
    net.interface("we$ird`x", "10.0.0.1/24", driver="x")
    assert net.probe().interface("we$ird`x") is not None


def test_two_sparks_from_their_files_to_their_environment(tmp_path: Path) -> None:
    facts = {}
    for n in (1, 2):
        net = make_spark(
            FakeNetwork(tmp_path / str(n)), {"enp1s0f0np0": f"192.168.11.{n}/24", "enP2p1s0f0np0": f"192.168.12.{n}/24"}, f"10.0.0.{n}/24"
        )
        facts[f"10.0.0.{n}"] = net.probe()
    env = resolve_comm_env(select_fabric(facts), {}, {})["10.0.0.2"]
    assert env["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert env["NCCL_IB_GID_INDEX"] == "3"
    assert env["NCCL_SOCKET_IFNAME"] == "enP7s7,enp1s0f0np0,enP2p1s0f0np0"
    assert env["NODE_IP"] == "10.0.0.2"


def test_gid_indices_3_and_5_are_not_pinned_to_one(tmp_path: Path) -> None:
    facts = {}
    for n in (1, 2):
        fabric = {"enp1s0f0np0": f"192.168.11.{n}/24", "enP2p1s0f0np0": f"192.168.12.{n}/24"}
        facts[f"10.0.0.{n}"] = make_spark(FakeNetwork(tmp_path / str(n)), fabric, f"10.0.0.{n}/24", indices={"roceP2p1s0f0": 5}).probe()
    for env in resolve_comm_env(select_fabric(facts), {}, {}).values():
        assert "NCCL_IB_GID_INDEX" not in env
        assert env["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"


@pytest.mark.parametrize(
    ("third", "reason"),
    [("", "enp1s0f1np1 has no IPv4 address"), ("172.31.9.1/24", "no other host has a port in its subnet (172.31.9.1/24)")],
)
def test_a_third_active_port_that_leads_nowhere_is_left_out_with_the_reason(tmp_path: Path, third: str, reason: str) -> None:
    one = {"enp1s0f0np0": "192.168.11.1/24", "enP2p1s0f0np0": "192.168.12.1/24", "enp1s0f1np1": third}
    other = {"enp1s0f0np0": "192.168.11.2/24", "enP2p1s0f0np0": "192.168.12.2/24"}
    facts = {
        "10.0.0.1": make_spark(FakeNetwork(tmp_path / "1"), one).probe(),
        "10.0.0.2": make_spark(FakeNetwork(tmp_path / "2"), other, "10.0.0.2/24").probe(),
    }
    fabric = select_fabric(facts)
    env = resolve_comm_env(fabric, {}, {})["10.0.0.1"]
    assert env["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert "enp1s0f1np1" not in env["NCCL_SOCKET_IFNAME"]
    assert fabric.hosts["10.0.0.1"].notes == (f"10.0.0.1: rocep1s0f1 port 1 (enp1s0f1np1) is not used: {reason}",)


def test_hosts_given_by_fabric_address_meet_there_though_the_default_route_is_wifi(tmp_path: Path) -> None:
    facts = {}
    for n in (1, 2):
        net = FakeNetwork(tmp_path / str(n))
        net.interface("wlP9s9", f"10.8.0.{n}/24", driver="mt7925e", wireless="")
        net.interface("enp1s0f0np0", f"192.168.11.{n}/24", driver="mlx5_core")
        net.port(net.device("rocep1s0f0", "0000:01:00.0", "enp1s0f0np0"), gids=roce("enp1s0f0np0", f"192.168.11.{n}"))
        net.route("wlP9s9", f"10.8.0.{n}")
        facts[f"192.168.11.{n}"] = net.probe()
    fabric = select_fabric(facts)
    for host, env in resolve_comm_env(fabric, {}, {}).items():
        assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == "enp1s0f0np0"
        assert node_env(fabric.hosts[host]) == {"NODE_IP": host, "VLLM_HOST_IP": host, "SGLANG_HOST_IP": host}
