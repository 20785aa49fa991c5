"""What people read: the plan, the result, the status and the progress, word for word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.cli.plan_text import plan_text, result_text
from sparkrun.cli.progress import progress_sink
from sparkrun.cli.status_text import duration, status_text
from sparkrun.core.events import Bytes, Detail, Done, EngineLine, Note, Phase, Script, Step, Warn
from sparkrun.core.remote import ScriptCall
from sparkrun.testing import FakeCluster
from tests.cli.conftest import Said

Cli = Callable[..., Said]


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "model: /models/tiny.gguf\nruntime: llama-cpp\nexecutor: local\n"
        "defaults: {port: 8123, served_model_name: tiny, api_key: s3cret}\nenv: {A: b, X_TOKEN: t0ken}\n"
    )
    return str(path)


def test_a_plan_shows_every_rank_and_no_secret(cluster: FakeCluster, recipe: str) -> None:
    plan = api.plan(api.RunOptions(recipe=recipe), sctx=cluster.sctx)
    assert plan_text(plan).splitlines() == [
        f"Recipe:   {recipe}",
        "Runtime:  llama-cpp, executor local",
        "Model:    /models/tiny.gguf",
        "Hosts:    localhost",
        f"Cluster:  {plan.cluster_id}",
        "Endpoint: http://127.0.0.1:8123/v1   model name: tiny",
        "Memory per GPU:",
        "  Weights            ?  neither metadata.model_params nor the model's files are at hand",
        "  KV                 ?  no max_model_len: not sized",
        "  Budget     121.0 GiB  1 of 121 GiB, the memory of the host, which has no accelerator",
        "  Spare              ?",
        "  Fit       UNVERIFIED  the size of the weights is not known",
        f"Step 1/1: start {plan.cluster_id}_solo on localhost",
        "Rank 0 (solo) on localhost:",
        "  A=b",
        "  LLAMA_API_KEY=***",
        "  X_TOKEN=***",
        "  Serve command:",
        "    llama-server -m /models/tiny.gguf --port 8123 --alias tiny",
    ]


def test_a_result_says_where_and_what_next(cluster: FakeCluster, recipe: str) -> None:
    result = api.run(api.RunOptions(recipe=recipe), sctx=cluster.sctx)
    lines = result_text(result).splitlines()
    assert lines[0] == "tiny is ready: http://127.0.0.1:8123/v1"
    assert lines[1] == "  after: port 0.04 s, healthy 0.05 s, first token 0.09 s"
    assert lines[-1] == f"  stop: sparkrun stop {result.cluster_id}"


def test_a_status_shows_state_endpoint_and_what_to_type(cluster: FakeCluster, recipe: str) -> None:
    job = api.run(api.RunOptions(recipe=recipe), sctx=cluster.sctx).cluster_id
    assert status_text(api.status(sctx=cluster.sctx)).splitlines() == [
        "Hosts from the launches of this machine — 1 host",
        "",
        f"Job: tiny  (tp=1)  [{job.removeprefix('sparkrun_')}]  ready",
        "  endpoint: http://127.0.0.1:8123/v1   model: tiny",
        "  solo  localhost  running, up 5s",
        f"  logs: sparkrun logs {job}",
        f"  stop: sparkrun stop {job}",
        "",
        "Total: 1 workload running",
    ]


def test_a_status_names_what_is_unknown(tmp_path: Path) -> None:
    two = FakeCluster("a", "b", root=tmp_path / "home")
    two["b"].reachable = False
    text = status_text(api.status(api.HostOptions(two.hosts), sctx=two.sctx))
    assert "Idle: a\n" in text
    assert "Unknown: b (unreachable: no route to host (b port 22))\n" in text
    assert text.endswith("Total: 0 workloads running, 1 host unknown")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.9, "59s"), (61, "1m 1s"), (3700, "1h 1m"), (90000, "1d 1h")])
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


EVENTS = [
    Phase(1, 6, "Preparing"),
    Step(1, 4, "look at spark-1"),
    Detail("more"),
    Note("assumed"),
    Warn("careful"),
    Done(1.25),
    Phase(2, 6, "Building image", "no builder"),
    Script("h", ScriptCall("local_stop", {"NAMES": ("n",)}, {})),
    EngineLine("loading"),
]


def said_at(verbosity: int, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    emit = progress_sink(verbosity)
    for event in EVENTS:
        emit(event)
    out, err = capsys.readouterr()
    return out, err


def test_progress_at_normal_verbosity(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_at(0, capsys)
    assert out == "loading\n"
    assert err.splitlines() == [
        "[1/6] Preparing",
        "  Step 1/4: look at spark-1",
        "Note: assumed",
        "warning: careful",
        "  done (1.2s)",
        "[2/6] Building image — skipped (no builder)",
    ]


def test_quiet_leaves_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert said_at(-1, capsys)[1] == "warning: careful\n"


def test_details_at_v_times_at_vv_and_scripts_at_vvv(capsys: pytest.CaptureFixture[str]) -> None:
    assert "more" in said_at(1, capsys)[1].splitlines()
    assert " [PROGRESS] sparkrun: [1/6] Preparing" in said_at(2, capsys)[1]
    assert "--- local_stop on h" in said_at(3, capsys)[1]


def test_a_dry_run_as_json_is_one_line_of_ascii(cli: Cli, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKRUN_FEATURE_EXECUTOR_LOCAL", "1")
    said = cli("run", recipe, "-H", "spark-7", "--dry-run", "--json")
    assert said.code == 0, said.err
    assert said.out.isascii()
    assert said.out.count("\n") == 1
    plan = json.loads(said.out)
    assert (plan["schema"], plan["assumed_hosts"], plan["ranks"][0]["secret_env"]) == (
        "sparkrun.plan/1",
        ["spark-7"],
        {"LLAMA_API_KEY": "***", "X_TOKEN": "***"},
    )


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (1_200_000_000, 4_200_000_000, 4, "1.2 GB of 4.2 GB, 300 MB/s, 10 s left"),
        (1_200_000_000, None, 4, "1.2 GB, 300 MB/s"),
        (4_300_000_000, 4_200_000_000, 10, "4.3 GB, 430 MB/s"),
    ],
)
def test_a_transfer_tells_bytes_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], done: int, total: int | None, seconds: float, text: str
) -> None:
    progress_sink(0)(Bytes("image x:1", done, total, seconds))

    assert capsys.readouterr().err == f"    image x:1: {text}\n"
