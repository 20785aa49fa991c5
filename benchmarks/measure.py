"""Time commands side by side."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

TIMEOUT_S = 60.0


class BenchmarkError(Exception):
    """A command did not do what the benchmark is about, so its time means nothing."""


@dataclass(frozen=True)
class Command:
    """A command to time. ``exit_code`` is how it has to end; ``budget_ms`` is the wall time it may take, where there is one."""

    name: str
    argv: tuple[str, ...]
    exit_code: int = 0
    budget_ms: float | None = None


@dataclass(frozen=True)
class Timing:
    """The wall times of one command over several runs, and the least of them as a multiple of the baseline's least."""

    command: Command
    runs: int
    min_ms: float
    median_ms: float
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


def time_once_ms(command: Command) -> float:
    """The wall time of one run; raises BenchmarkError when it ends in another way than it should."""
    start = time.perf_counter()
    done = run(command)
    elapsed_ms = (time.perf_counter() - start) * 1000
    if done.returncode != command.exit_code:
        raise BenchmarkError(f"{command.name}: exit code {done.returncode} instead of {command.exit_code}: {done.stderr.strip()[-300:]}")
    return elapsed_ms


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
