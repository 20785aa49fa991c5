"""How long sparkrun takes to start, beside a bare Python."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measure import Command, Timing, time_side_by_side

BUDGET_MS = 60.0
SPARKRUN = str(Path(sys.executable).with_name("sparkrun"))

BASELINE = Command("python -c pass", (sys.executable, "-c", "pass"))
COMMANDS = (
    Command("sparkrun --version", (SPARKRUN, "--version"), budget_ms=BUDGET_MS),
    Command("sparkrun --help", (SPARKRUN, "--help"), budget_ms=BUDGET_MS),
    Command("sparkrun run --nonsense", (SPARKRUN, "run", "--nonsense"), exit_code=2, budget_ms=BUDGET_MS),
)


def measure(runs: int) -> list[Timing]:
    """The start-up times of ``runs`` rounds."""
    return time_side_by_side(BASELINE, COMMANDS, runs=runs)
