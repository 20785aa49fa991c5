"""scripts/count_tests.py: the last line of a test run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.count_tests import Count, count, main


def test_files_are_added_up_into_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = write(tmp_path / "unit.xml", 'tests="10" failures="1" errors="1" skipped="2"')
    e2e = write(tmp_path / "e2e.xml", 'tests="3" failures="0" errors="0" skipped="3"')

    assert main([unit, e2e]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "tests: 6 passed, 2 failed, 5 skipped"


def test_a_run_without_any_test_fails(tmp_path: Path) -> None:
    assert main([write(tmp_path / "e2e.xml", 'tests="3" failures="0" errors="0" skipped="3"')]) == 1


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite"])
def test_an_unfinished_file_counts_as_a_failure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "unit.xml"
    path.write_text(text)

    assert count(path) == Count(failed=1)


def write(path: Path, attributes: str) -> str:
    path.write_text(f'<?xml version="1.0"?><testsuites><testsuite name="pytest" {attributes}></testsuite></testsuites>')
    return str(path)
