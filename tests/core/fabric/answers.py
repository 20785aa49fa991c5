"""A network as a host's script tells of it."""

from __future__ import annotations

from collections.abc import Iterable

from sparkrun.core.fabric import FabricFacts, FabricPort, Interface, InterfaceAddress


def answers_of(facts: FabricFacts) -> dict[str, str]:
    """The answers from which ``parse_fabric`` reads these facts."""
    answers = {
        "FABRIC_IP": "1" if facts.has_ip_tool else "0",
        "FABRIC_IF_COUNT": str(len(facts.interfaces)),
        "FABRIC_PORT_COUNT": str(len(facts.ports)),
        "FABRIC_ROUTE_IF": facts.route_interface or "",
        "FABRIC_SSH_ADDRESS": facts.ssh_address or "",
    }
    for n, interface in enumerate(facts.interfaces):
        answers |= {f"FABRIC_IF_{n}_{key}": value for key, value in _interface(interface).items()}
    for n, port in enumerate(facts.ports):
        answers |= {f"FABRIC_PORT_{n}_{key}": value for key, value in _port(port).items()}
    return answers


def _interface(interface: Interface) -> dict[str, str]:
    return {
        "NAME": interface.name,
        "UP": str(int(interface.is_up)),
        "WIRELESS": str(int(interface.is_wireless)),
        "VIRTUAL": str(int(interface.is_virtual)),
        "DRIVER": interface.driver,
        "ADDRESSES": _addresses(interface.addresses),
    }


def _port(port: FabricPort) -> dict[str, str]:
    told = {
        "HCA": port.hca,
        "PORT": str(port.port),
        "STATE": port.state,
        "LINK": port.link_layer,
        "RATE": f"{port.speed_gbps:g} Gb/sec" if port.speed_gbps else "",
        "PCI": port.pci,
        "NETDEV": port.netdev,
        "ADDRESSES": _addresses(port.addresses),
    }
    return {**told, **{f"GID_{index}": f"{gid.type}|{gid.address}|{gid.netdev}" for index, gid in port.gids.items()}}


def _addresses(addresses: Iterable[InterfaceAddress]) -> str:
    return " ".join(str(each) for each in addresses)
