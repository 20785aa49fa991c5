"""Ranks meet as the real ones do: one listens, the others connect, all must tell the same story, and losing one ends all."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.e2e.bed.engine.arguments import EngineError
from tests.e2e.bed.engine.record import die, log

RETRY_S = 0.1


class Meeting(NamedTuple):
    """Who meets where. ``size`` counts processes; the one with ``rank`` 0 listens."""

    what: str
    rank: int
    size: int
    address: str
    port: int
    facts: str = ""
    """What everybody must agree on besides, such as the sizes of the whole."""


def meet(meeting: Meeting, join_s: float) -> None:
    """Until all are there. Raises ``EngineError`` when they are not in time, or disagree."""
    if meeting.size <= 1:
        return
    if not 0 <= meeting.rank < meeting.size:
        raise EngineError(f"ValueError: {meeting.what}: rank {meeting.rank} is not among {meeting.size} ranks")
    if not meeting.address or not meeting.port:
        raise EngineError(f"ValueError: {meeting.what}: {meeting.size} ranks need an address and a port to meet at")
    if meeting.rank == 0:
        _gather(meeting, time.monotonic() + join_s, join_s)
    else:
        _join(meeting, time.monotonic() + join_s)


def _gather(meeting: Meeting, deadline: float, join_s: float) -> None:
    peers: dict[int, socket.socket] = {}
    server = _listen(meeting)
    while len(peers) < meeting.size - 1:
        server.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            peer, where = server.accept()
        except TimeoutError:
            joined = f"{len(peers) + 1}/{meeting.size} ranks joined"
            raise EngineError(f"torch.distributed.DistStoreError: {meeting.what}: timed out after {join_s:g} s, {joined}") from None
        rank = _take(meeting, peer, peers)
        if rank is not None:
            peers[rank] = peer
            log(f"INFO {meeting.what}: rank {rank} joined from {where[0]}")
    threading.Thread(target=_keep_listening, args=(server,), daemon=True).start()
    for rank, peer in peers.items():
        peer.sendall(b"go\n")
        _watch(peer, f"ERROR {meeting.what}: rank {rank} went away: NCCL error: remote process exited or there was a network error")


def _listen(meeting: Meeting) -> socket.socket:
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    try:
        return socket.create_server(("", meeting.port), family=family, backlog=64)
    except OSError as error:
        raise EngineError(
            f"torch.distributed.DistNetworkError: {meeting.what}: cannot listen on port {meeting.port}: {error.strerror}"
        ) from None


def _keep_listening(server: socket.socket) -> None:
    """As the real store does, for as long as it lives."""
    server.settimeout(None)
    while True:
        server.accept()[0].close()


def _take(meeting: Meeting, peer: socket.socket, peers: Iterable[int]) -> int | None:
    """The rank of a peer; ``None`` for somebody who only looked whether the port is open."""
    peer.settimeout(5)
    try:
        line = peer.makefile().readline()
        claim = Meeting(**json.loads(line)) if line else None
    except (OSError, ValueError, TypeError):
        claim = None
    if claim is None:
        peer.close()
        return None
    complaint = _disagreement(meeting, claim, peers)
    if complaint:
        peer.sendall(f"{complaint}\n".encode())
        raise EngineError(f"RuntimeError: {meeting.what}: {complaint}")
    return claim.rank


def _disagreement(own: Meeting, claim: Meeting, peers: Iterable[int]) -> str:
    if claim._replace(rank=own.rank) != own:
        differing = [name for name in Meeting._fields if name != "rank" and getattr(own, name) != getattr(claim, name)]
        stories = ", ".join(f"{name} {getattr(own, name)!r} against {getattr(claim, name)!r}" for name in differing)
        return f"ranks 0 and {claim.rank} disagree: {stories}"
    return f"two ranks call themselves {claim.rank}" if claim.rank in {0, *peers} else ""


def _join(meeting: Meeting, deadline: float) -> None:
    head = _connect(meeting, deadline)
    head.sendall((json.dumps(meeting._asdict()) + "\n").encode())
    head.settimeout(max(0.01, deadline - time.monotonic()))
    try:
        answer = head.makefile().readline().strip()
    except OSError:
        answer = "nobody else came in time"
    if answer != "go":
        raise EngineError(f"RuntimeError: {meeting.what}: rank {meeting.rank}: {answer or 'rank 0 went away'}")
    log(f"INFO {meeting.what}: rank {meeting.rank} joined {meeting.address}:{meeting.port}")
    _watch(head, f"ERROR {meeting.what}: rank 0 went away")


def _connect(meeting: Meeting, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection((meeting.address, meeting.port), 2)
        except OSError as error:
            if time.monotonic() > deadline:
                where = f"{meeting.address}:{meeting.port}"
                raise EngineError(
                    f"torch.distributed.DistNetworkError: {meeting.what}: rank {meeting.rank} cannot reach the master at {where}: {error}"
                ) from None
            time.sleep(RETRY_S)


def _watch(peer: socket.socket, last_words: str) -> None:
    """Ends this process as soon as the other has."""

    def wait() -> None:
        peer.settimeout(None)
        try:
            while peer.recv(64):
                pass
        except OSError:
            pass
        die(last_words)

    threading.Thread(target=wait, daemon=True).start()
