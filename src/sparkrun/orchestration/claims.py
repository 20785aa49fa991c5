"""The claim of a launch on its hosts: from the look at them until its ranks are seen by everybody else's look.

A claim is a lock that a session holds on each host. It ends with that session, so that there is nothing to clean up, not even after
``kill -9``.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from sparkrun.core.errors import HostsBusyError
from sparkrun.core.events import EventSink, Note
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.utils.shell import parse_answers

PATIENCE_S = 120
"""How long to wait for another launch to let go: starting its ranks takes it seconds."""
RETRY_S = (0.2, 0.6)
"""Two launches that hold what the other wants both let go; chance decides who comes back first."""
JOIN_S = 2
CONNECT_TIMEOUT_S = 3
"""How long a host may take to let us in: one that is off delays nobody for longer."""
CLAIM = ScriptCall("claim", {"LIFELINE": "1"}, connect_timeout_s=CONNECT_TIMEOUT_S)


class Claims:
    """What one launch claims. ``release`` is harmless when nothing is held."""

    def __init__(self, runner: HostRunner, emit: EventSink) -> None:
        self._runner, self._emit = runner, emit
        self._held: list[_Held] = []

    def take(self, hosts: Sequence[str]) -> tuple[RemoteResult, ...]:
        """Claim all hosts, or none. Returns how it ended on hosts that could not be asked at all; then nothing is held.

        Waits for another launch. Raises ``HostsBusyError`` when that takes more than ``PATIENCE_S``.
        """
        deadline = time.monotonic() + PATIENCE_S
        told: set[str] = set()
        while True:
            self._held = [_Held(host, self._runner) for host in hosts]
            answers = [(held.host, held.answer()) for held in self._held]
            failed = tuple(result for _host, result in answers if result and not _is_busy(result))
            busy = [host for host, result in answers if result and _is_busy(result)]
            if not failed and not busy:
                return ()
            self.release()
            if failed:
                return failed
            self._tell(busy, told)
            if time.monotonic() > deadline:
                hint = "sparkrun status shows what runs there; a launch that hangs can be ended with Ctrl-C where it was typed"
                raise HostsBusyError(f"another launch has been at work on {', '.join(busy)} for {PATIENCE_S} s", hint=hint)
            time.sleep(random.uniform(*RETRY_S))

    def release(self) -> None:
        """Let go of all of them."""
        for held in self._held:
            held.stop.set()
        for held in self._held:
            held.thread.join(JOIN_S)
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


class _Held:
    """The session that holds the claim on one host."""

    def __init__(self, host: str, runner: HostRunner) -> None:
        self.host, self._runner = host, runner
        self.stop = threading.Event()
        self._answers: queue.SimpleQueue[RemoteResult | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._hold, name=f"claim on {host}", daemon=True)
        self.thread.start()

    def answer(self) -> RemoteResult | None:
        """``None`` once the host is claimed, else how the attempt ended."""
        return self._answers.get()

    def _hold(self) -> None:
        lines: list[str] = []

        def hear(line: str) -> None:
            lines.append(line)
            if line == "CLAIMED=1":
                self._answers.put(None)

        result = self._runner.stream(self.host, CLAIM, hear, timeout_s=None, stop=self.stop)
        self._answers.put(msgspec.structs.replace(result, stdout="\n".join(lines)))


def _is_busy(result: RemoteResult) -> bool:
    return parse_answers(result.stdout).text("REASON") == "busy"
