"""Open MPI's `mpirun` and `orted`: one daemon a host, reached through the rsh agent, which is given a host and one shell command."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from tests.e2e.bed.engine.arguments import EngineError
from tests.e2e.bed.engine.checks import is_own
from tests.e2e.bed.engine.knobs import Knobs
from tests.e2e.bed.engine.record import die, log

WITH_VALUE = ("-H", "--host", "-host", "-np", "-n", "--np", "-N", "--npernode", "-npernode", "--map-by", "--bind-to", "-wdir", "--wdir")


class Run(NamedTuple):
    """What `mpirun` is to do: so many processes on each host, in order."""

    hosts: tuple[str, ...]
    per_host: int
    agent: str
    exported: tuple[str, ...]
    program: tuple[str, ...]
    meeting_port: int
    """Where the ranks meet on the first host."""

    @property
    def size(self) -> int:
        """Of the world."""
        return len(self.hosts) * self.per_host


def mpirun(argv: list[str], knobs: Knobs) -> None:
    """Starts every rank, and ends when one has."""
    run = _parse(argv)
    _refuse_root(argv)
    if not run.program:
        raise EngineError("mpirun was unable to find a program to run")
    own = run.hosts[0]
    with socket.create_server(("", 0), backlog=64) as server:
        port = server.getsockname()[1]
        ranks: list[subprocess.Popen[bytes]] = []
        remote: list[str] = []
        for index, host in enumerate(run.hosts):
            if is_own(host):
                ranks += [subprocess.Popen(run.program, env=_rank_env(run, rank, own)) for rank in _ranks_of(run, index)]
            else:
                command = f"orted --bed-hnp {own}:{port} --bed-host {index}"
                ranks.append(subprocess.Popen([*shlex.split(run.agent), host, command], stdin=subprocess.DEVNULL))
                remote.append(host)
        daemons = _attend(server, run, remote, knobs.join_s)
        _wait(ranks)
        del daemons


def orted(argv: list[str]) -> None:
    """The daemon of one host: asks `mpirun` what to start, and ends with it."""
    told = dict(zip(argv[::2], argv[1::2], strict=True))
    host, _, port = told["--bed-hnp"].rpartition(":")
    try:
        head = socket.create_connection((host, int(port)), 10)
    except OSError as error:
        raise EngineError(f"ORTE was unable to reach mpirun at {host}:{port}: {error}") from None
    head.sendall(f"{told['--bed-host']}\n".encode())
    head.settimeout(None)
    orders = json.loads(head.makefile().readline())
    ranks = [subprocess.Popen(orders["program"], env={**os.environ, **env}) for env in orders["environments"]]

    def watch() -> None:
        while head.recv(64):
            pass
        for rank in ranks:
            rank.kill()
        die("orted: mpirun went away")

    threading.Thread(target=watch, daemon=True).start()
    _wait(ranks)


def _parse(argv: list[str]) -> Run:
    hosts: tuple[str, ...] = ("localhost",)
    agent, per_host = _setting("plm_rsh_agent", "ssh"), int(_setting("rmaps_ppr_n_pernode", "1"))
    exported: list[str] = []
    index = 0
    while index < len(argv) and argv[index].startswith("-"):
        word = argv[index]
        if word in {"--mca", "-mca", "--gmca"}:
            agent = argv[index + 2] if argv[index + 1] == "plm_rsh_agent" else agent
            per_host = int(argv[index + 2]) if argv[index + 1] == "rmaps_ppr_n_pernode" else per_host
            index += 3
        elif word == "-x" or word in WITH_VALUE:
            if word == "-x":
                exported.append(argv[index + 1])
            elif word in {"-H", "--host", "-host"}:
                hosts = tuple(each.partition(":")[0] for each in argv[index + 1].split(","))
            index += 2
        else:
            index += 1
    return Run(hosts, per_host, agent, tuple(exported), tuple(argv[index:]), _free_port())


def _setting(name: str, default: str) -> str:
    """An MCA parameter of the environment."""
    return os.environ.get(f"OMPI_MCA_{name}", default)


def _refuse_root(argv: list[str]) -> None:
    confirmed = all(os.environ.get(name) == "1" for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))
    if os.getuid() == 0 and "--allow-run-as-root" not in argv and not confirmed:
        raise EngineError("mpirun has detected an attempt to run as root. Running as root is *strongly* discouraged")


def _ranks_of(run: Run, host: int) -> range:
    return range(host * run.per_host, (host + 1) * run.per_host)


def _rank_env(run: Run, rank: int, own: str) -> dict[str, str]:
    """The head's environment for its own ranks."""
    return {**os.environ, **_orders(run, rank, own)}


def _orders(run: Run, rank: int, own: str) -> dict[str, str]:
    """What is set for a rank on any host: its place, and what `-x` names."""
    named = (item.partition("=") for item in run.exported)
    exported = {name: value if equals else os.environ[name] for name, equals, value in named if equals or name in os.environ}
    place = {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(run.size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % run.per_host),
    }
    return {**exported, **place, "BED_MPI_MEETING": f"{own}:{run.meeting_port}"}


def _free_port() -> int:
    with socket.create_server(("", 0)) as trial:
        port: int = trial.getsockname()[1]
        return port


def _attend(server: socket.socket, run: Run, remote: list[str], join_s: float) -> list[socket.socket]:
    """Tell each daemon what to start. Their connections have to be kept: a daemon ends when it loses its own."""
    server.settimeout(join_s)
    kept: list[socket.socket] = []
    for _ in remote:
        try:
            daemon, _ = server.accept()
        except TimeoutError:
            raise EngineError(f"ORTE was unable to start daemons on {', '.join(remote)}: {len(kept)} of {len(remote)} came back") from None
        index = int(daemon.makefile().readline())
        environments = [_orders(run, rank, run.hosts[0]) for rank in _ranks_of(run, index)]
        daemon.sendall((json.dumps({"program": run.program, "environments": environments}) + "\n").encode())
        kept.append(daemon)
        log(f"INFO mpirun: the daemon on {run.hosts[index]} runs ranks {list(_ranks_of(run, index))}")
    return kept


def _wait(ranks: list[subprocess.Popen[bytes]]) -> None:
    """Until one has ended; then the others are."""
    while True:
        for process in ranks:
            if process.poll() is not None:
                log(f"mpirun noticed that {process.args!r} exited with code {process.returncode}")
                for other in ranks:
                    other.terminate()
                sys.exit(process.returncode or 1)
        time.sleep(0.05)
