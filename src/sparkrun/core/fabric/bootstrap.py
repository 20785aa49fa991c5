"""The interface and the address by which the other nodes of a launch know a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sparkrun.core.fabric.facts import FabricFacts, Interface, InterfaceAddress
from sparkrun.core.fabric.parse import canonical_address
from sparkrun.core.fabric.result import FabricOptions

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class Bootstrap(NamedTuple):
    """Where a host's processes meet those of other nodes, and what is worth telling about the choice."""

    interface: str | None = None
    address: str | None = None
    note: str | None = None


class Meeting(NamedTuple):
    """What the choice depends on besides the host's own facts.

    ``peer_addresses`` are the cluster's addresses of the other hosts; ``narrow`` are this host's interfaces that reach only some of
    them; ``fabric_address`` is the interface and address of its first used port.
    """

    options: FabricOptions
    peer_addresses: tuple[str, ...] = ()
    narrow: Mapping[str, tuple[str, ...]] = {}
    fabric_address: tuple[str, str] | None = None


def cluster_address(host: str, options: FabricOptions) -> str | None:
    """The address that the cluster uses for a host, ``None`` when it is given by a name that nobody resolved. May be loopback."""
    name = host_name(host)
    if name in LOOPBACK_NAMES:
        return "127.0.0.1"
    return canonical_address(options.addresses.get(host, "")) or canonical_address(name)


def host_name(host: str) -> str:
    """The name or address in ``user@host:port``."""
    name = host.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def is_loopback(address: str) -> bool:
    """Whether an address means the host that uses it."""
    return address.startswith("127.") or address == "::1"


def choose_bootstrap(host: str, facts: FabricFacts, meeting: Meeting) -> Bootstrap:
    """The pinned interface, else the owner of the cluster's address for the host, else one beside its peers, else the management one."""
    if meeting.options.bootstrap_over_fabric and meeting.fabric_address:
        return Bootstrap(*meeting.fabric_address)
    wanted = cluster_address(host, meeting.options)
    if not facts.observed:
        return Bootstrap(None, wanted if wanted and not is_loopback(wanted) else None)
    pinned = facts.interface(meeting.options.management_interface)
    if pinned and pinned.main_address:
        return Bootstrap(pinned.name, pinned.main_address)
    if wanted and not is_loopback(wanted):
        return _for_address(host, wanted, facts, meeting)
    return _without_address(host, wanted, facts, meeting)


def _for_address(host: str, wanted: str, facts: FabricFacts, meeting: Meeting) -> Bootstrap:
    owner = facts.owner_of(wanted)
    if owner and owner.name not in meeting.narrow:
        return Bootstrap(owner.name, wanted)
    found = _fallback(facts, meeting)
    if owner is None:
        if found is None:
            return Bootstrap(None, wanted, f"{host}: no interface has the address {wanted}, and no other is known")
        return found._replace(
            note=f"{host}: no interface has the address {wanted}; other nodes are given {found.address} ({found.interface})"
        )
    only = f"{host}: {owner.name} ({wanted}) reaches {', '.join(meeting.narrow[owner.name])} only"
    if found is None:
        return Bootstrap(owner.name, wanted, f"{only}, and no other interface has an address")
    return found._replace(note=f"{only}; the nodes meet on {found.interface} ({found.address})")


def _without_address(host: str, wanted: str | None, facts: FabricFacts, meeting: Meeting) -> Bootstrap:
    found = _beside_peers(facts, meeting) or _fallback(facts, meeting) or _last_resort(facts)
    if found is None:
        return Bootstrap(note=f"{host}: no address is known that other nodes can reach")
    if wanted:
        return found._replace(note=f"{host}: {wanted} means this host alone; other nodes are given {found.address} ({found.interface})")
    chosen = facts.interface(found.interface)
    if chosen and chosen.is_wireless:
        hint = "name the host by a wired address, or set mgmt_interface for the cluster"
        return found._replace(note=f"{host}: the nodes meet over Wi-Fi ({found.interface}); {hint}")
    return found


def _beside_peers(facts: FabricFacts, meeting: Meeting) -> Bootstrap | None:
    """The address in whose subnet every known peer lies."""
    peers = [address for address in meeting.peer_addresses if not is_loopback(address)]
    beside = (Bootstrap(each.name, own.address) for each in _candidates(facts, meeting) for own in each.addresses if _holds_all(own, peers))
    return next(beside, None) if peers else None


def _fallback(facts: FabricFacts, meeting: Meeting) -> Bootstrap | None:
    """The management interface; where that is Wi-Fi, the wired one that ssh came in by."""
    usable = {each.name: each for each in _candidates(facts, meeting)}
    management = usable.get(facts.management_interface or "")
    if management is None or management.is_wireless:
        owner = facts.owner_of(facts.ssh_address) if facts.ssh_address else None
        if owner and owner.name in usable and not owner.is_wireless and not owner.is_virtual:
            return Bootstrap(owner.name, facts.ssh_address)
    return Bootstrap(management.name, management.main_address) if management else None


def _last_resort(facts: FabricFacts) -> Bootstrap | None:
    found = (each for each in facts.interfaces if each.is_up and not each.is_virtual and each.main_address)
    return next((Bootstrap(each.name, each.main_address) for each in found), None)


def _candidates(facts: FabricFacts, meeting: Meeting) -> Iterator[Interface]:
    return (each for each in facts.interfaces if each.is_up and each.main_address and each.name not in meeting.narrow)


def _holds_all(own: InterfaceAddress, peers: Sequence[str]) -> bool:
    import ipaddress  # loads slowly, and only a host without an address of its own needs it

    subnet = ipaddress.ip_network(str(own), strict=False)
    return own.is_global and all(address != own.address and ipaddress.ip_address(address) in subnet for address in peers)
