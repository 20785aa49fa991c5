"""A session that holds something on a host for as long as it lives: it begins with an answer, and ends when it is let go of."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.utils.fanout import LOOK_UP_S

JOIN_S = 2


class HeldSession:
    """``held`` is the line by which the script says that it holds; ``on_line`` hears every line, in a thread of its own."""

    def __init__(
        self, host: str, call: ScriptCall, runner: HostRunner, *, held: str, on_line: Callable[[str], None] = lambda _line: None
    ) -> None:
        self._host, self._call, self._runner = host, call, runner
        self._held, self._on_line = held, on_line
        self._stop = threading.Event()
        self._answers: queue.SimpleQueue[RemoteResult | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._hold, name=f"{call.name} on {host}", daemon=True)
        self._thread.start()

    def answer(self, deadline: float | None = None) -> RemoteResult:
        """What it said until it held, or how the attempt ended; at the latest at ``deadline`` (``time.monotonic``)."""
        end = float("inf") if deadline is None else deadline
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, min(LOOK_UP_S, end - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= end:
                    return RemoteResult(self._host, -1, timed_out=True, connected=True, began=True)
                continue
            if isinstance(answer, BaseException):
                raise answer
            return answer

    def stop(self) -> None:
        """Tell it to end."""
        self._stop.set()

    def join(self) -> None:
        """Wait a little for its end."""
        self._thread.join(JOIN_S)

    def _hold(self) -> None:
        lines: list[str] = []

        def hear(line: str) -> None:
            lines.append(line)
            self._on_line(line)
            if line == self._held:
                self._answers.put(RemoteResult(self._host, 0, "\n".join(lines), connected=True, began=True))

        try:
            result = self._runner.stream(self._host, self._call, hear, timeout_s=None, stop=self._stop)
        except BaseException as error:  # noqa: BLE001 - a thread of its own: it is raised where the answer is asked for
            self._answers.put(error)
        else:
            self._answers.put(msgspec.structs.replace(result, stdout="\n".join(lines)))


def let_go(sessions: Iterable[HeldSession]) -> None:
    """End all of them at once."""
    held = tuple(sessions)
    for session in held:
        session.stop()
    for session in held:
        session.join()
