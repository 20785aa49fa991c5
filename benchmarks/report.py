"""Show a benchmark's results as a table and keep them as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Size, Timing

RESULTS = Path(__file__).parent / "results"
HEADER = ("command", "min", "median", "× baseline", "budget")
SIZE_HEADER = ("command", "max", "× baseline", "budget")


def table(results: Sequence[Timing] | Sequence[Size]) -> str:
    """The results in aligned columns, the first of them being the baseline."""
    rows = [SIZE_HEADER if isinstance(results[0], Size) else HEADER, *(row(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(aligned(cells, widths) for cells in rows)


def row(result: Timing | Size) -> tuple[str, ...]:
    if isinstance(result, Size):
        return (result.command.name, f"{result.max_mib:.1f} MiB", f"{result.ratio:.2f}", verdict(result))
    return (result.command.name, f"{result.min_ms:.1f} ms", f"{result.median_ms:.1f} ms", f"{result.ratio:.2f}", verdict(result))


def verdict(result: Timing | Size) -> str:
    """Whether the median, or the most memory, keeps to the budget."""
    if isinstance(result, Size):
        return kept_to(result.max_mib, result.command.budget_mib, "MiB")
    return kept_to(result.median_ms, result.command.budget_ms, "ms")


def kept_to(value: float, budget: float | None, unit: str) -> str:
    return "" if budget is None else f"{'within' if value <= budget else 'over'} {budget:.0f} {unit}"


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    return "  ".join([name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]).rstrip()


def save(name: str, results: Sequence[Timing] | Sequence[Size], folder: Path = RESULTS) -> Path:
    """Write ``NAME.json`` with the results and the machine they were measured on; returns where."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
    kind = "sizes" if isinstance(results[0], Size) else "timings"
    data = {"benchmark": name, "machine": machine, kind: [as_json(result) for result in results]}
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return path


def as_json(result: Timing | Size) -> dict[str, str | int | float | None]:
    command: dict[str, str | int | float | None] = {"command": result.command.name, "runs": result.runs}
    if isinstance(result, Size):
        return {**command, "max_mib": round(result.max_mib, 2), "ratio": round(result.ratio, 3), "budget_mib": result.command.budget_mib}
    return {
        **command,
        "min_ms": round(result.min_ms, 2),
        "median_ms": round(result.median_ms, 2),
        "ratio": round(result.ratio, 3),
        "budget_ms": result.command.budget_ms,
    }
