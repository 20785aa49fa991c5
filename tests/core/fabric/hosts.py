"""Hosts' networks for tests: a DGX Spark with its four fabric ports, and its management interface."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.fabric import FabricFacts, FabricPort, Gid, Interface, InterfaceAddress

SPARK_PORTS = (
    ("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0"),
    ("rocep1s0f1", "enp1s0f1np1", "0000:01:00.1"),
    ("roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0"),
    ("roceP2p1s0f1", "enP2p1s0f1np1", "0002:01:00.1"),
)
"""HCA, interface and PCI name, in the order of the PCI names."""


def address(text: str) -> InterfaceAddress:
    """``10.0.0.1/24``."""
    ip, _, prefix = text.partition("/")
    return InterfaceAddress(ip, int(prefix))


def mapped_gid(ip: str) -> str:
    """An IPv4 address as the kernel prints it inside a GID."""
    one, two, three, four = (int(part) for part in ip.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"


def gids(*ips: str, index: int = 3, netdev: str = "") -> dict[int, Gid]:
    """A GID table as mlx5 makes it: link-local first, then each address as RoCE v1 and v2, the first v2 entry at ``index``."""
    table = {
        0: Gid("IB/RoCE v1", "fe80:0000:0000:0000:0000:0000:0000:0001", netdev),
        1: Gid("RoCE v2", "fe80:0000:0000:0000:0000:0000:0000:0001", netdev),
    }
    for number, ip in enumerate(ips):
        table[index - 1 + 2 * number] = Gid("IB/RoCE v1", mapped_gid(ip), netdev)
        table[index + 2 * number] = Gid("RoCE v2", mapped_gid(ip), netdev)
    return table


def port(hca: str, netdev: str, *addresses: str, state: str = "ACTIVE", pci: str = "", number: int = 1, gid: int = 3) -> FabricPort:
    """One RoCE port with addresses such as ``192.168.11.1/24``."""
    own = tuple(address(text) for text in addresses)
    v4 = [each.address for each in own if each.is_v4]
    return FabricPort(hca=hca, port=number, netdev=netdev, addresses=own, state=state, pci=pci, gids=gids(*v4, index=gid, netdev=netdev))


def interface(name: str, *addresses: str, wireless: bool = False, virtual: bool = False, driver: str = "") -> Interface:
    """One interface that is up."""
    own = tuple(address(text) for text in addresses)
    return Interface(name=name, addresses=own, is_wireless=wireless, is_virtual=virtual, driver=driver)


def network(ports: tuple[FabricPort, ...], *others: Interface, route: str | None = None, ssh: str | None = None) -> FabricFacts:
    """A host with these ports, the interfaces behind them, and others."""
    own = tuple(Interface(name=each.netdev, addresses=each.addresses) for each in ports if each.netdev)
    lo = interface("lo", "127.0.0.1/8", "::1/128", virtual=True)
    return FabricFacts(observed=True, ports=ports, interfaces=(*own, *others, lo), route_interface=route, ssh_address=ssh)


def spark(fabric: Mapping[str, str], management: str = "10.0.0.1/24", *, gid: int = 3) -> FabricFacts:
    """A Spark whose interfaces named in ``fabric`` have a link (and, unless empty, an address); the others are down."""
    ports = tuple(
        port(
            hca, netdev, *([fabric[netdev]] if fabric.get(netdev) else []), state="ACTIVE" if netdev in fabric else "DOWN", pci=pci, gid=gid
        )
        for hca, netdev, pci in SPARK_PORTS
    )
    return network(ports, interface("enP7s7", management), interface("docker0", "172.17.0.1/16", virtual=True), route="enP7s7")
