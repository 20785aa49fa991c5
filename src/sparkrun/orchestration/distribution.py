"""Bringing to hosts what they lack, as planned: all transfers at the same time, each to all of its hosts at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import NamedTuple

import msgspec

from sparkrun.core.events import Bytes, Detail, EventSink, Note, Step
from sparkrun.core.paths import Paths
from sparkrun.core.pending_ops import Operation, Pending, telling
from sparkrun.core.plan import Branch, Flow, HostAction, Transfer
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.relay import Heard, listen_to, relay_call, relay_results
from sparkrun.utils.shell import parse_answers
from sparkrun.utils.together import run_together

PROGRESS_S = 3.0
"""How often to tell how far it is."""
FINISH_S = 1800.0
"""What a host may take to put in place what has arrived: writing it to its disk takes as long as the disk needs."""
FINAL = frozenset({"disk_full", "cache_not_writable", "docker_missing", "docker_denied", "docker_down", "docker_silent"})
"""Reasons of a host that no other way to it would change."""

_OPERATIONS: dict[str, Operation] = {
    "pull": "image_pull",
    "load": "image_distribute",
    "download": "model_download",
    "copy": "model_distribute",
}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What did not arrive on a host, and why. ``link`` is the host before it, where it was lost on the way from there."""

    transfer: Transfer
    host: str
    reason: str
    hint: str | None = None
    link: str = ""
    unreachable: bool = False
    final: bool = False
    parts_refused: bool = False
    """Docker wants the whole archive."""
    bad_source: bool = False
    """What it came from is damaged, or cannot be read there."""


def distribute(transfers: Sequence[Transfer], runner: HostRunner, emit: EventSink, paths: Paths) -> tuple[Failure, ...]:
    """Do all of it; what has arrived as a whole stays, whatever became of the rest. Returns what failed, raises nothing for it."""
    for number, transfer in enumerate(transfers, start=1):
        emit(Step(number, len(transfers), transfer.title))
        if transfer.account:
            emit(Note(f"{transfer.kind} {transfer.what}: {transfer.account}"))

    def job(transfer: Transfer) -> Callable[[Event], tuple[Failure, ...]]:
        return lambda stop: _told(transfer, runner, emit, paths, stop)

    return tuple(failure for failures in run_together([job(transfer) for transfer in transfers]) for failure in failures)


def _told(transfer: Transfer, runner: HostRunner, emit: EventSink, paths: Paths, stop: Event) -> tuple[Failure, ...]:
    image, model = (transfer.what, None) if transfer.kind == "image" else (None, transfer.what)
    with telling(_OPERATIONS[transfer.way], paths, image=image, model=model, hosts=transfer.hosts) as pending:
        return _do(transfer, runner, _Progress(transfer, emit, pending), stop)


def _do(transfer: Transfer, runner: HostRunner, progress: _Progress, stop: Event) -> tuple[Failure, ...]:
    if transfer.way in ("pull", "download"):
        return tuple(_failure(transfer, result) for result in _fetch(transfer, runner, progress, stop) if not result.ok)

    def job(number: int, flow: Flow) -> Callable[[Event], tuple[RemoteResult, ...]]:
        return lambda inner: _flow(transfer, flow, _Carrier(runner, progress.part(number), _Either(stop, inner)))

    ended = run_together([job(number, flow) for number, flow in enumerate(transfer.flows)])
    failed = {result.host: _failure(transfer, result) for results in ended for result in results if not result.ok}
    progress.close()
    calls = [(action.host, action.call) for action in transfer.finish if action.host not in failed]
    if calls and not stop.is_set():
        results = runner.run_all(calls, timeout_s=FINISH_S)
        failed |= {result.host: _failure(transfer, result) for result in results if not result.ok}
    return tuple(failed.values())


class _Carrier(NamedTuple):
    """What carries a stream: the way to hosts, who hears of its bytes, and what ends it."""

    runner: HostRunner
    told: Callable[[int], None]
    stop: Event


class _Either(Event):
    """An event that is set with any of several others."""

    def __init__(self, *others: Event) -> None:
        super().__init__()
        self._others = others

    def is_set(self) -> bool:
        return super().is_set() or any(other.is_set() for other in self._others)


def _fetch(transfer: Transfer, runner: HostRunner, progress: _Progress, stop: Event) -> tuple[RemoteResult, ...]:
    """Machines fetch for themselves, as long as it takes them; their lines are kept for the reason of a failure."""

    def job(action: HostAction) -> Callable[[Event], RemoteResult]:
        return lambda inner: _fetch_on(action, runner, progress, _Either(stop, inner))

    return run_together([job(action) for action in transfer.actions])


def _fetch_on(action: HostAction, runner: HostRunner, progress: _Progress, stop: Event) -> RemoteResult:
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        progress.heard(action.host, line)

    if action.host:
        result = runner.stream(action.host, action.call, hear, timeout_s=None, stop=stop)
    else:
        result = runner.stream_here(action.call, hear, timeout_s=None, stop=stop)
    return msgspec.structs.replace(result, host=action.host, stdout="\n".join(lines))


def _flow(transfer: Transfer, flow: Flow, carrier: _Carrier) -> tuple[RemoteResult, ...]:
    """One stream to all hosts of a transfer."""
    sinks = {action.host: action.call for action in flow.actions}
    if transfer.source:
        return _from_host(transfer, sinks, flow.feed, carrier)
    feed = ("bash", "-c", flow.feed)
    calls = [
        (branch.first, msgspec.structs.replace(_branch_call(branch, sinks, transfer.idle_s), feed=feed)) for branch in transfer.branches
    ]
    results = carrier.runner.send_all(calls, carrier.told, idle_s=transfer.idle_s, stop=carrier.stop)
    return tuple(each for branch, result in zip(transfer.branches, results, strict=True) for each in _of_branch(branch, sinks, result))


def _from_host(transfer: Transfer, sinks: dict[str, ScriptCall], feed: str, carrier: _Carrier) -> tuple[RemoteResult, ...]:
    branch = transfer.branches[0]
    heard = listen_to(branch.hosts)

    def hear(line: str) -> None:
        heard.take(line)
        carrier.told(heard.bytes_done)

    call = relay_call(branch.first, list(sinks.items()), branch.links, idle_s=transfer.idle_s, feed=feed)
    whole = carrier.runner.stream(branch.first, call, hear, timeout_s=None, stop=carrier.stop)
    return relay_results(heard, whole, branch.hosts, [host for host in branch.hosts if host in sinks])


def _branch_call(branch: Branch, sinks: dict[str, ScriptCall], idle_s: float) -> ScriptCall:
    """A single host gets a relay as well: it gives up when nothing comes any more, whoever was to send it."""
    return relay_call(branch.first, [(host, sinks[host]) for host in branch.hosts], branch.links, idle_s=idle_s)


def _of_branch(branch: Branch, sinks: dict[str, ScriptCall], result: RemoteResult) -> tuple[RemoteResult, ...]:
    if not result.ok and not result.stdout:
        return tuple(msgspec.structs.replace(result, host=host) for host in branch.hosts)
    heard: Heard = listen_to(branch.hosts)
    for line in result.stdout.splitlines():
        heard.take(line)
    return relay_results(heard, msgspec.structs.replace(result, stdout=""), branch.hosts, [host for host in branch.hosts if host in sinks])


def _failure(transfer: Transfer, result: RemoteResult) -> Failure:
    reason = parse_answers(result.stdout).text("REASON") or ""
    return Failure(
        transfer=transfer,
        host=result.host,
        reason=failure_text(result),
        hint=failure_hint(result),
        link=_lost_after(transfer, result.host) if result.unreachable and "LOST=" in result.stdout else "",
        unreachable=result.unreachable,
        final=reason in FINAL,
        parts_refused=reason == "layers_missing",
        bad_source=bool(transfer.flows) and reason in ("damaged", "source_failed"),
    )


def _lost_after(transfer: Transfer, host: str) -> str:
    """The host that handed on to this one."""
    return next((link.source for branch in transfer.branches for link in branch.links if link.target == host), "")


class _Progress:
    """Tells how far a transfer is, now and then. Heard by several threads."""

    def __init__(self, transfer: Transfer, emit: EventSink, pending: Pending) -> None:
        self._transfer, self._emit, self._pending = transfer, emit, pending
        self._begun = self._told = time.monotonic()
        self._parts: dict[object, int] = {}
        self._lock = threading.Lock()

    def part(self, number: int) -> Callable[[int], None]:
        """Who hears of the bytes of one of several streams."""
        return lambda done: self._tell(number, done)

    def heard(self, host: str, line: str) -> None:
        """A line of a machine that fetches for itself."""
        key, _equals, value = line.partition("=")
        if key == "BYTES" and value.isdecimal():
            self._tell(host, int(value))
        elif key == "REPLACED":
            self._emit(Note(f"{host}: there was a newer {self._transfer.what}; it takes the place of {value.removeprefix('sha256:')[:12]}"))
        elif key == "LAYERS":
            self._emit(Detail(f"{host or 'this machine'}: {value} layers"))

    def close(self) -> None:
        """All bytes have gone out."""
        taken_s = time.monotonic() - self._begun
        if done := sum(self._parts.values()):
            self._emit(Detail(f"{self._transfer.kind} {self._transfer.what}: {done} bytes in {taken_s:.1f} s"))

    def _tell(self, part: object, done: int) -> None:
        with self._lock:
            self._parts[part] = done
            now = time.monotonic()
            if now - self._told < PROGRESS_S:
                return
            self._told = now
            total, so_far = self._transfer.size_bytes, sum(self._parts.values())
            self._pending.progress(so_far, total)
            self._emit(Bytes(f"{self._transfer.kind} {self._transfer.what}", so_far, total, now - self._begun))
