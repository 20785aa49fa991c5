"""What a bed consists of: hosts, their people, cables and addresses. Decides, touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

MAX_HOSTS = 9
SWITCH = 0
"""The switch's place among processes by host; hosts count from 1."""
DOCKER_PLACE = "/usr/local/lib/docker"
"""Where hosts see the newer docker."""
MGMT_NETDEV = "enP7s7"
MGMT_MTU, FABRIC_MTU = 1500, 9000
MGMT_OCTET = 10
"""Host k has address ``.10+k``, so that ``.1`` is this machine and ``.254`` the router that leads nowhere."""


class BedError(Exception):
    """The bed cannot do what was asked; the text says why."""


class Shape(StrEnum):
    """How the fabric ports of the hosts are cabled."""

    NONE = "none"
    DIRECT = "direct"
    SWITCH = "switch"
    RING = "ring"


class Accelerator(StrEnum):
    """What a host pretends to compute with."""

    NONE = "none"
    NVIDIA = "nvidia"
    AMD = "amd"
    GAUDI = "gaudi"


class Docker(StrEnum):
    """Whose docker a host has."""

    NONE = ""
    INSTALLED = "installed"
    """That of this machine."""
    NEWER = "newer"
    """That of ``newer_docker.py``."""
    CONTAINERD = "containerd"
    """The newer one, with containerd's image store."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` is asked for. Mappings and lists go by host name, such as ``spark-2``."""

    count: int = 2
    shape: Shape | None = None
    """``None``: direct for two hosts, a switch for any other number."""
    accelerators: Mapping[str, Accelerator] = {}
    """NVIDIA where nothing is said."""
    dockers: Mapping[str, Docker] = {}
    """This machine's where nothing is said."""
    images: tuple[str, ...] = ("engines",)
    """What each host's docker has from the start; see ``images.ARCHIVES``."""
    binds: tuple[str, ...] = ()
    """Folders and files of this machine that every host sees at the same place, read-only."""


class Person(msgspec.Struct, frozen=True):
    """Who logs in on a host, and where their things are."""

    name: str
    uid: int
    home: str
    hf_home: str = ""
    """Where ``HF_HOME`` points for everybody on that host; nothing is set when empty."""


class Function(msgspec.Struct, frozen=True):
    """One PCIe function of a Spark's ConnectX-7: two cages, each of which shows as two functions."""

    netdev: str
    hca: str
    pci: str
    cage: int
    lane: int


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """An interface of a host."""

    host: int
    netdev: str
    mac: str
    mtu: int
    cable: str | None
    """``None``: nothing is plugged in."""
    address: str = ""
    """With its prefix, such as ``192.168.177.11/24``."""
    function: Function | None = None
    """``None`` for management."""

    @property
    def plug(self) -> str:
        """Name of the other end, which stays in the namespace of the switch."""
        return f"{self.host}-{self.netdev}"

    @property
    def link(self) -> str:
        """``mgmt`` or ``fabric``."""
        return "fabric" if self.function else "mgmt"


class HostPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One host."""

    index: int
    person: Person
    ports: tuple[Port, ...]
    accelerator: Accelerator
    docker: Docker

    @property
    def name(self) -> str:
        return f"spark-{self.index}"

    @property
    def address(self) -> str:
        """On the management network."""
        return self.ports[0].address.partition("/")[0]

    @property
    def fabric_addresses(self) -> tuple[str, ...]:
        """One for each cabled fabric interface."""
        return tuple(port.address.partition("/")[0] for port in self.ports if port.function and port.address)


class BedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts. ``network`` is the management network without its last octet, such as ``10.77.0``."""

    network: str
    hosts: tuple[HostPlan, ...]

    @property
    def control_address(self) -> str:
        """This machine's address on the management network."""
        return f"{self.network}.1"

    @property
    def cables(self) -> Mapping[str, int]:
        """Name and MTU of each."""
        return {port.cable: port.mtu for host in self.hosts for port in host.ports if port.cable}

    def unplugged_with(self, port: Port) -> tuple[Port, ...]:
        """What loses its carrier when ``port`` is unplugged: with a cable from host to host also the other end."""
        ends = tuple(other for host in self.hosts for other in host.ports if other.cable == port.cable)
        return ends if port.function and port.cable and len(ends) == 2 and _between_hosts(port.cable) else (port,)


PEOPLE = (
    Person("spark", 1000, "/home/spark"),
    Person("nvidia", 1001, "/home/nvidia"),
    Person("ada", 1205, "/srv/people/ada"),
    Person("lab", 2000, "/data/users/lab", "/data/huggingface"),
    Person("spark", 1500, "/home/spark"),
    Person("grace", 1000, "/home/grace"),
    Person("nvidia", 3001, "/srv/nvidia"),
    Person("lab", 1000, "/home/lab"),
    Person("noor", 1100, "/home/noor"),
)

FUNCTIONS = (
    Function("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0", 0, 0),
    Function("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0", 0, 1),
    Function("enp1s0f1np1", "rocep1s0f1", "0000:01:00.1", 1, 0),
    Function("enP2p1s0f1np1", "roceP2p1s0f1", "0002:01:00.1", 1, 1),
)


def plan_bed(options: Options, network: str) -> BedPlan:
    """The hosts of a bed. Raises ``BedError`` for a number or a name that cannot be."""
    shape = options.shape or (Shape.DIRECT if options.count == 2 else Shape.SWITCH)
    _check(options, shape)
    return BedPlan(network=network, hosts=tuple(_plan_host(options, shape, network, index) for index in range(1, options.count + 1)))


def _check(options: Options, shape: Shape) -> None:
    if not 1 <= options.count <= MAX_HOSTS:
        raise BedError(f"a bed has 1 to {MAX_HOSTS} hosts, not {options.count}")
    wanted = {Shape.DIRECT: 2, Shape.RING: 3}.get(shape, options.count)
    if options.count != wanted:
        raise BedError(f"shape {shape.value} is for {wanted} hosts, {options.count} are wanted")
    names = {f"spark-{index}" for index in range(1, options.count + 1)}
    for name in (*options.accelerators, *options.dockers):
        if name not in names:
            raise BedError(f"no host {name} in this bed: {', '.join(sorted(names))}")


def _plan_host(options: Options, shape: Shape, network: str, index: int) -> HostPlan:
    name = f"spark-{index}"
    management = Port(
        host=index,
        netdev=MGMT_NETDEV,
        mac=_mac(index, 0),
        mtu=MGMT_MTU,
        cable="mgmt",
        address=f"{network}.{MGMT_OCTET + index}/24",
    )
    fabric = () if shape is Shape.NONE else tuple(_fabric_ports(shape, index))
    return HostPlan(
        index=index,
        person=PEOPLE[index - 1],
        ports=(management, *fabric),
        accelerator=options.accelerators.get(name, Accelerator.NVIDIA),
        docker=options.dockers.get(name, Docker.INSTALLED),
    )


def _fabric_ports(shape: Shape, index: int) -> Iterator[Port]:
    for number, function in enumerate(FUNCTIONS, 1):
        cable, address = _plugged(shape, index, function)
        yield Port(
            host=index, netdev=function.netdev, mac=_mac(index, number), mtu=FABRIC_MTU, cable=cable, address=address, function=function
        )


def _plugged(shape: Shape, index: int, function: Function) -> tuple[str | None, str]:
    """Cable and address. A ring has its own two networks for each link; else the first cage of every host is on the same two."""
    if shape is Shape.RING:
        link = (index - 1 + (2 if function.cage else 0)) % 3
        return f"ring{link}-{function.lane}", f"192.168.{180 + 2 * link + function.lane}.{1 + function.cage}/24"
    if function.cage:
        return None, ""
    return f"{shape.value}-{function.lane}", f"192.168.{177 + function.lane}.{MGMT_OCTET + index}/24"


def _mac(index: int, number: int) -> str:
    return f"4c:bb:47:{index:02x}:{number:02x}:01"


def _between_hosts(cable: str) -> bool:
    return cable.startswith(("direct", "ring"))
