"""benchmarks/: measuring and showing, with commands that are there on any machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import control, report
from benchmarks.measure import BenchmarkError, Command, Size, Timing, size_side_by_side, time_side_by_side

BASELINE = Command("bare", (sys.executable, "-S", "-c", "pass"))


def test_every_command_is_timed_as_often_and_the_baseline_comes_first() -> None:
    failing = Command("failing", (sys.executable, "-S", "-c", "raise SystemExit(3)"), exit_code=3)

    timings = time_side_by_side(BASELINE, [failing], runs=2)

    assert [timing.command for timing in timings] == [BASELINE, failing]
    assert {timing.runs for timing in timings} == {2}
    assert timings[0].ratio == 1
    assert 0 < timings[1].min_ms <= timings[1].median_ms


def test_a_command_that_ends_otherwise_is_no_measurement() -> None:
    broken = Command("broken", (sys.executable, "-S", "-c", "raise SystemExit('no such thing')"))

    with pytest.raises(BenchmarkError, match="broken: exit code 1 instead of 0: no such thing"):
        time_side_by_side(BASELINE, [broken], runs=1)


def test_table_says_what_keeps_to_its_budget() -> None:
    table = report.table([timing("bare", 10), timing("ours", 40, budget_ms=60), timing("slow", 90, budget_ms=60)])

    assert table.splitlines() == [
        "command      min   median  × baseline        budget",
        "bare     10.0 ms  10.0 ms        1.00",
        "ours     40.0 ms  40.0 ms        4.00  within 60 ms",
        "slow     90.0 ms  90.0 ms        9.00    over 60 ms",
    ]


def test_results_are_kept_as_json(tmp_path: Path) -> None:
    path = report.save("startup", [timing("ours", 40, budget_ms=60)], tmp_path / "results")

    data = json.loads(path.read_text())
    assert data["benchmark"] == "startup"
    assert data["timings"] == [{"command": "ours", "runs": 5, "min_ms": 40, "median_ms": 40, "ratio": 4.0, "budget_ms": 60}]


def test_memory_is_that_of_the_command_and_not_of_what_measures_it() -> None:
    hungry = Command("hungry", (sys.executable, "-S", "-c", 'x = b"x" * (64 << 20); raise SystemExit(3)'), exit_code=3)

    small, large = size_side_by_side(BASELINE, [hungry], runs=1)

    assert small.max_mib < 40
    assert 60 < large.max_mib - small.max_mib < 72
    assert large.ratio == large.max_mib / small.max_mib


def test_memory_of_a_command_that_ends_otherwise_is_no_measurement() -> None:
    broken = Command("broken", (sys.executable, "-S", "-c", "raise SystemExit('no such thing')"))

    with pytest.raises(BenchmarkError, match="broken: exit code 1 instead of 0: no such thing"):
        size_side_by_side(BASELINE, [broken], runs=1)


def test_memory_is_shown_and_kept_with_its_budget(tmp_path: Path) -> None:
    sizes = [Size(Command("bare", ("bare",)), 3, 10.0, 1.0), Size(Command("ours", ("ours",), budget_mib=60), 3, 45.5, 4.55)]

    assert report.table(sizes).splitlines() == [
        "command       max  × baseline         budget",
        "bare     10.0 MiB        1.00",
        "ours     45.5 MiB        4.55  within 60 MiB",
    ]
    data = json.loads(report.save("memory", sizes, tmp_path).read_text())
    assert data["sizes"][1] == {"command": "ours", "runs": 3, "max_mib": 45.5, "ratio": 4.55, "budget_mib": 60}


@pytest.mark.tools
@pytest.mark.parametrize(
    "measured",
    [
        lambda: control.measure_list(1, recipes=3),
        lambda: control.measure_completion(1, recipes=3),
        lambda: control.measure_dry_run(1),
        lambda: control.measure_saved(1),
        lambda: control.measure_memory(1, recipes=3),
    ],
    ids=["list", "completion", "dry run", "saved", "memory"],
)
def test_the_control_side_can_be_measured(measured: Callable[[], list[Timing] | list[Size]]) -> None:
    baseline, *ours = measured()

    assert (baseline.command.name, baseline.ratio) == ("python -c pass", 1)
    assert all(result.ratio > 1 for result in ours)


def timing(name: str, ms: float, *, budget_ms: float | None = None) -> Timing:
    return Timing(Command(name, (name,), budget_ms=budget_ms), runs=5, min_ms=ms, median_ms=ms, ratio=ms / 10)
