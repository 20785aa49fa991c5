"""Cables between hosts: a namespace without addresses of its own holds the bridges, and the far end of every interface."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.e2e.bed.machine import Process, enter_words, ip_batch, require, run, wait_until
from tests.e2e.bed.plan import MGMT_MTU, SWITCH, BedPlan, HostPlan, Port

NETWORKS = tuple(f"10.77.{number}" for number in range(256))
ROUTER_OCTET = 254
# A router that says of every address outside that it cannot be reached, every time, so that whoever asks for one need not wait long.
ROUTER = """
set -e
cd /proc/sys/net
echo 1 >ipv4/ip_forward
echo 0 >ipv4/icmp_ratelimit
echo 1 >ipv6/conf/all/disable_ipv6
"""


def free_network() -> str:
    """A management network that this machine has no part in. Any one of them: ssh may still hold connections to the hosts of the last."""
    taken = {entry["local"].rpartition(".")[0] for link in json.loads(require("ip", "-j", "-4", "addr")) for entry in link["addr_info"]}
    return random.choice([network for network in NETWORKS if network not in taken])


class Control(NamedTuple):
    """This machine's interface on the management network, and any process in its own network namespace."""

    interface: str
    pid: int


def connect(plan: BedPlan, processes: Mapping[int, Process], control: Control) -> None:
    """Lay every cable. ``processes`` holds the first process of every host by index, and the switch's."""
    switch = processes[SWITCH]
    require(*enter_words(switch.pid, "net"), "/bin/sh", "-c", ROUTER)
    ip_batch(switch.pid, _switch_lines(plan, processes, control))
    for host in plan.hosts:
        ip_batch(processes[host.index].pid, _host_lines(plan, host))
    ip_batch(control.pid, (f"addr add {plan.control_address}/24 dev {control.interface}", f"link set dev {control.interface} up"))


def disconnect(interface: str) -> None:
    """Take back this machine's interface; everything else goes with the namespaces."""
    run("ip", "link", "del", interface)
    wait_until(lambda: run("ip", "link", "show", interface).code != 0, f"the end of interface {interface}")


def unplug(switch: Process, ports: Iterable[Port]) -> None:
    """Pull cables: the host sees no carrier."""
    ip_batch(switch.pid, (f"link set dev {port.plug} down" for port in ports))


def plug_in(switch: Process, ports: Iterable[Port]) -> None:
    """Put cables back."""
    ip_batch(switch.pid, (f"link set dev {port.plug} up" for port in ports))


def slow_down(switch: Process, host: Process, ports: Iterable[Port], mbit: float) -> None:
    """Limit each interface to ``mbit`` Mbit/s, both ways."""
    shape = f"root tbf rate {mbit}mbit burst 32kb latency 400ms"
    for process, device in _both_ends(switch, host, ports):
        require(*enter_words(process.pid, "net"), "tc", "qdisc", "replace", "dev", device, *shape.split())


def speed_up(switch: Process, host: Process, ports: Iterable[Port]) -> None:
    """Lift the limits, if there are any."""
    for process, device in _both_ends(switch, host, ports):
        run(*enter_words(process.pid, "net"), "tc", "qdisc", "del", "dev", device, "root")


def _both_ends(switch: Process, host: Process, ports: Iterable[Port]) -> Iterator[tuple[Process, str]]:
    for port in ports:
        yield switch, port.plug
        yield host, port.netdev


def _switch_lines(plan: BedPlan, processes: Mapping[int, Process], control: Control) -> Iterator[str]:
    for cable, mtu in plan.cables.items():
        yield f"link add name {cable} mtu {mtu} type bridge forward_delay 0"
        yield f"link set dev {cable} up"
    yield f"addr add {plan.network}.{ROUTER_OCTET}/24 dev mgmt"
    yield "route add unreachable default"
    yield _pair("control", control.interface, MGMT_MTU, control.pid)
    yield "link set dev control master mgmt up"
    for port in (port for host in plan.hosts for port in host.ports):
        yield _pair(port.plug, port.netdev, port.mtu, processes[port.host].pid, port.mac)
        if port.cable:
            yield f"link set dev {port.plug} master {port.cable} up"


def _pair(plug: str, interface: str, mtu: int, pid: int, mac: str = "") -> str:
    return f"link add name {plug} mtu {mtu} type veth peer name {interface} mtu {mtu}{f' address {mac}' if mac else ''} netns {pid}"


def _host_lines(plan: BedPlan, host: HostPlan) -> Iterator[str]:
    yield "link set dev lo up"
    for port in host.ports:
        if port.address:
            yield f"addr add {port.address} dev {port.netdev}"
        yield f"link set dev {port.netdev} up"
    yield f"route add default via {plan.network}.{ROUTER_OCTET}"
