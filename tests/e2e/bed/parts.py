"""What a running host is made of on this machine, and whether it answers."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.e2e.bed.machine import COMMAND_TIMEOUT_S, PATH, Cgroup, Ended, Process, enter_words, run, wait_until
from tests.e2e.bed.plan import SWITCH, BedError, BedPlan, HostPlan

NAMESPACES = ("mount", "net", "pid", "uts", "ipc", "root", "wd")
READY_TIMEOUT_S = 30


class HostParts(msgspec.Struct, frozen=True, kw_only=True):
    """``processes`` holds the first process of every host by index, and the switch's; ``folder`` is this host's place on this machine."""

    bed: BedPlan
    plan: HostPlan
    folder: Path
    cgroup: Cgroup
    processes: Mapping[int, Process]

    @property
    def process(self) -> Process:
        """Its first process."""
        return self.processes[self.plan.index]

    @property
    def switch(self) -> Process:
        """What holds the namespace of the cables."""
        return self.processes[SWITCH]

    def at(self, path: str) -> Path:
        """A path of the host, as seen from here. Absolute links on the way lead out of it."""
        return self.process.root / path.lstrip("/")

    def enter(self, *words: str) -> list[str]:
        """The words that run a command on it as root."""
        enter = enter_words(self.process.pid, *NAMESPACES)
        return [*enter, "env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8", *words]

    def inside(self, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Ended:
        """Run a command on it as root."""
        return run(*self.enter(*words), timeout_s=timeout_s)

    def ssh_answers(self) -> bool:
        """Whether its sshd greets."""
        try:
            with socket.create_connection((self.plan.address, 22), 1) as connection:
                connection.settimeout(2)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def docker_answers(self) -> bool:
        """Whether its docker daemon lives."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(str(self.at("run/docker.sock")))
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in connection.recv(64)
        except OSError:
            return False

    def wait_ready(self) -> None:
        """Until both answer. Raises ``BedError`` with what its daemons say."""
        try:
            wait_until(self.ssh_answers, f"{self.plan.name} answers over ssh", timeout_s=READY_TIMEOUT_S)
            if self.plan.docker:
                wait_until(self.docker_answers, f"docker on {self.plan.name} answers", timeout_s=READY_TIMEOUT_S)
        except BedError as error:
            said = "".join(log.read_text(errors="replace")[-1000:] for log in sorted((self.folder / "log").glob("*.out")))
            raise BedError(f"{error}\n{said}") from None
