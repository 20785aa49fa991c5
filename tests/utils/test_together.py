"""Whatever waits in the main thread hears Ctrl-C, also one that came too early to end the wait, or to another thread."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.held_session import HeldSession
from sparkrun.utils.proc import run_process
from sparkrun.utils.together import run_together
from tests.pace import slowness

LIMIT_S = 8


def ctrl_c_elsewhere() -> None:
    """As when the kernel gives the signal to a thread that is not the one that waits."""

    def press() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    threading.Thread(target=press).start()


class Silent:
    """A host on which nothing is ever said."""

    def stream(self, host: str, call: ScriptCall, on_line: Callable[[str], None], *, timeout_s: float | None, stop: threading.Event) -> Any:
        del call, on_line, timeout_s
        stop.wait(LIMIT_S)
        return RemoteResult(host, 0)


def jobs() -> None:
    run_together([lambda stop: stop.wait(LIMIT_S), lambda stop: stop.wait(LIMIT_S)])


def program() -> None:
    run_process(["sleep", str(LIMIT_S)], stdin="", timeout_s=LIMIT_S)


def session() -> None:
    held = HeldSession("a", ScriptCall("claim", {}), Silent(), held="HELD")  # type: ignore[arg-type]
    try:
        held.answer()
    finally:
        held.stop()


@pytest.mark.parametrize("wait", [jobs, program, session])
def test_ctrl_c_that_ends_no_wait_is_heard_soon(wait: Callable[[], None]) -> None:
    began = time.monotonic()
    ctrl_c_elsewhere()
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert time.monotonic() - began < min(LIMIT_S, 3 * slowness())
