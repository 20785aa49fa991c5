"""Signals that end a command as Ctrl-C does: what it has begun is undone first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


class Heard:
    """Which of these signals has come, if any."""

    def __init__(self) -> None:
        self.number: int | None = None

    def exit_code(self, code: int) -> int:
        """The exit code of a command that ended with ``code``: 128 and the signal's number when it was interrupted by one."""
        return code if self.number is None or code != INTERRUPTED else 128 + self.number

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal for Ctrl-C."""
        self.number = number
        raise KeyboardInterrupt


@contextmanager
def heeding_signals() -> Iterator[Heard]:
    """Take TERM and HUP for Ctrl-C meanwhile. One that is ignored (``nohup``) stays so."""
    heard = Heard()
    before = {number: signal.getsignal(number) for number in ENDING}
    heeded = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, heard.interrupt)
    try:
        yield heard
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)
