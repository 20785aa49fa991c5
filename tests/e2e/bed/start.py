"""How the hosts of a bed come to run."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import msgspec

from tests.e2e.bed import hardware
from tests.e2e.bed.accounts import Keys, known_hosts, ssh_config, write_accounts
from tests.e2e.bed.machine import Cgroup, Process, Talk, process, start_in
from tests.e2e.bed.network import Control, connect
from tests.e2e.bed.plan import DOCKER_PLACE, SWITCH, BedError, BedPlan, Docker, HostPlan
from tests.e2e.bed.state import NEWER_DOCKER, State, save_state

INIT = Path(__file__).with_name("init.py")
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
SWITCH_WORDS = ("unshare", "--net", "/bin/sh", "-c", "echo $$; exec sleep infinity")


def start(state: State, plan: BedPlan) -> State:
    """Start the switch and every host, with everything in place before the first daemon runs. Their daemons may not answer yet."""
    keys = Keys(Path(state.folder) / "keys")
    keys.ensure(plan)
    (state.run / "known_hosts").write_text(known_hosts(plan, keys))
    (state.run / "ssh_config").write_text(ssh_config(plan, keys, state.run))
    talks = {SWITCH: start_in(Cgroup(state.cgroup).make("switch"), SWITCH_WORDS, state.run / "switch.log")}
    talks.update({host.index: _start_host(state, host) for host in plan.hosts})
    state = msgspec.structs.replace(state, processes={index: _first(state, talk, index) for index, talk in talks.items()})
    save_state(state)
    connect(plan, state.processes, Control(state.name, os.getpid()))
    for host in plan.hosts:
        _furnish(state.processes[host.index].root, host, plan, keys)
    for talk in talks.values():
        _let_go(talk)
    return state


def _start_host(state: State, host: HostPlan) -> Talk:
    folder = state.run / host.name
    for name in ("log", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (folder / "meminfo").write_text(hardware.spark_meminfo(Path("/proc/meminfo").read_text()))
    cgroup = f"{state.cgroup}/{host.name}"
    spec = {"name": host.name, "folder": str(folder), "cgroup": cgroup, "docker": host.docker.value, "binds": _binds(state, host)}
    words = ("unshare", *NAMESPACES, "/usr/bin/python3", "-I", "-S", "-B", INIT, json.dumps(spec))
    return start_in(Cgroup(cgroup).make("init"), words, folder / "init.log")


def _binds(state: State, host: HostPlan) -> dict[str, str]:
    """What the host sees of this machine, by where it sees it."""
    newer = {DOCKER_PLACE: str(NEWER_DOCKER)} if host.docker in (Docker.NEWER, Docker.CONTAINERD) else {}
    return {path: path for path in state.options.binds} | newer


def _first(state: State, talk: Talk, index: int) -> Process:
    """The process that names itself."""
    line = talk.hear.readline()
    if not line:
        log = state.run / (f"spark-{index}/init.log" if index else "switch.log")
        raise BedError(f"{f'spark-{index}' if index else 'the switch'} does not start: {log.read_text().strip()}")
    return process(int(line))


def _furnish(root: Path, host: HostPlan, plan: BedPlan, keys: Keys) -> None:
    for tree in (hardware.runc_tree(), hardware.fabric_tree(host), hardware.ACCELERATORS[host.accelerator]):
        hardware.install(root, tree)
    write_accounts(root, host, plan, keys)


def _let_go(talk: Talk) -> None:
    with talk.hear, talk.say:
        talk.say.write("go\n")
