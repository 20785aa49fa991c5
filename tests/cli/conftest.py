"""The command line, in this process, with hosts in memory behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from sparkrun.cli.root import run_command


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command line and read what it says."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = run_command(words)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run
