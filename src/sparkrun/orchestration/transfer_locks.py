"""Locks on hosts for what is being brought to them: whoever comes second waits, and then finds it there."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from sparkrun.core.events import EventSink, Note
from sparkrun.core.plan import Transfer
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall

JOIN_S = 2


@contextmanager
def holding_transfers(transfers: Sequence[Transfer], runner: HostRunner, emit: EventSink) -> Iterator[bool]:
    """Hold what the transfers bring, on the hosts that they bring it to. Yields whether somebody else was bringing some of it.

    Hosts are locked one after the other, in the order of their names: two launches then never wait for each other. A host that cannot be
    locked is told of by the transfer itself.
    """
    held: list[_Held] = []
    waited = False
    try:
        for host, files in sorted(_locks(transfers).items()):
            lock = _Held(host, files, runner, lambda name: emit(Note(f"another launch is bringing something to {name}: waiting for it")))
            held.append(lock)
            waited = lock.wait() or waited
        yield waited
    finally:
        for lock in held:
            lock.stop.set()
        for lock in held:
            lock.thread.join(JOIN_S)


def lock_file(kind: str, what: str) -> str:
    """The file that stands for an image or a model on every host."""
    return f"/tmp/sparkrun.bring.{hashlib.sha256(f'{kind} {what}'.encode()).hexdigest()[:16]}"


def _locks(transfers: Sequence[Transfer]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for transfer in transfers:
        for host in transfer.hosts:
            if host:
                found[host] = (*found.get(host, ()), lock_file(transfer.kind, transfer.what))
    return found


class _Held:
    """The session that holds the locks on one host."""

    def __init__(self, host: str, files: tuple[str, ...], runner: HostRunner, on_wait: Callable[[str], None]) -> None:
        self._host, self._runner, self._on_wait = host, runner, on_wait
        self._call = ScriptCall("transfer_lock", {"LOCKS": files, "LIFELINE": "1"})
        self.stop = threading.Event()
        self._answers: queue.SimpleQueue[RemoteResult | None] = queue.SimpleQueue()
        self._waited = False
        self.thread = threading.Thread(target=self._hold, name=f"transfer lock on {host}", daemon=True)
        self.thread.start()

    def wait(self) -> bool:
        """Until it is held, or cannot be; whether another had it."""
        self._answers.get()
        return self._waited

    def _hold(self) -> None:
        def hear(line: str) -> None:
            if line == "WAITING=1":
                self._waited = True
                self._on_wait(self._host)
            elif line == "HELD=1":
                self._answers.put(None)

        result = self._runner.stream(self._host, self._call, hear, timeout_s=None, stop=self.stop)
        self._answers.put(msgspec.structs.replace(result, stdout=""))
