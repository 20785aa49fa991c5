"""What is kept of a launch that failed: a file a host, with what its hooks printed and the last lines of its ranks, without secrets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkrun.core.errors import SparkrunError
from sparkrun.core.paths import Paths
from sparkrun.core.plan import mask
from sparkrun.orchestration.launch_record import LaunchRecord
from sparkrun.utils.files import write_atomic

KEPT_S = 30 * 24 * 3600
"""How long such a file is kept."""


@contextmanager
def keeping_failure(record: LaunchRecord, paths: Paths) -> Iterator[None]:
    """A launch that fails inside has what its hosts said kept, its message without secrets, and a last line that names the files."""
    try:
        yield
    except SparkrunError as error:
        if record.plan:
            error.reword(mask(error.message, record.plan.secret_values))
        if kept := keep_failure(record, paths):
            more = f" and {len(kept) - 1} more beside it" if len(kept) > 1 else ""
            error.reword(f"{error.message}\n  kept in {kept[0]}{more}")
        raise


def keep_failure(record: LaunchRecord, paths: Paths) -> tuple[Path, ...]:
    """Write ``failures/<cluster_id>-<host>.log`` for each host that said something, and remove those that are older than 30 days.

    Returns the files. A cache that cannot be written keeps nothing: the failure itself is what matters.
    """
    if record.plan is None:
        return ()
    kept = []
    with contextlib.suppress(OSError):
        paths.failures_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        _prune(paths.failures_dir)
        for host, text in _by_host(record):
            path = paths.failures_dir / f"{record.plan.cluster_id}-{host.replace('/', '_')}.log"
            write_atomic(path, mask(text, record.plan.secret_values))
            kept.append(path)
    return tuple(kept)


def _by_host(record: LaunchRecord) -> Iterator[tuple[str, str]]:
    assert record.plan is not None
    said: dict[str, list[str]] = {host: [text] for host, text in record.output.items()}
    for rank in record.plan.ranks:
        if (seen := record.evidence.get(rank.rank)) and seen.found:
            end = "" if seen.exit_code is None else f", exit code {seen.exit_code}"
            said.setdefault(rank.host, []).append("\n".join([f"--- rank {rank.rank}, {rank.name}{end}", *seen.lines]))
    yield from ((host, "\n".join(texts).rstrip("\n") + "\n") for host, texts in said.items())


def _prune(folder: Path) -> None:
    oldest = time.time() - KEPT_S
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
