"""The claim of a launch on its hosts: from the look at them until its ranks are seen by everybody else's look.

A claim is a lock that the session of the look takes before it looks, and holds. It ends with that session, so that there is nothing to
clean up, not even after ``kill -9``.
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
WAIT_S = 1
"""How long a host itself waits for another launch to let go, before all are let go of and it is told."""
JOIN_S = 2
LOOKED = "LOOKED=1"
"""The line that ends a look; the claim is held from before it."""


class Claims:
    """What one launch claims. ``release`` is harmless when nothing is held."""

    def __init__(self, runner: HostRunner, emit: EventSink) -> None:
        self._runner, self._emit = runner, emit
        self._held: list[_Held] = []

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
        self._held = [_Held(host, _claiming(call), self._runner) for host, call in looks]
        deadline = time.monotonic() + timeout_s
        return tuple(held.answer(deadline) for held in self._held)

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
    """The session that looks at one host and holds the claim on it."""

    def __init__(self, host: str, call: ScriptCall, runner: HostRunner) -> None:
        self._host, self._call, self._runner = host, call, runner
        self.stop = threading.Event()
        self._answers: queue.SimpleQueue[RemoteResult | BaseException] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._hold, name=f"claim on {host}", daemon=True)
        self.thread.start()

    def answer(self, deadline: float) -> RemoteResult:
        """What the look answered once it is over, or how the attempt ended."""
        try:
            answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return RemoteResult(self._host, -1, timed_out=True, connected=True, began=True)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _hold(self) -> None:
        lines: list[str] = []

        def hear(line: str) -> None:
            lines.append(line)
            if line == LOOKED:
                self._answers.put(RemoteResult(self._host, 0, "\n".join(lines), connected=True, began=True))

        try:
            result = self._runner.stream(self._host, self._call, hear, timeout_s=None, stop=self.stop)
        except BaseException as error:  # noqa: BLE001 - a thread of its own: it is raised where the answer is asked for
            self._answers.put(error)
        else:
            self._answers.put(msgspec.structs.replace(result, stdout="\n".join(lines)))


def _claiming(look: ScriptCall) -> ScriptCall:
    return msgspec.structs.replace(look, params={**look.params, "CLAIM": "1", "CLAIM_WAIT_S": str(WAIT_S), "LIFELINE": "1"})


def _is_busy(result: RemoteResult) -> bool:
    return not result.ok and parse_answers(result.stdout).section("CLAIM").text("REASON") == "busy"
