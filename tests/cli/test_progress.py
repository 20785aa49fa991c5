"""Events as lines, whoever reads them."""

from __future__ import annotations

import sys

import pytest

from sparkrun.cli.progress import progress_sink
from sparkrun.core.events import Detail, EngineLine, Note


class Gone:
    """A stream whose reader has gone."""

    encoding = "utf-8"

    def write(self, _text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_what_nobody_reads_any_more_ends_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    emit = progress_sink(0)
    monkeypatch.setattr(sys, "stdout", Gone())
    emit(EngineLine("loading"))
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stderr", Gone())
    emit(Note("a note"))
    monkeypatch.undo()
    emit(EngineLine("ready"))
    emit(Detail("only for -v"))

    assert capsys.readouterr() == ("ready\n", "")
