"""Several streams of lines at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import NamedTuple

from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.utils.together import run_together


class Stream(NamedTuple):
    """A script on a host, and who takes its lines. Lines of different streams come from different threads."""

    host: str
    call: ScriptCall
    on_line: Callable[[str], None]


def stream_all(streams: Sequence[Stream], runner: HostRunner, *, timeout_s: float | None) -> tuple[RemoteResult, ...]:
    """Run all of them to their ends; results in the given order.

    Leaving early, by Ctrl-C or because a taker of lines raised, ends every stream and waits for none.
    """

    def job(stream: Stream) -> Callable[[Event], RemoteResult]:
        return lambda stop: runner.stream(stream.host, stream.call, stream.on_line, timeout_s=timeout_s, stop=stop)

    return run_together([job(stream) for stream in streams])
