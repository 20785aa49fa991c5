"""``python -m benchmarks [NAME…] [--runs N]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from benchmarks import control, fanout, report, startup
from benchmarks.measure import BenchmarkError, Size, Timing

# A benchmark is a function from the number of rounds to its results, the baseline's first.
BENCHMARKS: dict[str, Callable[[int], list[Timing] | list[Size]]] = {
    "startup": startup.measure,
    "list_1000": control.measure_list,
    "completion": control.measure_completion,
    "dry_run": control.measure_dry_run,
    "saved": control.measure_saved,
    "memory": control.measure_memory,
    "fanout": fanout.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Time sparkrun beside a baseline, in the same run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="rounds, 1 to 1000 (default: 20)")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}: there is {', '.join(BENCHMARKS)}")
    if not 1 <= arguments.runs <= 1000:
        parser.error(f"--runs is {arguments.runs}, must be 1 to 1000")
    results = [run(name, arguments.runs) for name in arguments.names or BENCHMARKS]
    return 0 if all(results) else 1


def run(name: str, runs: int) -> bool:
    """Measure, show and keep one benchmark; false when it could not be measured."""
    print(f"{name}, {runs} rounds")
    try:
        results = BENCHMARKS[name](runs)
    except (BenchmarkError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    print(report.table(results))
    print(f"written to {report.save(name, results)}\n")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
