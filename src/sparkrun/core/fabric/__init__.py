"""The network between hosts: what each reports, and which ports, interfaces and addresses a launch uses."""

from sparkrun.core.fabric.facts import FabricFacts, FabricPort, Gid, Interface, InterfaceAddress
from sparkrun.core.fabric.parse import parse_fabric
from sparkrun.core.fabric.result import Fabric, FabricOptions, HostFabric, Link, Topology, UnusedPort, UsedPort
from sparkrun.core.fabric.select import select_fabric

__all__ = [
    "Fabric",
    "FabricFacts",
    "FabricOptions",
    "FabricPort",
    "Gid",
    "HostFabric",
    "Interface",
    "InterfaceAddress",
    "Link",
    "Topology",
    "UnusedPort",
    "UsedPort",
    "parse_fabric",
    "select_fabric",
]
