"""From the answers of ``scripts/fabric.sh`` to facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkrun.core.fabric.facts import FabricFacts, FabricPort, Gid, Interface, InterfaceAddress
from sparkrun.utils.shell import Section

_NUMBER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_GID_KEY = re.compile(r"GID_([0-9]+)")
_MBIT_PER_GBIT = 1000


def parse_fabric(section: Section) -> FabricFacts:
    """The facts in one host's FABRIC section. Never fails: what is missing or makes no sense is left out."""
    answers = dict(section.pairs)
    return FabricFacts(
        observed="FABRIC_PORT_COUNT" in answers,
        ports=tuple(sorted((_port(part) for part in _parts(answers, "FABRIC_PORT", "HCA")), key=port_order)),
        interfaces=tuple(_interface(part) for part in _parts(answers, "FABRIC_IF", "NAME")),
        route_interface=answers.get("FABRIC_ROUTE_IF") or None,
        ssh_address=canonical_address(answers.get("FABRIC_SSH_ADDRESS", "")),
        has_ip_tool=answers.get("FABRIC_IP") != "0",
    )


def port_order(port: FabricPort) -> tuple[bool, str, tuple[tuple[int, str], ...], int]:
    """By PCI name, so that rails stand in the same order on all hosts; devices that are not on PCI come last, by name."""
    return (not port.pci, port.pci, _natural(port.hca), port.port)


def _parts(answers: dict[str, str], prefix: str, key: str) -> Iterator[dict[str, str]]:
    """The numbered parts under a prefix, without those that do not tell their ``key``."""
    count = _number(answers.get(f"{prefix}_COUNT")) or 0
    parts: list[dict[str, str]] = [{} for _ in range(min(count, len(answers)))]
    for answer, value in answers.items():
        index, _, name = answer.removeprefix(f"{prefix}_").partition("_")
        if answer.startswith(f"{prefix}_") and index.isdecimal() and int(index) < len(parts):
            parts[int(index)][name] = value
    return (part for part in parts if part.get(key))


def _port(part: dict[str, str]) -> FabricPort:
    return FabricPort(
        hca=part["HCA"],
        port=_number(part.get("PORT")) or 1,
        state=part.get("STATE", ""),
        link_layer=part.get("LINK") or "Ethernet",
        netdev=part.get("NETDEV", ""),
        addresses=_addresses(part.get("ADDRESSES", "")),
        speed_gbps=_decimal(part.get("RATE")),
        mtu=_number(part.get("MTU")),
        gids=_gids(part),
        pci=part.get("PCI", ""),
        numa=_numa(part.get("NUMA")),
    )


def _gids(part: dict[str, str]) -> dict[int, Gid]:
    found: dict[int, Gid] = {}
    for key, value in part.items():
        if match := _GID_KEY.fullmatch(key):
            kind, address, netdev = [*value.split("|"), "", ""][:3]
            found[int(match[1])] = Gid(kind, address, netdev)
    return found


def _interface(part: dict[str, str]) -> Interface:
    speed_mbps = _number(part.get("SPEED_MBPS"))
    return Interface(
        name=part["NAME"],
        addresses=_addresses(part.get("ADDRESSES", "")),
        is_up=part.get("UP") != "0",
        is_wireless=part.get("WIRELESS") == "1",
        is_virtual=part.get("VIRTUAL") == "1",
        driver=part.get("DRIVER", ""),
        mtu=_number(part.get("MTU")),
        # The kernel says -1 for a link that is down.
        speed_gbps=speed_mbps / _MBIT_PER_GBIT if speed_mbps and speed_mbps > 0 else None,
    )


def canonical_address(text: str) -> str | None:
    """The one way to write an address, IPv4 inside IPv6 as IPv4; ``None`` for what is none."""
    import ipaddress  # loads slowly, and most commands look at no network

    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _addresses(text: str) -> tuple[InterfaceAddress, ...]:
    found = (_address(word) for word in text.split())
    return tuple(dict.fromkeys(each for each in found if each))


def _address(word: str) -> InterfaceAddress | None:
    text, _, prefix = word.partition("/")
    address = canonical_address(text)
    if address is None or not prefix.isdecimal() or int(prefix) > (128 if ":" in address else 32):
        return None
    return InterfaceAddress(address, int(prefix))


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _numa(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None or number < 0 else number


def _decimal(text: str | None) -> float | None:
    match = _DECIMAL.match(text or "")
    return float(match[0]) if match else None


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", text))
