"""Scripts that read much on hosts, and say how much they have read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.streams import Stream, stream_all

PROGRESS_S = 1.0
"""How often to tell how far it is."""

OnBytes = Callable[[int, float], None]
"""Hears how much all hosts have read, and after how many seconds."""


def read_on_hosts(calls: Mapping[str, ScriptCall], runner: HostRunner, on_bytes: OnBytes) -> tuple[RemoteResult, ...]:
    """Run a script on each host, all at once and as long as it takes; what they said, without their ``BYTES``."""
    lines: dict[str, list[str]] = {host: [] for host in calls}
    progress = _Progress(on_bytes)
    streams = [
        Stream(host, call, lambda line, host=host: progress.take(host, line, lines[host]))  # type: ignore[misc]
        for host, call in calls.items()
    ]
    results = stream_all(streams, runner, timeout_s=None) if streams else ()
    return tuple(msgspec.structs.replace(result, stdout="\n".join(lines[result.host])) for result in results)


class _Progress:
    """How much all hosts have read. Heard by several threads."""

    def __init__(self, on_bytes: OnBytes) -> None:
        self._on_bytes = on_bytes
        self._begun = self._told = time.monotonic()
        self._by_host: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, host: str, line: str, kept: list[str]) -> None:
        """A line of a host; ``kept`` gets it unless it only tells how far it is."""
        key, _equals, value = line.partition("=")
        if key != "BYTES" or not value.isdecimal():
            kept.append(line)
            return
        with self._lock:
            self._by_host[host] = int(value)
            now = time.monotonic()
            if now - self._told >= PROGRESS_S:
                self._told = now
                self._on_bytes(sum(self._by_host.values()), now - self._begun)
