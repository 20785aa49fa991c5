"""Several streams of lines at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall


class Stream(NamedTuple):
    """A script on a host, and who takes its lines. Lines of different streams come from different threads."""

    host: str
    call: ScriptCall
    on_line: Callable[[str], None]


def stream_all(streams: Sequence[Stream], runner: HostRunner, *, timeout_s: float | None) -> tuple[RemoteResult, ...]:
    """Run all of them to their ends; results in the given order.

    Leaving early, by Ctrl-C or because a taker of lines raised, ends every stream and waits for none.
    """
    if len(streams) == 1:
        host, call, on_line = streams[0]
        return (runner.stream(host, call, on_line, timeout_s=timeout_s),)
    readers = [_Reader(stream, runner, timeout_s) for stream in streams]
    stop = threading.Event()
    try:
        for reader in readers:
            threading.Thread(target=reader.read, args=(stop,), daemon=True).start()
        return tuple(reader.result() for reader in readers)
    finally:
        stop.set()


class _Reader:
    def __init__(self, stream: Stream, runner: HostRunner, timeout_s: float | None) -> None:
        self._stream, self._runner, self._timeout_s = stream, runner, timeout_s
        self._done = threading.Event()
        self._ended: RemoteResult | BaseException | None = None

    def read(self, stop: threading.Event) -> None:
        host, call, on_line = self._stream
        try:
            self._ended = self._runner.stream(host, call, on_line, timeout_s=self._timeout_s, stop=stop)
        except BaseException as error:  # noqa: BLE001 - a thread of its own: it is raised where the result is asked for
            stop.set()
            self._ended = error
        self._done.set()

    def result(self) -> RemoteResult:
        self._done.wait()
        if isinstance(self._ended, BaseException):
            raise self._ended
        assert self._ended is not None
        return self._ended
