"""The claim of a launch on its hosts: from the look at them until its ranks are seen by everybody else's look.

A claim is a lock that the session of the look takes before it looks, and holds. It ends with that session, so that there is nothing to
clean up, not even after ``kill -9``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from sparkrun.core.errors import HostsBusyError
from sparkrun.core.events import EventSink, Note
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.held_session import HeldSession, let_go
from sparkrun.utils.shell import parse_answers

PATIENCE_S = 120
"""How long to wait for another launch to let go: starting its ranks takes it seconds."""
RETRY_S = (0.2, 0.6)
"""Two launches that hold what the other wants both let go; chance decides who comes back first."""
WAIT_S = 1
"""How long a host itself waits for another launch to let go, before all are let go of and it is told."""
LOOKED = "LOOKED=1"
"""The line that ends a look; the claim is held from before it."""


class Claims:
    """What one launch claims. ``release`` is harmless when nothing is held."""

    def __init__(self, runner: HostRunner, emit: EventSink) -> None:
        self._runner, self._emit = runner, emit
        self._held: list[HeldSession] = []

    def take(self, looks: Sequence[tuple[str, ScriptCall]], *, timeout_s: float) -> tuple[RemoteResult, ...]:
        """Look at all hosts and claim them, or claim none: what each look answered, or how it failed.

        Waits for another launch. Raises ``HostsBusyError`` when that takes more than ``PATIENCE_S``.
        """
        deadline = time.monotonic() + PATIENCE_S
        told: set[str] = set()
        while True:
            results = self._attempt(looks, timeout_s)
            if all(result.ok for result in results):
                return results
            self.release()
            busy = [result.host for result in results if _is_busy(result)]
            if len(busy) < sum(not result.ok for result in results):
                return tuple(result for result in results if not _is_busy(result))
            self._tell(busy, told)
            if time.monotonic() > deadline:
                hint = "sparkrun status shows what runs there; a launch that hangs can be ended with Ctrl-C where it was typed"
                raise HostsBusyError(f"another launch has been at work on {', '.join(busy)} for {PATIENCE_S} s", hint=hint)
            time.sleep(random.uniform(*RETRY_S))

    def _attempt(self, looks: Sequence[tuple[str, ScriptCall]], timeout_s: float) -> tuple[RemoteResult, ...]:
        self._held = [HeldSession(host, _claiming(call), self._runner, held=LOOKED) for host, call in looks]
        deadline = time.monotonic() + timeout_s
        return tuple(held.answer(deadline) for held in self._held)

    def release(self) -> None:
        """Let go of all of them."""
        let_go(self._held)
        self._held = []

    def _tell(self, busy: Sequence[str], told: set[str]) -> None:
        if new := [host for host in busy if host not in told]:
            told.update(new)
            self._emit(Note(f"another launch is at work on {', '.join(new)}: waiting for it"))


@contextmanager
def claiming(runner: HostRunner, emit: EventSink) -> Iterator[Claims]:
    """Claims that are let go of when the block is left."""
    claims = Claims(runner, emit)
    try:
        yield claims
    finally:
        claims.release()


def _claiming(look: ScriptCall) -> ScriptCall:
    return msgspec.structs.replace(look, params={**look.params, "CLAIM": "1", "CLAIM_WAIT_S": str(WAIT_S), "LIFELINE": "1"})


def _is_busy(result: RemoteResult) -> bool:
    return not result.ok and parse_answers(result.stdout).section("CLAIM").text("REASON") == "busy"
