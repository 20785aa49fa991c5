"""Add up JUnit result files and print one line a person and a CI can read.

usage: count_tests.py FILE…     exit 1 when no test was run
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Count:
    """How many tests ended in which way; an error in a fixture counts as a failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"tests: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def main(paths: Sequence[str]) -> int:
    total = sum_counts(count(Path(path)) for path in paths)
    print(f"\n{total}")
    return 0 if total.passed or total.failed else 1


def count(path: Path) -> Count:
    """The tests of one result file; a file that was never finished counts as one failure."""
    try:
        suites = list(ET.parse(path).iter("testsuite"))
    except (OSError, ET.ParseError):
        return Count(failed=1)
    return sum_counts(count_suite(suite) for suite in suites)


def count_suite(suite: ET.Element) -> Count:
    total, failures, errors, skipped = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    return Count(total - failures - errors - skipped, failures + errors, skipped)


def sum_counts(counts: Iterable[Count]) -> Count:
    return sum(counts, start=Count())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
