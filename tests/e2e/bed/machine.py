"""This machine's side of a host: processes, control groups, namespaces, `ip`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from tests.e2e.bed.plan import BedError

COMMAND_TIMEOUT_S = 60
END_TIMEOUT_S = 20
POLL_S = 0.02
CGROUPS = Path("/sys/fs/cgroup")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Process(msgspec.Struct, frozen=True):
    """A process that cannot be mistaken for a later one of the same number. ``started`` is in clock ticks since boot."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return _started(self.pid) == self.started

    @property
    def root(self) -> Path:
        """Its root folder, as seen from here."""
        return Path(f"/proc/{self.pid}/root")

    def signal(self, number: signal.Signals) -> None:
        """Nothing happens when it has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Ended(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Its output, without the last line's end. Fails the test when the command failed."""
        assert self.code == 0, f"exit code {self.code}: {self.err or self.out}"
        return self.out.rstrip("\n")


def process(pid: int) -> Process:
    """A process that runs now."""
    started = _started(pid)
    if started is None:
        raise BedError(f"process {pid} has ended")
    return Process(pid, started)


def run(*words: str | Path, stdin: str = "", timeout_s: float = COMMAND_TIMEOUT_S) -> Ended:
    """Run to the end; code 124 after ``timeout_s``."""
    environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/root")}
    try:
        ended = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        return Ended(124, _text(error.stdout), _text(error.stderr) or f"no end within {timeout_s:g} s")
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def require(*words: str | Path, stdin: str = "") -> str:
    """Run, and give the output; raises ``BedError`` with what the command said."""
    ended = run(*words, stdin=stdin)
    if ended.code:
        raise BedError(f"{' '.join(map(str, words))}: {(ended.err or ended.out).strip() or f'exit code {ended.code}'}")
    return ended.out


def enter_words(pid: int, *namespaces: str) -> list[str]:
    """The words that run a command in namespaces of a process (long names of nsenter(1))."""
    return ["nsenter", f"--target={pid}", *(f"--{name}" for name in namespaces)]


def ip_batch(pid: int, lines: Iterable[str]) -> None:
    """Lines of ip(8) in the network namespace of a process, until one fails."""
    text = "\n".join(lines) + "\n"
    require(*enter_words(pid, "net"), "ip", "-batch", "-", stdin=text)


def wait_until(condition: Callable[[], object], what: str, *, timeout_s: float = END_TIMEOUT_S) -> None:
    """Look again and again; raises ``BedError`` when it does not come."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise BedError(f"{what}: not within {timeout_s:g} s")
        time.sleep(POLL_S)


# --- control groups -----------------------------------------------------------------------------------------------------------------------


def unified_cgroups() -> Path | None:
    """Where version 2 of control groups is mounted, alone or beside version 1."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return Path(left.split()[4])
    return None


class Cgroup:
    """A group of processes that is frozen and ended as a whole. ``name`` begins with a slash, as docker wants it."""

    def __init__(self, name: str) -> None:
        self.name = name
        mounted = unified_cgroups()
        if mounted is None:
            raise BedError("control groups of version 2 are not mounted")
        self._folder = mounted / name.lstrip("/")

    def make(self, child: str = "") -> Path:
        """The group, or one below it. Returns the file that takes processes."""
        folder = self._folder / child
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "cgroup.procs"

    def freeze(self, *, frozen: bool) -> None:
        """Every process stops, or goes on."""
        (self._folder / "cgroup.freeze").write_text(str(int(frozen)))
        wait_until(lambda: self.frozen is frozen, f"{self.name} {'frozen' if frozen else 'thawed'}")

    @property
    def frozen(self) -> bool:
        """Whether every process has stopped."""
        return "frozen 1" in self._events()

    def kill(self, name: str) -> int:
        """Kill the processes of a name; how many there were."""
        found = [pid for pid in self._pids() if _name(pid) == name]
        for pid in found:
            _kill(pid)
        return len(found)

    def end(self) -> None:
        """Kill every process in it, and remove it together with what docker made in its name under version 1."""
        wait_until(self._killed, f"the end of every process of {self.name}")
        for folder in (self._folder, *(top / self.name.lstrip("/") for top in CGROUPS.iterdir())):
            wait_until(partial(_removed, folder), f"the removal of {folder}")

    def _killed(self) -> bool:
        """Whether it is empty; kills what is in it, by number."""
        if "populated 1" not in self._events():
            return True
        for pid in self._pids():
            _kill(pid)
        return False

    def _pids(self) -> Iterator[int]:
        for procs in (self._folder / "cgroup.procs", *self._folder.rglob("cgroup.procs")):
            with contextlib.suppress(OSError):
                yield from map(int, procs.read_text().split())

    def _events(self) -> str:
        try:
            return (self._folder / "cgroup.events").read_text()
        except OSError:
            return ""


class Talk(NamedTuple):
    """Both ways to a process that was started."""

    say: IO[str]
    hear: IO[str]


def start_in(group: Path, words: Sequence[str | Path], log: Path) -> Talk:
    """Start a process that is nobody's child, and in a control group (its ``cgroup.procs``) from its first instruction on."""
    with log.open("ab") as errors:
        starter = subprocess.Popen(
            ["/bin/sh", "-c", 'echo $$ >"$1" && shift && exec setsid --fork "$@"', "sh", group, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd="/",
            env={"PATH": PATH, "LANG": "C.UTF-8"},
        )
    assert starter.stdin is not None
    assert starter.stdout is not None
    starter.wait()
    return Talk(starter.stdin, starter.stdout)


def program(name: str) -> str | None:
    """Where a program of this machine is that every host sees: not below /usr/local, which each host has for itself."""
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _removed(folder: Path) -> bool:
    """Whether a control group and those in it are gone; one that its last process has just left may still be busy."""
    for inner in sorted((path for path in (folder, *folder.rglob("*")) if path.is_dir()), reverse=True):
        with contextlib.suppress(OSError):
            inner.rmdir()
    return not folder.exists()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""
