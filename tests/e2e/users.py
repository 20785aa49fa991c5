"""Somebody who serves one recipe on the hosts of a bed, and how long each of their commands takes."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.bed import Bed, Host
from tests.e2e.conftest import Ended, wait_for
from tests.e2e.launching import Operator, names, put_model
from tests.pace import slowness

OWN_PROGRAM = (str(Path(__file__).resolve().parents[2]), sys.prefix, sys.base_prefix)
"""What a host has to see of this machine so that a command can be typed there."""


def typed_on(host: Host, *words: str) -> Ended:
    """A command line of a host's root, who keeps models where the host's user does."""
    env = ("HOME=/root", f"HF_HOME={host.hf_home}", "NO_COLOR=1")
    ended = host.inside("env", *env, sys.executable, "-m", "sparkrun", *words, timeout_s=90)
    return Ended(ended.code, ended.out, ended.err)


class User(Operator):
    """Somebody who serves one recipe on the hosts of a bed."""

    def __init__(self, home: Path, bed: Bed) -> None:
        super().__init__(home, bed)
        put_model(bed.hosts)
        self.recipe = self.write("vllm")

    def launch(self, *words: str, recipe: str = "", hosts: tuple[Host, ...] = ()) -> Timed:
        """``run`` over all hosts of the bed, or these."""
        return self.timed("run", recipe or self.recipe, *self._where(hosts or self.bed.hosts), "--no-follow", *words)

    def start_launch(self, *words: str) -> Process:
        """The same, and return at once."""
        return Process(self, "run", self.recipe, *self._where(self.bed.hosts), "--no-follow", *words)

    def timed(self, *words: str) -> Timed:
        """A command line, its end and how long it took."""
        began = time.monotonic()
        ended = self(*words)
        return Timed(ended, time.monotonic() - began)

    def on_hosts(self, *words: str) -> Timed:
        """A command with ``-H`` and all hosts of the bed."""
        return self.timed(*words, "-H", names(self.bed.hosts))

    def jobs(self) -> list[str]:
        """What this machine believes to have launched."""
        return [path.stem for path in (self.home / ".cache/sparkrun/jobs").glob("*.yaml")]

    def seen(self) -> dict[str, str]:
        """State of each workload by its id, as ``status`` says it."""
        report = self("status", "--json", "-H", names(self.bed.hosts)).json
        entries = [*report["groups"].items(), *((entry["workload_id"], entry) for entry in report["solo_entries"])]
        return {name: entry["meta"]["state"] for name, entry in entries}

    def nothing_left(self) -> bool:
        """No container on any host, no job on this machine."""
        return not any(containers(host) for host in self.bed.hosts) and not self.jobs()

    @staticmethod
    def _where(hosts: tuple[Host, ...]) -> tuple[str, ...]:
        return ("-H", names(hosts), "--tp", str(len(hosts)))


class Timed(NamedTuple):
    """How a command line ended, and when."""

    ended: Ended
    took_s: float

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def err(self) -> str:
        """What it says when the lines of progress are left out."""
        return "\n".join(line for line in self.ended.err.splitlines() if not re.match(r"\[\d/\d\]|  (Step|done)\b", line))

    @property
    def error(self) -> str:
        """The one message, without its hint and without what an engine said."""
        (first,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return first.removeprefix("error: ")

    def within(self, seconds: float) -> Timed:
        """Fails the test when it took longer."""
        assert self.took_s <= seconds * slowness(), (self.took_s, self.err)
        return self


class Process:
    """A command line that runs beside the test."""

    def __init__(self, user: User, *words: str) -> None:
        self.began = time.monotonic()
        self.err = ""
        self.lines: list[tuple[float, str]] = []
        """Each line of stderr, and when it came by the clock of this machine."""
        command = [sys.executable, "-m", "sparkrun", *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=user.env, cwd=user.home, start_new_session=True, **pipes)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Until stderr says so."""
        wait_for(lambda: text in self.err or self._process.poll() is not None)
        assert text in self.err, self.err

    def signal(self, number: int) -> None:
        """To the command alone."""
        self._process.send_signal(number)

    def end(self, timeout_s: float = 60) -> Timed:
        """Its end; the time is counted from its start."""
        assert self._process.stdout
        code = self._process.wait(timeout_s)
        self._reader.join(5)
        return Timed(Ended(code, self._process.stdout.read(), self.err), time.monotonic() - self.began)

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self.lines.append((time.time(), line))
            self.err += line


def containers(host: Host) -> list[str]:
    """Every one, alive or dead, seen from inside the host."""
    return host.docker("ps", "--all", "--format", "{{.Names}}").split()


def engine_runs(host: Host) -> bool:
    """Whether a container is up."""
    return bool(host.docker("ps", "--quiet"))


@pytest.fixture
def user(bed: Bed, tmp_path: Path) -> User:
    return new_user(bed, tmp_path / "ada")


def new_user(bed: Bed, home: Path) -> User:
    home.mkdir()
    return User(home, bed)
