"""Show a benchmark's timings as a table and keep them as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Timing

RESULTS = Path(__file__).parent / "results"
HEADER = ("command", "min", "median", "× baseline", "budget")


def table(timings: Sequence[Timing]) -> str:
    """The timings in aligned columns, the first of them being the baseline."""
    rows = [HEADER, *(row(timing) for timing in timings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(aligned(cells, widths) for cells in rows)


def row(timing: Timing) -> tuple[str, ...]:
    return (timing.command.name, f"{timing.min_ms:.1f} ms", f"{timing.median_ms:.1f} ms", f"{timing.ratio:.2f}", verdict(timing))


def verdict(timing: Timing) -> str:
    """Whether the median keeps to the budget."""
    budget_ms = timing.command.budget_ms
    if budget_ms is None:
        return ""
    return f"{'within' if timing.median_ms <= budget_ms else 'over'} {budget_ms:.0f} ms"


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    return "  ".join([name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]).rstrip()


def save(name: str, timings: Sequence[Timing], folder: Path = RESULTS) -> Path:
    """Write ``NAME.json`` with the timings and the machine they were measured on; returns where."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
    data = {"benchmark": name, "machine": machine, "timings": [as_json(timing) for timing in timings]}
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return path


def as_json(timing: Timing) -> dict[str, str | int | float | None]:
    return {
        "command": timing.command.name,
        "runs": timing.runs,
        "min_ms": round(timing.min_ms, 2),
        "median_ms": round(timing.median_ms, 2),
        "ratio": round(timing.ratio, 3),
        "budget_ms": timing.command.budget_ms,
    }
