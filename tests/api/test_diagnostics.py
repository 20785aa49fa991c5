"""``collect_diagnostics``: everything about one launch in one file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkrun import api
from sparkrun.testing import FakeCluster

TINY = (
    "model: /models/tiny.gguf\nruntime: llama-cpp\nexecutor: local\n"
    "defaults: {port: 8123, served_model_name: tiny, api_key: s3cret}\nenv: {A: b, X_TOKEN: t0ken}\n"
)


def run(cluster: FakeCluster, file: str = "d.ndjson") -> api.RunResult:
    (cluster.root / "tiny.yaml").write_text(TINY)
    return api.run(api.RunOptions(recipe=str(cluster.root / "tiny.yaml"), collect_diagnostics=file), sctx=cluster.sctx)


def records(cluster: FakeCluster) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (cluster.sctx.cwd / "d.ndjson").read_text().splitlines():
        record = json.loads(line)
        found.setdefault(record["_type"], []).append(record)
    return found


def test_a_launch_that_went_well_tells_plan_facts_times_and_ranks(cluster: FakeCluster) -> None:
    job = run(cluster).cluster_id
    told = records(cluster)
    first, *_, last = told
    assert (first, last) == ("diag_header", "bundle_complete")
    assert told["run_plan"][0]["plan"]["cluster_id"] == job
    assert [record["host"] for record in told["host_facts"]] == ["localhost"]
    assert [record["phase"] for record in told["run_phase"]][:2] == ["Preparing", "Building image"]
    assert told["run_container_logs"][0]["tail"] == ["loading model", "listening"]
    assert told["run_launch_result"][0]["rc"] == 0
    assert told["run_summary"][0]["success"] is True


def test_a_launch_that_failed_tells_why(cluster: FakeCluster) -> None:
    cluster["localhost"].dies_with = 7
    with pytest.raises(api.EngineDiedError):
        run(cluster)
    told = records(cluster)
    assert told["run_error"][0]["kind"] == "EngineDiedError"
    assert told["run_container_logs"][0]["exit_code"] == 7
    assert (told["run_launch_result"][0]["rc"], told["run_summary"][0]["success"]) == (1, False)


def test_no_secret_is_in_it(cluster: FakeCluster) -> None:
    cluster["localhost"].engine_log = ["key s3cret token t0ken"]
    run(cluster)
    text = (cluster.sctx.cwd / "d.ndjson").read_text()
    assert "s3cret" not in text
    assert "t0ken" not in text


def test_a_file_that_is_there_stops_the_launch_before_it_begins(cluster: FakeCluster) -> None:
    (cluster.sctx.cwd / "d.ndjson").write_text("mine")
    with pytest.raises(api.UsageError, match="is there already"):
        run(cluster)
    assert cluster["localhost"].ran == []


def test_a_launch_that_ends_before_its_plan_tells_that_too(cluster: FakeCluster) -> None:
    cluster["localhost"].reachable = False
    with pytest.raises(api.HostUnreachableError):
        run(cluster)
    told = records(cluster)
    assert "run_plan" not in told
    assert told["run_error"][0]["kind"] == "HostUnreachableError"
