"""Locks on hosts for what is being brought to them: whoever comes second waits, and then finds it there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from sparkrun.core.events import EventSink, Note
from sparkrun.core.plan import Transfer
from sparkrun.core.remote import HostRunner, ScriptCall
from sparkrun.orchestration.held_session import HeldSession, let_go

WAITING, HELD = "WAITING=1", "HELD=1"
"""What ``transfer_lock.sh`` says when another has one of the locks, and when it has all of them."""


@contextmanager
def holding_transfers(transfers: Sequence[Transfer], runner: HostRunner, emit: EventSink) -> Iterator[bool]:
    """Hold what the transfers bring, on the hosts that they bring it to. Yields whether somebody else was bringing some of it.

    Hosts are locked one after the other, in the order of their names: two launches then never wait for each other. A host that cannot be
    locked is told of by the transfer itself.
    """
    held: list[HeldSession] = []
    waited: list[str] = []

    def hear(host: str, line: str) -> None:
        if line == WAITING:
            waited.append(host)
            emit(Note(f"another launch is bringing something to {host}: waiting for it"))

    try:
        for host, files in sorted(_locks(transfers).items()):
            call = ScriptCall("transfer_lock", {"LOCKS": files, "LIFELINE": "1"})
            held.append(HeldSession(host, call, runner, held=HELD, on_line=partial(hear, host)))
            held[-1].answer()
        yield bool(waited)
    finally:
        let_go(held)


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
