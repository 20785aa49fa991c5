"""Seeing, reading and stopping a workload of two ranks when only one of them can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.cli.status_text import check_text, status_text
from sparkrun.core.jobs import read_jobs
from sparkrun.testing import FakeCluster
from tests.api.two_hosts import two_hosts

RECIPE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2, port: 8000}\n"
BOTH, FIRST = api.HostOptions(("a,b",)), api.HostOptions(("a",))


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    made = two_hosts(tmp_path, RECIPE)
    for host in made.by_name.values():
        host.engine_log = [f"{host.name} begins", f"{host.name} listens"]
    return made


def launch(two: FakeCluster, **options: object) -> api.RunResult:
    return api.run(api.RunOptions(recipe=str(two.root / "r.yaml"), hosts=BOTH, **options), sctx=two.sctx)  # type: ignore[arg-type]


def forget(two: FakeCluster) -> None:
    """As another control machine, which launched nothing."""
    for path in two.sctx.config.paths.jobs_dir.iterdir():
        path.unlink()


def lines(two: FakeCluster, **view: bool) -> list[str]:
    seen: list[str] = []
    api.logs("r", lambda line: seen.append(f"{line.rank}: {line.text}"), BOTH, view=api.LogView(all_ranks=True, **view), sctx=two.sctx)
    return seen


@pytest.mark.parametrize("remembered", [True, False])
def test_stop_on_some_of_its_hosts_names_the_others_and_fails(two: FakeCluster, remembered: bool) -> None:
    job = launch(two)
    if not remembered:
        forget(two)

    with pytest.raises(api.StopFailedError, match=r"is stopped on a, but not confirmed on b .it was launched there too") as failed:
        api.stop("r", FIRST, sctx=two.sctx)

    assert failed.value.hint == f"sparkrun stop {job.cluster_id} -H a,b"
    assert len(read_jobs(two.sctx.config.paths)) == int(remembered)
    assert api.stop("r", BOTH, sctx=two.sctx).stopped[0].hosts == ("b",)
    assert not two["b"].docker.containers


def test_stop_all_on_some_of_its_hosts_fails_as_well(two: FakeCluster) -> None:
    job = launch(two)

    with pytest.raises(api.StopFailedError, match="not confirmed on b") as failed:
        api.stop_all(FIRST, sctx=two.sctx)

    assert failed.value.hint == f"sparkrun stop {job.cluster_id} -H a,b"


def test_a_rank_that_is_gone_from_a_host_that_was_asked_hinders_no_stop(two: FakeCluster) -> None:
    launch(two)
    two["b"].docker.containers.clear()

    assert api.stop("r", BOTH, sctx=two.sctx).stopped[0].hosts == ("a",)
    assert read_jobs(two.sctx.config.paths) == ()


def test_status_says_where_the_ranks_are_that_it_did_not_see(two: FakeCluster) -> None:
    job = launch(two)

    text = status_text(api.status(FIRST, sctx=two.sctx))
    assert "not seen: 1 of 2 ranks (launched on b)" in text
    assert f"stop: sparkrun stop {job.cluster_id} -H a,b" in text


def test_the_logs_of_all_ranks_come_in_the_order_of_their_times(two: FakeCluster) -> None:
    launch(two)

    assert lines(two) == ["head: a begins", "worker_1: b begins", "head: a listens", "worker_1: b listens"]


def test_the_logs_of_ranks_on_a_silent_host_are_told_to_be_missing_after_the_others(two: FakeCluster) -> None:
    launch(two)
    two["b"].reachable = False
    seen: list[str] = []

    with pytest.raises(api.HostUnreachableError, match=r"^1 of 2 ranks of r were not seen; b .* may have it$"):
        api.logs("r", lambda line: seen.append(line.text), BOTH, view=api.LogView(all_ranks=True), sctx=two.sctx)

    assert seen == ["a begins", "a listens"]


def test_one_of_which_a_rank_is_not_seen_does_not_count_as_running(two: FakeCluster) -> None:
    job = launch(two)
    two["b"].reachable = False

    result = api.check_job("r", BOTH, check_http=True, sctx=two.sctx)
    assert (result.running, result.healthy, result.missing) == (False, False, 1)
    assert check_text("r", result).startswith(f"{job.cluster_id}: partly running, not healthy on a; 1 of 2 ranks not seen; b is unknown: ")
    assert [host["host"] for host in result.to_json()["unreachable"]] == ["b"]


def test_what_may_run_on_a_silent_host_is_not_called_not_running(two: FakeCluster) -> None:
    two["b"].reachable = False

    result = api.check_job("r", BOTH, sctx=two.sctx)
    assert check_text("r", result).startswith("r: not seen; b is unknown: ")


def test_a_container_s_name_is_a_name_of_its_workload(two: FakeCluster) -> None:
    launch(two, container_name="mine")

    assert api.stop("mine_1", BOTH, sctx=two.sctx).stopped[0].hosts == ("a", "b")


def test_settings_tell_apart_what_a_name_may_mean(two: FakeCluster) -> None:
    first = launch(two)
    second = launch(two, settings={"port": 8100})

    assert api.stop("r", BOTH, only=api.Narrowing(port=8100), dry_run=True, sctx=two.sctx).stopped[0].cluster_id == second.cluster_id
    assert len(api.status(BOTH, sctx=two.sctx).status.workloads) == 2
    with pytest.raises(api.UnknownWorkloadError, match="no such workload 'r' with port 8200 on a, b") as unknown:
        api.stop("r", BOTH, only=api.Narrowing(port=8200), sctx=two.sctx)
    assert unknown.value.hint == "sparkrun status -H a,b"
    assert api.stop("r", BOTH, only=api.Narrowing(2, 8000, "org/m"), sctx=two.sctx).stopped[0].cluster_id == first.cluster_id
    assert {stopped.cluster_id for stopped in api.stop_all(BOTH, dry_run=True, sctx=two.sctx).stopped} == {second.cluster_id}
    assert len(api.status(BOTH, sctx=two.sctx).status.workloads) == 1
