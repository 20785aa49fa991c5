"""The serve logs of a workload's ranks, wherever its executor keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
    """Hand on the lines of all these ranks as they come, with ``view.follow`` until their engines end.

    Raises ``HostUnreachableError`` with the reason of a host that cannot be read.
    """

    def taker(rank: WorkloadFacts) -> Callable[[str], None]:
        label = str(rank.labels.get("role") or rank.name)
        return lambda text: on_line(LogLine(label, text))

    streams = [Stream(rank.host, executor.logs_call(rank.name, view), taker(rank)) for rank in ranks]
    for result in stream_all(streams, runner, timeout_s=None if view.follow else READ_TIMEOUT_S):
        if not result.ok:
            raise HostUnreachableError(f"cannot read the log on {result.host}: {failure_text(result)}", hint=failure_hint(result))
