"""The serve logs of a workload's ranks, wherever its executor keeps them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from sparkrun.core.errors import HostUnreachableError
from sparkrun.core.facts import WorkloadFacts
from sparkrun.core.remote import HostRunner
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.executor import Executor, LogView
from sparkrun.orchestration.streams import Stream, stream_all

READ_TIMEOUT_S = 60


class LogLine(msgspec.Struct, frozen=True):
    """A line of a serve log and the rank it came from."""

    rank: str
    text: str


def read_logs(
    ranks: Iterable[WorkloadFacts], executor: Executor, view: LogView, on_line: Callable[[LogLine], None], runner: HostRunner
) -> None:
    """Hand on the lines of all these ranks, with ``view.follow`` as they come, until their engines end; else in the order of their times,
    or rank after rank where the executor keeps none.

    Raises ``HostUnreachableError`` with the reason of a host that cannot be read.
    """

    def taker(rank: WorkloadFacts) -> Callable[[str], None]:
        label = label_of(rank)
        return lambda text: on_line(LogLine(label, text))

    wanted = tuple(ranks)
    gathered = _Gathered(len(wanted), on_line) if len(wanted) > 1 and not view.follow else None
    if gathered:
        view = msgspec.structs.replace(view, dated=executor.dated_logs)
    takers = [gathered.taker(number, label_of(rank), dated=view.dated) if gathered else taker(rank) for number, rank in enumerate(wanted)]
    streams = [Stream(rank.host, executor.logs_call(rank.name, view), take) for rank, take in zip(wanted, takers, strict=True)]
    results = stream_all(streams, runner, timeout_s=None if view.follow else READ_TIMEOUT_S)
    if gathered:
        gathered.hand_on()
    for result in results:
        if not result.ok:
            raise HostUnreachableError(f"cannot read the log on {result.host}: {failure_text(result)}", hint=failure_hint(result))


def label_of(rank: WorkloadFacts) -> str:
    """What the lines of a rank are marked with."""
    return str(rank.labels.get("role") or rank.name)


class _Gathered:
    """The lines of several ranks, to be handed on in the order of their times. One without a time keeps its place behind the one before."""

    def __init__(self, ranks: int, on_line: Callable[[LogLine], None]) -> None:
        self._lines: list[list[tuple[float, LogLine]]] = [[] for _ in range(ranks)]
        self._on_line = on_line

    def taker(self, number: int, label: str, *, dated: bool) -> Callable[[str], None]:
        """Who takes the lines of a rank."""
        lines = self._lines[number]

        def take(text: str) -> None:
            moment, rest = _dated(text) if dated else (None, text)
            before = lines[-1][0] if lines else 0.0
            lines.append((before if moment is None else max(moment, before), LogLine(label, rest)))

        return take

    def hand_on(self) -> None:
        """All of them; those of the same moment in rank order."""
        for _moment, line in heapq.merge(*self._lines, key=lambda entry: entry[0]):
            self._on_line(line)


def _dated(text: str) -> tuple[float | None, str]:
    """When a line was written, and the line."""
    first, _, rest = text.partition(" ")
    try:
        return datetime.fromisoformat(first).timestamp(), rest
    except ValueError:
        return None, text
