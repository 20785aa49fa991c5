"""A host of its own in a folder: home, cache, and a PATH of nothing but bash, coreutils and what a test adds."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sparkrun.scripts import compose_script
from sparkrun.utils.shell import Answers, Section, parse_answers

TOOLS = (
    "bash base64 cat chmod dd df du env find flock head ln ls mkdir mv nproc readlink rm setsid sha1sum sha256sum sleep sort stat sync "
    "tail tee timeout touch truncate wc"
).split()
PATIENCE_S = 30.0
"""How long a test waits for what must happen; reaching it is a failure."""


class Ran(NamedTuple):
    """How a script ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def answers(self) -> Answers:
        return parse_answers(self.stdout)

    def section(self, name: str) -> Section:
        return self.answers.section(name)


class Running:
    """A script at work, whose lines can be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, wanted: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: wanted in self.lines, PATIENCE_S), f"no {wanted!r} in {self.lines}"

    def result(self) -> Ran:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        return Ran(code, "\n".join(self.lines) + "\n", self.process.stderr.read())

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()


class ScratchHost:
    """Runs scripts for real. `env` is all that they inherit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.cache = root / "cache"
        self.bin = root / "bin"
        self.tools = root / "tools"
        for folder in (self.home, self.bin, self.tools):
            folder.mkdir(parents=True)
        for tool in TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool) or "/nowhere")
        self.env = {"HOME": str(self.home), "PATH": f"{self.bin}:{self.tools}", "SPARKRUN_CACHE_DIR": str(self.cache)}
        self._running: list[Running] = []

    def run(self, name: str, **params: str | tuple[str, ...]) -> Ran:
        return self.feed(compose_script(name, params))

    def feed(self, text: str) -> Ran:
        done = subprocess.run(
            self._bash(), input=text, capture_output=True, text=True, env=self.env, timeout=60, check=False, cwd=self.root
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def begin(self, name: str, **params: str | tuple[str, ...]) -> Running:
        """Starts a script and goes on; stdin stays open."""
        self._running.append(Running(self.process(name, **params)))
        return self._running[-1]

    def process(self, name: str, **params: str | tuple[str, ...]) -> subprocess.Popen[str]:
        """A script that has just been sent, in a session of its own."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._bash(), stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self.env, cwd=self.root, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(compose_script(name, params))
        process.stdin.flush()
        return process

    def start(self, name: str, command: str, **params: str | tuple[str, ...]) -> Section:
        """A workload of the local executor that is known to have started."""
        ran = self.run("local_start", NAME=name, COMMAND=command, **params)
        assert ran.returncode == 0, ran
        return ran.section("LAUNCH")

    def workload(self, name: str) -> Section:
        """What the status script says of one workload."""
        records = self.run("local_status", NAMES=(name,)).answers.sections("WORKLOAD")
        assert len(records) == 1, records
        return records[0]

    def file(self, name: str, suffix: str = "") -> Path:
        return self.cache / "local" / "pids" / f"{name}.pid{suffix}"

    def log(self, name: str) -> str:
        path = self.cache / "local" / "logs" / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def program(self, name: str, body: str) -> Path:
        """A fake program on PATH, written in bash."""
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def python(self) -> Path:
        """The python that runs the tests, as `python3` on PATH."""
        return self.program("python3", f'exec "{sys.executable}" "$@"')

    def close(self) -> None:
        for running in self._running:
            if running.process.poll() is None:
                end_group(running.process.pid)
            running.process.wait()
        # Again, for one that was just being started.
        while left := _processes_of(self.root):
            for pid in left:
                end_process(pid)

    def _bash(self) -> list[str]:
        return [str(self.tools / "bash"), "-s"]


def eventually(holds: Callable[[], object], what: str = "condition") -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came true"
        pause.wait(0.01)


def session_members(leader: int) -> list[int]:
    """Living processes of the session or group that `leader` leads or led."""
    return [pid for pid, fields in _processes() if str(leader) in (fields[2], fields[3]) and fields[0] not in "ZX"]


def is_alive(pid: int) -> bool:
    return any(found == pid and fields[0] not in "ZX" for found, fields in _processes())


def start_ticks(pid: int) -> str:
    return next(fields[19] for found, fields in _processes() if found == pid)


def end_process(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _processes_of(root: Path) -> list[int]:
    """Processes whose environment, such as PATH, names this folder: whatever a scratch host has started, however it went astray."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if os.fsencode(root) in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def _processes() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield int(path.parent.name), text.rpartition(")")[2].split()
