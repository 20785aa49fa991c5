"""What one host's network looks like: its RDMA ports, its interfaces, and how it is reached. Every value belongs to that host alone."""

from __future__ import annotations

import msgspec

ROCE_V2 = "RoCE v2"
INFINIBAND = "InfiniBand"
_MAPPED = "0000:0000:0000:0000:0000:ffff:"


class InterfaceAddress(msgspec.Struct, frozen=True):
    """An address and the length of its subnet's prefix in bits; printed as ``10.0.0.1/24``."""

    address: str
    prefix: int

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"

    @property
    def is_v4(self) -> bool:
        """Whether it is an IPv4 address."""
        return ":" not in self.address

    @property
    def is_loopback(self) -> bool:
        """Whether it means this host wherever it is used."""
        return self.address.startswith("127.") or self.address == "::1"

    @property
    def is_link_local(self) -> bool:
        """Whether it says nothing about who is at the other end (169.254.0.0/16, fe80::/10)."""
        return self.address.startswith(("169.254.", "fe8", "fe9", "fea", "feb"))

    @property
    def is_global(self) -> bool:
        """Whether other hosts can be told to use it."""
        return not self.is_loopback and not self.is_link_local


class Gid(msgspec.Struct, frozen=True):
    """An entry of a port's GID table: how it travels, its 128 bits as the kernel prints them, and the interface it stands for."""

    type: str
    address: str
    netdev: str = ""

    @property
    def ipv4(self) -> str | None:
        """The IPv4 address inside an IPv4-mapped GID."""
        if not self.address.startswith(_MAPPED):
            return None
        digits = self.address.removeprefix(_MAPPED).replace(":", "")
        return ".".join(str(int(digits[at : at + 2], 16)) for at in range(0, 8, 2)) if len(digits) == 8 else None


class FabricPort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One port of one HCA, with the interface and the addresses that belong to this port and no other.

    ``speed_gbps`` is Gbit/s, ``mtu`` bytes, ``gids`` by index; what could not be read is ``None`` or empty.
    """

    hca: str
    port: int = 1
    state: str = ""
    """As sysfs says it: ``ACTIVE``, ``DOWN``, ``INIT`` …"""
    link_layer: str = "Ethernet"
    netdev: str = ""
    addresses: tuple[InterfaceAddress, ...] = ()
    speed_gbps: float | None = None
    mtu: int | None = None
    gids: dict[int, Gid] = {}
    pci: str = ""
    numa: int | None = None

    @property
    def name(self) -> str:
        """The port as UCX writes it."""
        return f"{self.hca}:{self.port}"

    @property
    def label(self) -> str:
        """The port as people know it."""
        return f"{self.hca} port {self.port}" + (f" ({self.netdev})" if self.netdev else "")

    @property
    def is_active(self) -> bool:
        """Whether its link is up."""
        return self.state == "ACTIVE"

    @property
    def is_infiniband(self) -> bool:
        """Whether it speaks InfiniBand itself, which needs no address."""
        return self.link_layer == INFINIBAND

    def gid_index(self, address: str) -> int | None:
        """The index of the RoCE v2 GID of an IPv4 address, ``None`` when there is none."""
        return next((index for index, gid in sorted(self.gids.items()) if gid.type == ROCE_V2 and gid.ipv4 == address), None)


class Interface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One network interface. Virtual means that no device stands behind it: bridges, tunnels, ``lo``."""

    name: str
    addresses: tuple[InterfaceAddress, ...] = ()
    is_up: bool = True
    is_wireless: bool = False
    is_virtual: bool = False
    driver: str = ""
    mtu: int | None = None
    speed_gbps: float | None = None

    @property
    def main_address(self) -> str | None:
        """The address that other hosts are told, IPv4 before IPv6; ``None`` when it has none."""
        usable = [each for each in self.addresses if each.is_global]
        return next((each.address for each in sorted(usable, key=lambda each: not each.is_v4)), None)


class FabricFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The network of one host. ``observed`` is false where nobody looked: then nothing is absent, only unknown."""

    observed: bool = False
    ports: tuple[FabricPort, ...] = ()
    """In the order of their PCI names."""
    interfaces: tuple[Interface, ...] = ()
    route_interface: str | None = None
    """The interface of the default route."""
    ssh_address: str | None = None
    """The address of this host that the ssh client came to."""
    has_ip_tool: bool = True

    @property
    def management_interface(self) -> str | None:
        """The default route's interface, else the one that ssh came in by, else the first wired one with an address that is no fabric."""
        if self.route_interface:
            return self.route_interface
        owner = self.owner_of(self.ssh_address) if self.ssh_address else None
        if owner and owner.name != "lo":
            return owner.name
        fabric = {port.netdev for port in self.ports}
        return next((each.name for each in self.interfaces if _is_wired(each) and each.name not in fabric and _has_ipv4(each)), None)

    @property
    def management_addresses(self) -> tuple[InterfaceAddress, ...]:
        """The addresses of the management interface."""
        found = self.interface(self.management_interface)
        return found.addresses if found else ()

    @property
    def addresses(self) -> dict[str, tuple[InterfaceAddress, ...]]:
        """The addresses of every interface that has one, by its name."""
        return {each.name: each.addresses for each in self.interfaces if each.addresses}

    @property
    def active_ports(self) -> tuple[FabricPort, ...]:
        """The ports whose link is up."""
        return tuple(port for port in self.ports if port.is_active)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """``rdma:roce-v2`` or ``rdma:infiniband`` where a port whose link is up can do it."""
        found = ("rdma:infiniband" if port.is_infiniband else "rdma:roce-v2" for port in self.active_ports if _does_rdma(port))
        return tuple(dict.fromkeys(found))

    def interface(self, name: str | None) -> Interface | None:
        """An interface by its name."""
        return next((each for each in self.interfaces if each.name == name), None)

    def owner_of(self, address: str) -> Interface | None:
        """The interface that has an address."""
        return next((each for each in self.interfaces if any(own.address == address for own in each.addresses)), None)


def _is_wired(interface: Interface) -> bool:
    return interface.is_up and not interface.is_virtual and not interface.is_wireless


def _has_ipv4(interface: Interface) -> bool:
    return any(each.is_v4 and each.is_global for each in interface.addresses)


def _does_rdma(port: FabricPort) -> bool:
    return port.is_infiniband or any(gid.type == ROCE_V2 for gid in port.gids.values())
