"""The command line, in this process, with hosts in memory behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from sparkrun.cli.root import run_command
from sparkrun.core.context import SparkrunContext
from sparkrun.testing import FakeCluster


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


class State:
    """What a command asks for its context."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def context(self) -> SparkrunContext:
        return self._cluster.sctx


def typing(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """What runs a command line and reads what it says."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = run_command(words)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command line and read what it says."""
    return typing(capsys)
