"""What goes wrong with hosts, and how it is undone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from tests.e2e.bed import hardware
from tests.e2e.bed.init import DISK
from tests.e2e.bed.machine import wait_until
from tests.e2e.bed.network import plug_in, slow_down, speed_up, unplug
from tests.e2e.bed.parts import READY_TIMEOUT_S, HostParts
from tests.e2e.bed.plan import Accelerator, BedError, Port

SLOW_MBIT = 20.0
SPARE_BYTES = 256 * 1024
"""By how much a disk is left larger than what is on it: what is written meanwhile must not make that fail."""
BALLAST = ".disk/full"


def inject(host: HostParts, kind: str, value: str = "") -> None:
    """Break or mend a host; see ``FAULTS``. Raises ``BedError`` for another kind, and when the fault does not come about."""
    if kind not in FAULTS:
        raise BedError(f"no fault '{kind}': {', '.join(FAULTS)}")
    FAULTS[kind](host, value)


def use_accelerator(host: HostParts, accelerator: Accelerator) -> None:
    """Let a host pretend to have another one. Its docker starts anew, since it looks for NVIDIA's hook only then."""
    hardware.remove(host.process.root, hardware.TOPS)
    hardware.install(host.process.root, hardware.ACCELERATORS[accelerator])
    if host.plan.docker:
        kill_dockerd(host)
        start_dockerd(host)


def cut(host: HostParts, link: str = "") -> None:
    """Pull the cables of a link, or all."""
    ports = _lost_with(host, _cabled(host, link))
    unplug(host.switch, ports)
    _tell(host, ports, plugged=False)


def heal(host: HostParts, _: str = "") -> None:
    """Undo everything."""
    thaw(host)
    speed_up(host.switch, host.process, _cabled(host))
    ports = _lost_with(host, _cabled(host))
    plug_in(host.switch, ports)
    _tell(host, ports, plugged=True)
    _resize(host, DISK)
    host.at(BALLAST).unlink(missing_ok=True)
    if host.plan.docker and not host.docker_answers():
        start_dockerd(host)
    host.wait_ready()


def kill_dockerd(host: HostParts, _: str = "") -> None:
    """Containers go on running."""
    if not host.cgroup.kill("dockerd"):
        raise BedError(f"no dockerd runs on {host.plan.name}")
    wait_until(lambda: not host.docker_answers(), f"the end of dockerd on {host.plan.name}")


def start_dockerd(host: HostParts) -> None:
    """Asks the host's first process again and again: it may not have noticed the end of the last one."""

    def started() -> bool:
        host.process.signal(signal.SIGUSR1)
        return host.docker_answers()

    wait_until(started, f"docker on {host.plan.name} answers", timeout_s=READY_TIMEOUT_S)


def freeze(host: HostParts, _: str = "") -> None:
    """Every process stops. Its kernel still takes connections."""
    host.cgroup.freeze(frozen=True)


def thaw(host: HostParts, _: str = "") -> None:
    """Every process goes on."""
    host.cgroup.freeze(frozen=False)


def slow(host: HostParts, mbit: str = "") -> None:
    """Limit every interface, both ways."""
    slow_down(host.switch, host.process, _cabled(host), float(mbit or SLOW_MBIT))


def full(host: HostParts, _: str = "") -> None:
    """Leave no room on its disk. That is in memory: it is made as small as what is on it, and the rest is filled."""
    disk = os.statvfs(host.process.root)
    _resize(host, str((disk.f_blocks - disk.f_bfree) * disk.f_frsize + SPARE_BYTES))
    try:
        with host.at(BALLAST).open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        return


FAULTS: dict[str, Callable[[HostParts, str], None]] = {
    "cut": cut,
    "heal": heal,
    "kill-dockerd": kill_dockerd,
    "freeze": freeze,
    "thaw": thaw,
    "slow": slow,
    "full": full,
}
"""``cut`` takes a link (mgmt, fabric), ``slow`` a rate in Mbit/s; both are optional."""


def _cabled(host: HostParts, link: str = "") -> tuple[Port, ...]:
    if link not in {"", "mgmt", "fabric"}:
        raise BedError(f"no link '{link}': mgmt, fabric")
    return tuple(port for port in host.plan.ports if port.cable and link in {"", port.link})


def _lost_with(host: HostParts, ports: Iterable[Port]) -> tuple[Port, ...]:
    return tuple(other for port in ports for other in host.bed.unplugged_with(port))


def _tell(host: HostParts, ports: Iterable[Port], *, plugged: bool) -> None:
    for port in ports:
        hardware.install(host.processes[port.host].root, hardware.Tree(files=hardware.port_state(port, plugged=plugged)))


def _resize(host: HostParts, size: str) -> None:
    ended = host.inside("mount", "-o", f"remount,size={size}", "/")
    if ended.code:
        raise BedError(f"the disk of {host.plan.name} stays as large as it is: {ended.err.strip()}")
