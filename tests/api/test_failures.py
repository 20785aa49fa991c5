"""What is kept of a launch that failed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.testing import FakeCluster
from tests.api.two_hosts import two_hosts

RECIPE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2, api_key: s3cr3t}\n"


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    return two_hosts(tmp_path, RECIPE)


def fail(two: FakeCluster, **options: object) -> api.SparkrunError:
    with pytest.raises(api.SparkrunError) as caught:
        api.run(
            api.RunOptions(recipe=str(two.root / "r.yaml"), hosts=api.HostOptions(hosts=("a,b",)), trust=True, **options),  # type: ignore[arg-type]
            sctx=two.sctx,
        )
    return caught.value


def kept(two: FakeCluster) -> dict[str, str]:
    """By the host in its name."""
    return {path.stem.rpartition("-")[2]: path.read_text() for path in two.sctx.config.paths.failures_dir.glob("*.log")}


def test_the_last_lines_of_every_rank_are_kept_beside_the_error_without_secrets(two: FakeCluster) -> None:
    two["b"].dies_with = 7
    two["b"].engine_log = [*(f"line {number}" for number in range(150)), "the key is s3cr3t"]
    error = fail(two)
    (first,) = [line for line in error.message.splitlines() if "kept in " in line]
    path = Path(first.partition("kept in ")[2].partition(" and ")[0])
    assert path.is_file()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "line 0\nline 1\n" in kept(two)["b"]
    assert kept(two)["b"].startswith("--- rank 1, sparkrun_")
    assert "exit code 7" in kept(two)["b"]
    assert "line 100\n" not in error.message
    assert not [text for text in (*kept(two).values(), error.message) if "s3cr3t" in text]


def test_the_output_of_a_hook_that_failed_is_kept_for_its_host(two: FakeCluster) -> None:
    (two.root / "r.yaml").write_text(RECIPE + "pre_exec: [./prepare]\n")
    two["a"].docker.hook_output = ["cannot prepare"]
    two["a"].docker.hook = lambda _name, _command: 3
    error = fail(two)
    assert "cannot prepare" in error.message
    assert "cannot prepare" in kept(two)["a"]


def test_what_a_hook_printed_stands_below_its_own_host(two: FakeCluster) -> None:
    (two.root / "r.yaml").write_text(f"{RECIPE}pre_exec: ['false']\n")
    for host in two.by_name.values():
        host.docker.hook = lambda _name, _command: 3
        host.docker.hook_output = [f"said on {host.name}"]
    lines = fail(two).message.splitlines()
    assert lines[:3] == ["pre_exec[1] failed on a: it ended with exit code 3", "  | said on a", "  b: it ended with exit code 3"]


def test_what_is_older_than_thirty_days_goes(two: FakeCluster) -> None:
    folder = two.sctx.config.paths.failures_dir
    folder.mkdir(parents=True)
    for name, days in (("old.log", 31), ("young.log", 29)):
        (folder / name).write_text("x")
        os.utime(folder / name, (time.time() - days * 86400,) * 2)
    two["b"].dies_with = 7
    fail(two)
    assert not (folder / "old.log").exists()
    assert (folder / "young.log").exists()


def test_a_cache_that_cannot_be_written_changes_nothing_about_the_error(two: FakeCluster) -> None:
    two.sctx.config.paths.failures_dir.parent.mkdir(parents=True, exist_ok=True)
    two.sctx.config.paths.failures_dir.write_text("in the way")
    two["b"].dies_with = 7
    assert "rank 1 on b ended with exit code 7" in fail(two).message
    assert "kept in" not in fail(two).message
