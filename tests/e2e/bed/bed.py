"""Hosts come up and go down."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.bed.host import Host
from tests.e2e.bed.images import ensure_archive
from tests.e2e.bed.machine import Cgroup, Process
from tests.e2e.bed.needs import why_not
from tests.e2e.bed.network import disconnect, free_network
from tests.e2e.bed.parts import HostParts
from tests.e2e.bed.plan import BedError, BedPlan, HostPlan, Options, plan_bed
from tests.e2e.bed.start import start
from tests.e2e.bed.state import FOLDER, IMAGES, State, load_state, load_trace, locked, run_folder, save_state


class Bed:
    """All hosts that are up."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.plan = plan_bed(state.options, state.network)
        self.hosts = tuple(Host(_parts(state, self.plan, host)) for host in self.plan.hosts)

    def __getitem__(self, name: str) -> Host:
        """A host by its name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise BedError(f"no host {name}: {', '.join(host.name for host in self.hosts)}")

    @property
    def options(self) -> Options:
        """What it was asked for."""
        return self._state.options

    @property
    def ssh_config(self) -> Path:
        """For ``ssh -F``: reaches every host by name or by management address."""
        return self._state.run / "ssh_config"

    @property
    def config_yaml(self) -> str:
        """The text of a sparkrun ``config.yaml`` that reaches the hosts."""
        return f"ssh: {{options: [-F, {self.ssh_config}]}}\n"

    def load(self, image: str, *hosts: Host) -> None:
        """Images (``engines``, ``llama``) for some of the hosts, or all."""
        archive = ensure_archive(IMAGES, image)
        self._on_all(lambda host: host.load(archive), hosts or tuple(host for host in self.hosts if host.plan.docker))

    def restore(self) -> None:
        """No fault, no container: as hosts are when they have come up."""
        self._on_all(lambda host: host.restore())

    def wait_ready(self) -> None:
        """Until every host answers."""
        self._on_all(lambda host: host.wait_ready())

    def _on_all(self, work: Callable[[Host], None], hosts: tuple[Host, ...] = ()) -> None:
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(work, hosts or self.hosts))


def up(options: Options, owner: Process | None = None, folder: Path = FOLDER) -> Bed:
    """Hosts that answer over ssh and docker, with their images. Raises ``BedError`` when there can be none, or are some already."""
    if reason := why_not():
        raise BedError(reason)
    with locked(folder):
        _make_way(folder)
        state = State(folder=str(folder), options=options, network=free_network(), name=f"bed{uuid.uuid4().hex[:8]}", owner=owner)
        plan = plan_bed(options, state.network)
        save_state(state)
        try:
            bed = Bed(start(state, plan))
            bed.wait_ready()
            for image in options.images:
                bed.load(image)
        except BaseException:
            _remove(folder)
            raise
    return bed


def down(folder: Path = FOLDER) -> None:
    """Nothing is left, whatever state the bed is in. Without one nothing happens."""
    with locked(folder):
        _remove(folder)


def current(folder: Path = FOLDER) -> Bed:
    """The bed that is up. Raises ``BedError`` without one."""
    state = load_state(folder)
    if state is None or not state.alive:
        raise BedError("no bed is up: python -m tests.e2e.bed up 2")
    return Bed(state)


def _make_way(folder: Path) -> None:
    """Remove a bed that is nobody's any more."""
    state = load_state(folder)
    if state and state.wanted:
        raise BedError("a bed is up already: python -m tests.e2e.bed down")
    _remove(folder)


def _remove(folder: Path) -> None:
    """Every process first: mounts, disks and namespaces are theirs, and go with them."""
    if trace := load_trace(folder):
        Cgroup(trace.cgroup).end()
        disconnect(trace.name)
    shutil.rmtree(run_folder(folder), ignore_errors=True)


def _parts(state: State, plan: BedPlan, host: HostPlan) -> HostParts:
    return HostParts(
        bed=plan,
        plan=host,
        folder=state.run / host.name,
        cgroup=Cgroup(f"{state.cgroup}/{host.name}"),
        processes=state.processes,
    )
