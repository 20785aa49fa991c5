"""Bringing to hosts what they lack, as planned: one transfer after the other, all hosts of one at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from sparkrun.core.errors import HostUnreachableError, LaunchFailedError
from sparkrun.core.events import Bytes, Detail, EventSink, Step
from sparkrun.core.plan import HostAction, Transfer
from sparkrun.core.remote import HostRunner, RemoteResult
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.streams import Stream, stream_all

IDLE_S = 120.0
"""A host that takes not a single byte for so long is given up."""
PROGRESS_S = 3.0
"""How often to tell how far it is."""
FINISH_S = 120.0


def distribute(transfers: Sequence[Transfer], runner: HostRunner, emit: EventSink) -> None:
    """Do all of it. Raises ``LaunchFailedError`` with each host's reason; what has arrived as a whole stays."""
    for number, transfer in enumerate(transfers, start=1):
        emit(Step(number, len(transfers), transfer.title))
        progress = _Progress(transfer, emit)
        if transfer.way in ("load", "copy"):
            results = runner.send_all([(action.host, action.call) for action in transfer.actions], progress.sent, idle_s=IDLE_S)
        else:
            results = _fetch(transfer.actions, runner, progress)
        _check(transfer, results)
        if transfer.finish:
            calls = [(action.host, action.call) for action in transfer.finish]
            _check(transfer, runner.run_all(calls, timeout_s=FINISH_S))


def _fetch(actions: Sequence[HostAction], runner: HostRunner, progress: _Progress) -> tuple[RemoteResult, ...]:
    """Hosts fetch for themselves, as long as it takes them; their lines are kept for the reason of a failure."""
    lines: dict[str, list[str]] = {action.host: [] for action in actions}
    streams = [
        Stream(action.host, action.call, lambda line, host=action.host: progress.heard(host, line, lines[host]))  # type: ignore[misc]
        for action in actions
    ]
    results = stream_all(streams, runner, timeout_s=None)
    return tuple(msgspec.structs.replace(result, stdout="\n".join(lines[result.host])) for result in results)


def _check(transfer: Transfer, results: Sequence[RemoteResult]) -> None:
    failed = [result for result in results if not result.ok]
    if not failed:
        return
    # A host that did not answer is often one of several things that went wrong, and never the most telling one.
    failed.sort(key=lambda result: result.unreachable)
    told = "".join(f"\n  {result.host}: {failure_text(result)}" for result in failed)
    kind = HostUnreachableError if all(result.unreachable for result in failed) else LaunchFailedError
    raise kind(f"cannot bring {transfer.kind} {transfer.what} to{told}", hint=failure_hint(failed[0]) or _way_out(transfer))


def _way_out(transfer: Transfer) -> str:
    if transfer.kind == "image":
        return f"bring it there another way (docker pull {transfer.what}), then run this again"
    return f"bring it there another way (hf download {transfer.what.partition(':')[0]}), then run this again"


class _Progress:
    """Tells how far a transfer is, now and then."""

    def __init__(self, transfer: Transfer, emit: EventSink) -> None:
        self._transfer, self._emit = transfer, emit
        self._begun = self._told = time.monotonic()
        self._by_host: dict[str, int] = {}

    def sent(self, done: int) -> None:
        """So many bytes have gone to every host."""
        self._tell(done, self._transfer.size_bytes)

    def heard(self, host: str, line: str, kept: list[str]) -> None:
        """A line of a host that fetches for itself."""
        kept.append(line)
        key, _equals, value = line.partition("=")
        if key == "BYTES" and value.isdecimal():
            self._by_host[host] = int(value)
            self._tell(sum(self._by_host.values()), None)
        elif key == "LAYERS":
            self._emit(Detail(f"{host}: {value} layers"))

    def _tell(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._told >= PROGRESS_S:
            self._told = now
            self._emit(Bytes(f"{self._transfer.kind} {self._transfer.what}", done, total, now - self._begun))
