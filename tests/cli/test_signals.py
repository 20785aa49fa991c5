"""TERM and HUP end a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal

import pytest

from sparkrun.cli.signals import heeding_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_interrupts_and_is_the_exit_code(number: signal.Signals, code: int) -> None:
    with heeding_signals() as heard:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        assert heard.exit_code(130) == code
        assert (heard.exit_code(0), heard.exit_code(1)) == (0, 1)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_without_a_signal_the_exit_code_stays() -> None:
    with heeding_signals() as heard:
        assert heard.exit_code(130) == 130


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeding_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
