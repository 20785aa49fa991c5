"""What is being brought to hosts, as other commands see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from sparkrun.core.paths import Paths
from sparkrun.core.pending_ops import PendingOp, pending_ops, telling


def paths(root: Path) -> Paths:
    return Paths(root / "config", root / "cache")


def test_a_transfer_is_told_while_it_runs_and_not_afterwards(tmp_path: Path) -> None:
    where = paths(tmp_path)
    with telling("image_distribute", where, image="r/i:1", hosts=("b", "a")) as pending:
        pending.progress(5, 10)
        (op,) = pending_ops(where)
        assert (op.what, op.hosts, op.done_bytes, op.total_bytes) == ("r/i:1", ("b", "a"), 5, 10)
        (file,) = (where.cache_dir / "pending").iterdir()
        assert (file.name, file.stat().st_mode & 0o777) == (f"{op.cluster_id}_image_distribute.json", 0o600)

    assert pending_ops(where) == ()


def test_a_dead_owner_blocks_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    where = paths(tmp_path)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    with telling("model_download", where, model="o/m") as pending:
        del pending
        (op,) = pending_ops(where)
    file = where.cache_dir / "pending" / f"{op.cluster_id}_model_download.json"
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(op, pid=int(dead.stdout))))

    assert pending_ops(where) == ()
    assert not file.exists()


def test_an_owner_elsewhere_counts_until_it_has_not_been_heard_of_for_long(tmp_path: Path) -> None:
    where = paths(tmp_path)
    with telling("model_download", where, model="o/m"):
        (op,) = pending_ops(where)
    far = msgspec.structs.replace(op, host="elsewhere", pid=1)
    file = where.cache_dir / "pending" / "far_model_download.json"
    file.write_bytes(msgspec.json.encode(far))
    assert pending_ops(where) == (far,)

    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(far, started_at="2020-01-01T00:00:00+00:00", updated_at=0.0)))
    assert pending_ops(where) == ()


def test_files_of_earlier_versions_and_broken_ones_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    folder = paths(tmp_path).cache_dir / "pending"
    folder.mkdir(parents=True)
    (folder / "x_image_pull.json").write_text("{broken")
    whole = {
        "cluster_id": "sparkrun_y",
        "operation": "image_pull",
        "pid": 1,
        "host": "far",
        "token": "t",
        "started_at": "2999-01-01T00:00:00+00:00",
    }
    (folder / "y_image_pull.json").write_bytes(msgspec.json.encode({**whole, "more": 1}))

    (folder / "z_image_pull.json").write_bytes(msgspec.json.encode({**whole, "started_at": "yesterday"}))

    assert [op.cluster_id for op in pending_ops(paths(tmp_path))] == ["sparkrun_y"]
    assert sorted(path.name[0] for path in folder.iterdir()) == ["x", "y"]


def test_a_transfer_that_another_process_took_over_is_not_closed_by_the_first(tmp_path: Path) -> None:
    where = paths(tmp_path)
    with telling("image_pull", where, image="r/i:1") as first:
        del first
        (op,) = pending_ops(where)
        other: PendingOp = msgspec.structs.replace(op, token="another")
        (where.cache_dir / "pending" / f"{op.cluster_id}_image_pull.json").write_bytes(msgspec.json.encode(other))

    assert pending_ops(where) == (other,)
