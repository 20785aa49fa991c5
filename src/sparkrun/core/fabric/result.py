"""What is decided about the wiring between hosts, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sparkrun.core.fabric.facts import FabricPort

Topology = Literal["none", "direct", "switch", "ring", "mesh"]
"""``direct``: two hosts; ``switch``: every port used reaches every other host; ``ring``: each port reaches one neighbour, the links
close a circle; ``mesh``: as a ring, with a link between any two hosts; ``none``: no fabric that joins all hosts."""


class FabricOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user, the cluster and the resolver say.

    ``addresses`` are those the cluster uses for hosts that are given by name. ``fabric_interfaces`` are globs over interface names;
    none allows all. ``topology`` is what the cluster file claims. ``bootstrap_over_fabric`` is for hosts that cannot reach each other
    on the management network.
    """

    addresses: Mapping[str, str] = {}
    management_interface: str | None = None
    fabric_interfaces: tuple[str, ...] = ()
    topology: str | None = None
    bootstrap_over_fabric: bool = False


class UsedPort(msgspec.Struct, frozen=True):
    """A port that carries the collectives, its own address (empty on InfiniBand), and the hosts that it reaches."""

    port: FabricPort
    address: str
    prefix: int
    reaches: tuple[str, ...]

    @property
    def gid_index(self) -> int | None:
        """The index of the RoCE v2 GID of its address."""
        return self.port.gid_index(self.address)


class UnusedPort(msgspec.Struct, frozen=True):
    """A port that is left alone, and the reason in words."""

    port: FabricPort
    reason: str


class Link(msgspec.Struct, frozen=True):
    """Two ports whose addresses lie in one subnet."""

    host: str
    port: str
    netdev: str
    peer: str
    peer_port: str
    peer_netdev: str
    subnet: str


class HostFabric(msgspec.Struct, frozen=True, kw_only=True):
    """One host's part: all that its environment is made of. Nothing in it is of another host but the names in ``reaches``."""

    host: str
    topology: Topology = "none"
    used: tuple[UsedPort, ...] = ()
    unused: tuple[UnusedPort, ...] = ()
    bootstrap_interface: str | None = None
    node_address: str | None = None
    """The address that other nodes are told for this one; never loopback."""
    interface_names: tuple[str, ...] = ()
    """Every interface of the host: a list of prefixes must not catch one by accident."""
    crossed_rails: bool = False
    """Whether the n-th port here does not reach the n-th port elsewhere."""
    neighbours_only: bool = False
    """Whether some hosts can only be reached through others."""
    has_idle_rdma: bool = False
    """Whether RDMA ports are up that a library could pick although they do not lead to all peers."""
    has_accelerator_network: bool = False
    """Whether the accelerators' own network ports (Gaudi) are up."""
    notes: tuple[str, ...] = ()

    @property
    def is_networked(self) -> bool:
        """Whether anything is known that other nodes, or this one's engines, need to be told."""
        return bool(self.used or self.bootstrap_interface or self.node_address)

    @property
    def is_linked_pairwise(self) -> bool:
        """Whether each port reaches one neighbour, so that ports must be chosen by the peer's subnet."""
        return self.topology in ("ring", "mesh")

    @property
    def gid_index(self) -> int | None:
        """The GID index that all used ports share, ``None`` when they do not: then each port's own has to be found by the library."""
        found = {used.gid_index for used in self.used}
        return found.pop() if len(found) == 1 else None

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The interfaces of the used ports."""
        return tuple(dict.fromkeys(used.port.netdev for used in self.used if used.port.netdev))


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """The wiring between the hosts of a launch: what is used, what not, and why; hosts in the given order."""

    topology: Topology
    hosts: dict[str, HostFabric]
    links: tuple[Link, ...] = ()
    ring_order: tuple[str, ...] = ()
    """In a ring: the hosts from neighbour to neighbour, the first given one first."""
    notes: tuple[str, ...] = ()
    """About the wiring as a whole; each host has its own besides."""

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Every note, the wiring's first, then host by host."""
        return (*self.notes, *(note for host in self.hosts.values() for note in host.notes))

    def addresses_towards(self, head: str) -> dict[str, str]:
        """By host, its first address on the fabric at which the head reaches it."""
        found = {name: [used.address for used in host.used if used.address and head in used.reaches] for name, host in self.hosts.items()}
        return {name: addresses[0] for name, addresses in found.items() if addresses}

    @property
    def hosts_without_address(self) -> tuple[str, ...]:
        """Hosts of which no address is known that other nodes could reach them at."""
        return tuple(name for name, host in self.hosts.items() if host.node_address is None) if len(self.hosts) > 1 else ()
