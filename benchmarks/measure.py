"""Time commands side by side."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

TIMEOUT_S = 60.0

# A new process starts with the peak of the one it was forked from, so that one has to be small: nothing but Python without site.
_TELL_PEAK = """
import os, resource, sys
pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
sys.stdout.write(f"\\n{usage.ru_maxrss // (1024 if sys.platform == 'darwin' else 1)}")
sys.stdout.flush()
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""


class BenchmarkError(Exception):
    """A command did not do what the benchmark is about, so its time means nothing."""


@dataclass(frozen=True)
class Command:
    """A command to measure. ``exit_code`` is how it has to end; a budget is the wall time or the memory it may take, where there is one."""

    name: str
    argv: tuple[str, ...]
    exit_code: int = 0
    budget_ms: float | None = None
    budget_mib: float | None = None


@dataclass(frozen=True)
class Timing:
    """The wall times of one command over several runs, and the least of them as a multiple of the baseline's least."""

    command: Command
    runs: int
    min_ms: float
    median_ms: float
    ratio: float


@dataclass(frozen=True)
class Size:
    """The most memory that one command held in its runs (its largest process), and that as a multiple of the baseline's."""

    command: Command
    runs: int
    max_mib: float
    ratio: float


def time_side_by_side(baseline: Command, commands: Sequence[Command], *, runs: int) -> list[Timing]:
    """Time the baseline and the commands ``runs`` times each, one after the other in every round so that all meet the same machine.

    One round before them is not counted: it fills the caches and the bytecode.
    """
    everything = (baseline, *commands)
    times_ms: dict[Command, list[float]] = {command: [] for command in everything}
    for round_number in range(runs + 1):
        for command in everything:
            elapsed_ms = time_once_ms(command)
            if round_number:
                times_ms[command].append(elapsed_ms)
    least_ms = min(times_ms[baseline])
    return [Timing(command, runs, min(times), statistics.median(times), min(times) / least_ms) for command, times in times_ms.items()]


def size_side_by_side(baseline: Command, commands: Sequence[Command], *, runs: int) -> list[Size]:
    """Take the peak memory of the baseline and of the commands over ``runs`` runs each."""
    everything = (baseline, *commands)
    most_mib = {command: max(peak_mib(command) for _run in range(runs)) for command in everything}
    return [Size(command, runs, mib, mib / most_mib[baseline]) for command, mib in most_mib.items()]


def time_once_ms(command: Command) -> float:
    """The wall time of one run; raises BenchmarkError when it ends in another way than it should."""
    start = time.perf_counter()
    done = run(command)
    elapsed_ms = (time.perf_counter() - start) * 1000
    check_end(command, done)
    return elapsed_ms


def peak_mib(command: Command) -> float:
    """The peak memory of one run, told by a process in between that has no other children; raises BenchmarkError as ``time_once_ms``."""
    done = run(Command(command.name, (sys.executable, "-S", "-c", _TELL_PEAK, *command.argv)))
    told, _, peak_kib = done.stdout.rpartition("\n")
    check_end(command, subprocess.CompletedProcess(command.argv, done.returncode, told, done.stderr))
    return int(peak_kib) / 1024


def check_end(command: Command, done: subprocess.CompletedProcess[str]) -> None:
    """Raise BenchmarkError when it ended in another way than it should."""
    if done.returncode != command.exit_code:
        raise BenchmarkError(f"{command.name}: exit code {done.returncode} instead of {command.exit_code}: {done.stderr.strip()[-300:]}")


def run(command: Command) -> subprocess.CompletedProcess[str]:
    """Run it once, without input, within TIMEOUT_S."""
    try:
        return subprocess.run(
            command.argv, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{command.name}: no end after {TIMEOUT_S:.0f} s") from None


def environment() -> dict[str, str]:
    """Ours, with bytecode: users start an installed program, not a fresh checkout each time."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
