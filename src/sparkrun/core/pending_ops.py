"""What this machine is bringing to hosts right now, told to other commands by files that a dead owner's never outlive.

``<cache>/pending/<id>_<operation>.json``. They only tell: what keeps two transfers apart are locks on the hosts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from sparkrun.core.paths import Paths
from sparkrun.utils.files import write_atomic
from sparkrun.utils.jsonio import read_json

Operation = Literal["image_pull", "image_distribute", "model_download", "model_distribute"]
STALE_S = 12 * 3600
"""A file of another machine's process, whose life cannot be seen from here, counts for so long."""


class PendingOp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transfer at work. ``host`` and ``pid`` are its owner's, ``done_bytes`` what has gone out so far."""

    cluster_id: str
    operation: str
    pid: int
    host: str
    token: str
    started_at: str
    updated_at: float = 0.0
    """Seconds since 1970."""
    recipe: str | None = None
    model: str | None = None
    image: str | None = None
    hosts: tuple[str, ...] = ()
    job_cluster_id: str | None = None
    cluster: str | None = None
    done_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def what(self) -> str:
        """What is brought."""
        return self.image or self.model or ""


class Pending:
    """A transfer of this process, told until ``close``. A cache that cannot be written keeps nothing from being brought."""

    def __init__(self, op: PendingOp, paths: Paths) -> None:
        self._op, self._path = op, _folder(paths) / f"{op.cluster_id}_{op.operation}.json"
        self._write()

    def progress(self, done: int, total: int | None) -> None:
        """So many bytes have gone out."""
        self._op = msgspec.structs.replace(self._op, done_bytes=done, total_bytes=total)
        self._write()

    def close(self) -> None:
        """It has ended."""
        kept = _read(self._path)
        if kept is None or kept.token == self._op.token:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._op = msgspec.structs.replace(self._op, updated_at=round(time.time(), 3))
        with contextlib.suppress(OSError):
            write_atomic(self._path, msgspec.json.encode(self._op).decode())


@contextmanager
def telling(
    operation: Operation, paths: Paths, *, image: str | None = None, model: str | None = None, hosts: Sequence[str] = ()
) -> Iterator[Pending]:
    """Tell of a transfer for as long as the block runs."""
    parts = "\0".join((image or "", model or "", *sorted(hosts)))
    op = PendingOp(
        cluster_id=f"sparkrun_{hashlib.sha256(parts.encode()).hexdigest()[:12]}",
        operation=operation,
        pid=os.getpid(),
        host=socket.gethostname(),
        token=secrets.token_hex(8),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        image=image,
        model=model,
        hosts=tuple(hosts),
    )
    pending = Pending(op, paths)
    try:
        yield pending
    finally:
        pending.close()


def pending_ops(paths: Paths) -> tuple[PendingOp, ...]:
    """The transfers whose owners live, oldest first; files of dead ones are removed. What cannot be read is left to whoever wrote it."""
    found: list[PendingOp] = []
    for path in _folder(paths).glob("*.json"):
        op = _read(path)
        if op is not None and _alive(op):
            found.append(op)
        elif op is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return tuple(sorted(found, key=lambda op: op.started_at))


def _alive(op: PendingOp) -> bool:
    if op.host != socket.gethostname():
        return time.time() - max(_epoch_s(op.started_at), op.updated_at) < STALE_S
    try:
        os.kill(op.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _epoch_s(moment: str) -> float:
    """ISO 8601 as seconds since 1970; 0 for anything else."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(moment).timestamp()
    return 0.0


def _folder(paths: Paths) -> Path:
    return paths.cache_dir / "pending"


def _read(path: Path) -> PendingOp | None:
    try:
        return read_json(path.read_bytes(), PendingOp)
    except (OSError, msgspec.DecodeError):
        return None
