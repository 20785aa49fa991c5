"""Standing by the ranks of a launch: the first that ends, or whose host falls silent, ends every wait of the launch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from sparkrun.core.plan import Guard
from sparkrun.core.remote import HostRunner, RemoteResult
from sparkrun.orchestration.apply import failure_text
from sparkrun.utils.shell import parse_answers

DOUBT_S = 40
"""A guard whose docker does not answer any more makes up its mind well before."""
JOIN_S = 2
"""How long to wait for the sessions of guards to end; they hold nothing that matters."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that cannot take part any more. ``exit_code`` where it ended and said so; ``unreachable`` when its host fell silent."""

    rank: int
    host: str
    message: str
    exit_code: int | None = None
    unreachable: bool = False
    in_doubt: bool = False
    """Its host answers, but what runs the rank there does not: whether it still runs is not known."""


class Guards:
    """The guards of one launch. ``alarm`` is set with the first loss, which stays the ``first``."""

    def __init__(self, runner: HostRunner) -> None:
        self.alarm = threading.Event()
        self.first: Loss | None = None
        self._runner = runner
        self._over = threading.Event()
        self._sure = threading.Condition()
        self._doubtful: set[int] = set()
        self._threads: list[threading.Thread] = []

    def stand_by(self, guards: Iterable[Guard]) -> None:
        """Watch these from now on, each over a session of its own."""
        for guard in guards:
            thread = threading.Thread(target=self._watch, args=(guard,), name=guard.title, daemon=True)
            self._threads.append(thread)
            thread.start()

    def settle(self) -> None:
        """Wait while a guard is in doubt about its rank, until it knows."""
        with self._sure:
            self._sure.wait_for(lambda: not self._doubtful or self.first, DOUBT_S)

    def end(self) -> None:
        """Nobody has to be watched any more. What a guard has seen by now is known then."""
        self._over.set()
        for thread in self._threads:
            thread.join(JOIN_S)

    def _watch(self, guard: Guard) -> None:
        lines: list[str] = []

        def hear(line: str) -> None:
            lines.append(line)
            if line.startswith("DOCKER="):
                self._doubt(guard.rank, doubtful=line == "DOCKER=silent")

        result = self._runner.stream(guard.host, guard.call, hear, timeout_s=None, stop=self._over)
        loss = _loss(guard, result, "\n".join(lines))
        if loss:
            self._note(loss)
        self._doubt(guard.rank, doubtful=False)

    def _note(self, loss: Loss) -> None:
        with self._sure:
            if self.first is None:
                self.first = loss
        self.alarm.set()

    def _doubt(self, rank: int, *, doubtful: bool) -> None:
        with self._sure:
            self._doubtful = self._doubtful | {rank} if doubtful else self._doubtful - {rank}
            self._sure.notify_all()


@contextmanager
def guarding(runner: HostRunner) -> Iterator[Guards]:
    """Guards that are gone when the block is left."""
    guards = Guards(runner)
    try:
        yield guards
    finally:
        guards.end()


def _loss(guard: Guard, result: RemoteResult, text: str) -> Loss | None:
    said = parse_answers(text).section("GUARD")
    if said.flag("READY") is False:
        message = said.text("MESSAGE") or said.text("REASON") or "it ended"
        doubt = said.text("REASON") == "docker_gone"
        return Loss(rank=guard.rank, host=guard.host, message=message, exit_code=said.number("EXIT_CODE"), in_doubt=doubt)
    if result.unreachable or result.timed_out:
        return Loss(rank=guard.rank, host=guard.host, message=failure_text(result), unreachable=True)
    return None
