from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.jobs import read_jobs
from sparkrun.testing import FakeCluster


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    """Two hosts in memory."""
    fake = FakeCluster("spark-1", "spark-2", root=tmp_path / "home", env={"SPARKRUN_FEATURE_EXECUTOR_LOCAL": "1"})
    for host in fake.hosts:
        fake[host].models["/models/tiny.gguf"] = "/models/tiny.gguf"
    return fake


def launch(cluster: FakeCluster, host: str, *, port: int = 8123, name: str = "tiny") -> api.RunResult:
    path = cluster.root / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"model: /models/tiny.gguf\nruntime: llama-cpp\nexecutor: local\ndefaults: {{port: {port}, served_model_name: {name}}}\n"
    )
    return api.run(api.RunOptions(recipe=str(path), hosts=api.HostOptions((host,))), sctx=cluster.sctx)


@pytest.mark.parametrize("target", ["{id}", "{short}", "tiny", "/models/tiny.gguf", "tiny.yaml", "{id8}"])
def test_a_workload_is_stopped_by_any_of_its_names(two: FakeCluster, target: str) -> None:
    job = launch(two, "spark-1")
    short = job.cluster_id.removeprefix("sparkrun_")
    result = api.stop(target.format(id=job.cluster_id, short=short, id8=short[:8]), sctx=two.sctx)
    assert [stopped.cluster_id for stopped in result.stopped] == [job.cluster_id]
    assert two["spark-1"].processes == {}
    assert read_jobs(two.sctx.config.paths) == ()


def test_stop_of_an_unknown_id_fails(two: FakeCluster) -> None:
    with pytest.raises(api.UnknownWorkloadError, match="no such workload 'deadbeef'"):
        api.stop("deadbeef", sctx=two.sctx)


def test_stop_of_an_unknown_id_says_what_runs(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    with pytest.raises(api.UnknownWorkloadError, match=rf"running: tiny \({job.cluster_id}\)"):
        api.stop("deadbeef", sctx=two.sctx)


def test_a_unique_prefix_stops_without_local_metadata(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    for path in two.sctx.config.paths.jobs_dir.iterdir():
        path.unlink()
    api.stop(job.cluster_id.removeprefix("sparkrun_")[:8], api.HostOptions(("spark-1",)), sctx=two.sctx)
    assert two["spark-1"].processes == {}


def test_an_ambiguous_name_lists_the_ids(two: FakeCluster) -> None:
    first = launch(two, "spark-1", port=1111, name="one")
    second = launch(two, "spark-2", port=2222, name="two")
    with pytest.raises(api.AmbiguousWorkloadError, match="is 2 workloads") as caught:
        api.stop("/models/tiny.gguf", sctx=two.sctx)
    assert first.cluster_id in caught.value.message
    assert second.cluster_id in caught.value.message


def test_stop_reports_failure_when_a_process_survives(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    two["spark-1"].refuse("local_stop", "still runs")
    with pytest.raises(api.StopFailedError, match=r"not confirmed stopped on spark-1 \(still runs\)"):
        api.stop(job.cluster_id, sctx=two.sctx)
    assert [kept.cluster_id for kept in read_jobs(two.sctx.config.paths)] == [job.cluster_id]


def test_an_unreachable_host_is_unknown_not_empty(two: FakeCluster) -> None:
    launch(two, "spark-1")
    two["spark-1"].reachable = False
    report = api.status(api.HostOptions(two.hosts), sctx=two.sctx)
    assert [host.host for host in report.status.unreachable] == ["spark-1"]
    assert report.status.idle_hosts == ("spark-2",)
    assert report.to_json()["errors"] == {"spark-1": "unreachable: no route to host (spark-1 port 22)"}


def test_a_target_that_may_be_on_a_silent_host_is_not_called_gone(two: FakeCluster) -> None:
    launch(two, "spark-1")
    two["spark-1"].reachable = False
    with pytest.raises(api.UnknownWorkloadError, match="spark-1 is unknown: unreachable: no route to host"):
        api.stop("tiny", sctx=two.sctx)


def test_stop_all_stops_what_it_can_and_fails_for_what_it_cannot_see(two: FakeCluster) -> None:
    launch(two, "spark-1", name="one", port=1111)
    launch(two, "spark-2", name="two", port=2222)
    two["spark-2"].reachable = False
    with pytest.raises(api.StopFailedError, match=r"not known whether anything runs on spark-2 .*; stopped one \("):
        api.stop_all(sctx=two.sctx)
    assert two["spark-1"].processes == {}


def test_stop_all_with_nothing_running_succeeds(two: FakeCluster) -> None:
    assert api.stop_all(api.HostOptions(two.hosts), sctx=two.sctx).stopped == ()


def test_stop_and_status_work_whatever_the_feature_flags_say(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    plain = FakeCluster(root=two.root)
    plain.by_name = two.by_name
    assert api.stop(job.cluster_id, sctx=plain.sctx).stopped[0].cluster_id == job.cluster_id


def test_logs_of_one_that_ended_can_be_read(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    next(iter(two["spark-1"].processes.values())).exit_code = 1
    seen: list[str] = []
    api.logs(job.cluster_id, lambda line: seen.append(line.text), sctx=two.sctx)
    assert seen == ["loading model", "listening"]


def test_the_last_lines_of_a_log(two: FakeCluster) -> None:
    launch(two, "spark-1")
    seen: list[str] = []
    api.logs("tiny", lambda line: seen.append(f"{line.rank}:{line.text}"), view=api.LogView(lines=1), sctx=two.sctx)
    assert seen == ["solo:listening"]


def test_check_job_tells_running_and_healthy(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    result = api.check_job(job.cluster_id, check_http=True, sctx=two.sctx)
    assert (result.running, result.healthy, result.hosts) == (True, True, ("spark-1",))
    assert result.metadata is not None
    assert "plan" not in result.to_json()["metadata"]


def test_check_job_of_an_unknown_one_is_not_running(two: FakeCluster) -> None:
    result = api.check_job("deadbeef", sctx=two.sctx)
    assert (result.running, result.cluster_id) == (False, None)


def test_a_single_rank_is_a_solo_entry_of_the_json(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    report = api.status(sctx=two.sctx).to_json()
    entry = report["solo_entries"][0]
    assert (entry["workload_id"], entry["host"], entry["status"]) == (job.cluster_id, "spark-1", "running")
    assert (entry["meta"]["port"], entry["meta"]["endpoint"], entry["meta"]["state"]) == (8123, "http://spark-1:8123/v1", "ready")


def test_stop_removes_what_one_that_ended_left(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    (process,) = two["spark-1"].processes.values()
    process.exit_code = 1
    (stopped,) = api.stop("tiny", sctx=two.sctx).stopped
    assert (stopped.cluster_id, stopped.had_ended) == (job.cluster_id, True)
    assert two["spark-1"].processes == {}
    assert read_jobs(two.sctx.config.paths) == ()


def test_stop_forgets_a_launch_that_its_hosts_know_nothing_of(two: FakeCluster) -> None:
    job = launch(two, "spark-1")
    two["spark-1"].processes.clear()
    (stopped,) = api.stop("tiny", sctx=two.sctx).stopped
    assert (stopped.cluster_id, stopped.had_ended) == (job.cluster_id, True)
    with pytest.raises(api.UnknownWorkloadError):
        api.stop("tiny", sctx=two.sctx)


def test_a_launch_on_a_silent_host_is_not_forgotten(two: FakeCluster) -> None:
    launch(two, "spark-1")
    two["spark-1"].reachable = False
    with pytest.raises(api.StopFailedError):
        api.stop_all(sctx=two.sctx)
    assert [job.recipe for job in read_jobs(two.sctx.config.paths)] == ["tiny"]
