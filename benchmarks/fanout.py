"""How long it takes to ask many hosts at once, beside bare ``ssh HOST true``: over new connections and over open ones.

The hosts are addresses of loopback behind one real sshd, so the times hold both ends: what the hosts do costs this machine too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import BenchmarkError, Command, Timing, time_once_ms

COUNTS = (1, 4, 32)
WARM_BUDGETS_MS = {4: 150.0, 32: 400.0}
OFF_BUDGET_MS = 3600.0
"""3 s for a host that is off, and what ``status`` takes besides."""
COLD_ROUNDS, OFF_ROUNDS = 3, 3
"""A handshake takes so long that more rounds tell no more."""
SPARKRUN = str(Path(sys.executable).with_name("sparkrun"))
SSHD_PATH = "/usr/sbin:/usr/bin"
RUN_TRUE = """
import os, sys
from sparkrun.core.config import SparkrunConfig
from sparkrun.orchestration.ssh import make_ssh_runner
from sparkrun.orchestration.ssh_sessions import Session, run_sessions
results = run_sessions([Session(host, "true", 60) for host in sys.argv[1:]], make_ssh_runner(SparkrunConfig.load(os.environ)).settings)
sys.exit(0 if all(each.ok for each in results) else 1)
"""
"""What bare ssh does, done by our sessions: with a Python to start, without the rest of a command."""


@dataclass(frozen=True)
class Case:
    """A command, what has to be done before each run of it, and how often it is run at most."""

    command: Command
    prepare: Callable[[], None]
    rounds: int


def measure(runs: int) -> list[Timing]:
    """Bare ssh and ``sparkrun status`` for each number of hosts, cold and warm; ratios are to bare ssh over new connections to as many."""
    with tempfile.TemporaryDirectory(prefix="sr-", dir="/tmp") as folder, site(Path(folder)) as hosts:
        groups = [hosts.cases(count, runs) for count in COUNTS]
        times_ms = time_all([case for group in groups for case in group])
    return [timing for group in groups for timing in timings_of(group, times_ms)]


def time_all(cases: list[Case]) -> dict[Command, list[float]]:
    """Every case in every round, so that all meet the same machine; the round before the first is not counted."""
    times_ms: dict[Command, list[float]] = {case.command: [] for case in cases}
    for number in range(max(case.rounds for case in cases) + 1):
        for case in cases:
            if number <= case.rounds:
                case.prepare()
                elapsed_ms = time_once_ms(case.command)
                times_ms[case.command] += [elapsed_ms] if number else []
    return times_ms


def timings_of(group: list[Case], times_ms: dict[Command, list[float]]) -> Iterator[Timing]:
    """The timings of a group of cases, whose first is the baseline."""
    least_ms = min(times_ms[group[0].command])
    for case in group:
        times = times_ms[case.command]
        yield Timing(case.command, len(times), min(times), statistics.median(times), min(times) / least_ms)


class Hosts:
    """Addresses of one sshd, and a user who reaches them."""

    def __init__(self, folder: Path, port: int, silent_port: int) -> None:
        self._folder, self._port, self._silent_port = folder, port, silent_port

    def cases(self, count: int, runs: int) -> list[Case]:
        """What is timed for so many hosts."""
        cold = min(runs, COLD_ROUNDS)
        cases = [
            Case(Command(f"{count}: ssh true, new connections", self._bare(count)), nothing, cold),
            Case(Command(f"{count}: ssh true, open connections", self._bare(count, *self._shared())), nothing, runs),
            Case(Command(f"{count}: true by our sessions, open connections", self._sessions(count)), lambda: self._connect(count), runs),
            Case(Command(f"{count}: sparkrun status, cold", self._status(count)), self._disconnect, cold),
            Case(
                Command(f"{count}: sparkrun status, warm", self._status(count), budget_ms=WARM_BUDGETS_MS.get(count)),
                lambda: self._connect(count),
                runs,
            ),
        ]
        if count == 4:
            name, argv = f"{count}: sparkrun status, warm, and a host that is off", self._status(count, f"127.0.0.1:{self._silent_port}")
            cases.append(Case(Command(name, argv, exit_code=1, budget_ms=OFF_BUDGET_MS), nothing, min(runs, OFF_ROUNDS)))
        return cases

    def _bare(self, count: int, *options: str) -> tuple[str, ...]:
        words = " ".join(
            ["ssh", "-o", "BatchMode=yes", "-i", f"{self._folder}/user", "-p", str(self._port), *client_options(self._folder), *options]
        )
        return ("bash", "-c", f"for n in {{1..{count}}}; do {words} 127.0.0.$n true & done; wait")

    def _shared(self) -> tuple[str, ...]:
        return ("-o", "ControlMaster=auto", "-o", "ControlPersist=300", "-o", f"ControlPath={self._folder}/bare-%C")

    def _sessions(self, count: int) -> tuple[str, ...]:
        return (*self._user(), sys.executable, "-c", RUN_TRUE, *self._names(count))

    def _status(self, count: int, *more: str) -> tuple[str, ...]:
        return (*self._user(), SPARKRUN, "status", "-H", ",".join([*self._names(count), *more]))

    def _names(self, count: int) -> list[str]:
        return [f"127.0.0.{n}:{self._port}" for n in range(1, count + 1)]

    def _user(self) -> tuple[str, ...]:
        return ("env", f"HOME={self._folder}/user-home", f"XDG_RUNTIME_DIR={self._folder}")

    def _connect(self, count: int) -> None:
        """Open what the cold case of another count has closed."""
        if len(list(self._folder.glob(f"sparkrun-{os.getuid()}/*"))) < count:
            time_once_ms(Command("connect", self._sessions(count)))

    def _disconnect(self) -> None:
        disconnect(self._folder.glob(f"sparkrun-{os.getuid()}/*"))


@contextmanager
def site(folder: Path) -> Iterator[Hosts]:
    """A sshd with empty homes and a docker without containers; a user with settings. Raises ``BenchmarkError`` without OpenSSH."""
    sshd = shutil.which("sshd", path=SSHD_PATH)
    if sshd is None or shutil.which("ssh") is None:
        raise BenchmarkError("OpenSSH's server and client are needed, and not both installed")
    port = write_settings(folder)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        daemon = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
        try:
            await_listener(port)
            yield Hosts(folder, port, silent.getsockname()[1])
        finally:
            disconnect([*folder.glob("bare-*"), *folder.glob("sparkrun-*/*")])
            daemon.terminate()
            daemon.wait()


def write_settings(folder: Path) -> int:
    """Keys and settings of both sides; returns the port of the sshd."""
    for name in ("home", "bin", "user-home/.config/sparkrun"):
        (folder / name).mkdir(parents=True)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    docker = folder / "bin/docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 0.0.0.0\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPidFile none\n"
        f"UsePAM no\nPasswordAuthentication no\nMaxStartups 200\nSetEnv HOME={folder}/home PATH={folder}/bin:/usr/bin:/bin\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    settings = {"ssh": {"key": f"{folder}/user", "options": client_options(folder)}}
    (folder / "user-home/.config/sparkrun/config.yaml").write_text(json.dumps(settings))
    return port


def client_options(folder: Path) -> list[str]:
    """Options that keep this machine's own ssh configuration out."""
    return ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/known", "-o", "LogLevel=ERROR"]


def disconnect(sockets: Iterator[Path] | list[Path]) -> None:
    """End shared connections."""
    for path in sockets:
        subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={path}", "any"], capture_output=True, timeout=10, check=False)


def await_listener(port: int) -> None:
    """Wait until the sshd listens."""
    for _attempt in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        subprocess.run(["sleep", "0.05"], check=True)
    raise BenchmarkError("sshd does not listen")


def nothing() -> None:
    """Before a command that needs no preparation."""
