"""What is written down of a bed: enough to reach it, and to remove it after a crash."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.e2e.bed.machine import Process
from tests.e2e.bed.plan import Options

FOLDER = Path(__file__).resolve().parents[3] / ".dev/bed"
"""Where a bed keeps its things unless told otherwise: keys, which outlive it, and ``run``, which does not."""
IMAGES = FOLDER / "images"
"""Archives of images, for all beds."""
LLAMA_CPP = FOLDER.parent / "llama.cpp"
"""Programs of llama.cpp that were built here; see ``llama_cpp.py``."""
NEWER_DOCKER = FOLDER.parent / "docker"
"""Docker of a newer Debian; see ``newer_docker.py``."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What removing a bed takes; any version of this program can read it."""

    name: str
    """Of this machine's interface on the management network, and in the name of the control group."""

    @property
    def cgroup(self) -> str:
        """Every process of the bed is in it."""
        return f"/sparkrun-{self.name}"


class State(Trace, frozen=True, kw_only=True):
    """One bed."""

    folder: str
    options: Options
    network: str
    """The management network without its last octet."""
    owner: Process | None = None
    """The bed is nobody's any more when this process has ended; ``None``: somebody will take it down by hand."""
    processes: dict[int, Process] = {}
    """The first process of every host by index, and the switch's; empty until they run."""

    @property
    def run(self) -> Path:
        """Everything that goes when the bed does."""
        return run_folder(Path(self.folder))

    @property
    def alive(self) -> bool:
        """Whether all of it runs."""
        return len(self.processes) == self.options.count + 1 and all(each.alive for each in self.processes.values())

    @property
    def wanted(self) -> bool:
        """Whether somebody may still use it."""
        return self.alive and (self.owner is None or self.owner.alive)


def run_folder(folder: Path) -> Path:
    """The part of a bed's folder that goes when the bed does."""
    return folder / "run"


def load_state(folder: Path) -> State | None:
    """``None`` when there is no bed, or one of another version of this program."""
    try:
        return msgspec.json.decode((run_folder(folder) / "state.json").read_bytes(), type=State)
    except (FileNotFoundError, msgspec.ValidationError):
        return None


def load_trace(folder: Path) -> Trace | None:
    """``None`` when there is no bed."""
    try:
        return msgspec.json.decode((run_folder(folder) / "state.json").read_bytes(), type=Trace)
    except FileNotFoundError:
        return None


def save_state(state: State) -> None:
    """Over the last one."""
    state.run.mkdir(parents=True, exist_ok=True)
    unfinished = state.run / "state.new"
    unfinished.write_bytes(msgspec.json.encode(state))
    unfinished.rename(state.run / "state.json")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time brings a bed up or down."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
