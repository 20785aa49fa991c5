from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.events import EngineLine, Note, Phase, Step, Warn
from sparkrun.core.jobs import read_jobs
from sparkrun.testing import FakeCluster

TINY = """\
model: /models/tiny.gguf
runtime: llama-cpp
executor: local
defaults: {port: 8123, served_model_name: tiny, ctx_size: 512}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


def options(recipe: str, **changes: object) -> api.RunOptions:
    return api.RunOptions(recipe=recipe, **changes)  # type: ignore[arg-type]


def test_a_launch_ends_ready_and_is_seen_by_status(cluster: FakeCluster, recipe: str) -> None:
    result = api.run(options(recipe), sctx=cluster.sctx)

    assert (result.ready, result.endpoint, result.served_model_name) == (True, "http://127.0.0.1:8123/v1", "tiny")
    report = api.status(sctx=cluster.sctx)
    assert [(workload.cluster_id, workload.state) for workload in report.status.workloads] == [(result.cluster_id, api.State.READY)]


def test_the_plan_is_what_runs(cluster: FakeCluster, recipe: str) -> None:
    planned = api.plan(options(recipe), sctx=cluster.sctx)
    api.run(options(recipe), sctx=cluster.sctx)

    started = next(call for call in cluster["localhost"].ran if call.name == "local_start")
    assert started.params["COMMAND"] == planned.head.command == "llama-server -m /models/tiny.gguf --port 8123 --ctx-size 512 --alias tiny"


def test_a_dry_run_starts_nothing_and_leaves_no_metadata(cluster: FakeCluster, recipe: str) -> None:
    api.plan(options(recipe), sctx=cluster.sctx)

    assert {call.name for call in cluster["localhost"].ran} == {"observe"}
    assert read_jobs(cluster.sctx.config.paths) == ()


def test_the_six_phases_come_in_order(cluster: FakeCluster, recipe: str) -> None:
    api.run(options(recipe), sctx=cluster.sctx)

    phases = [(event.number, event.title) for event in cluster.events if isinstance(event, Phase)]
    assert phases == [
        (1, "Preparing"),
        (2, "Building image"),
        (3, "Distributing resources"),
        (4, "Syncing tuning configs"),
        (5, "Launching llama-cpp runtime"),
        (6, "Post-launch hooks"),
    ]
    assert any(isinstance(event, Step) for event in cluster.events)


def test_the_engine_log_is_emitted_only_when_asked(cluster: FakeCluster, recipe: str) -> None:
    api.run(options(recipe), sctx=cluster.sctx)
    assert not [event for event in cluster.events if isinstance(event, EngineLine)]

    api.stop("tiny", sctx=cluster.sctx)
    result = api.run(options(recipe, stream_log=True), sctx=cluster.sctx)
    assert [event.text for event in cluster.events if isinstance(event, EngineLine)] == ["loading model", "listening"]
    assert result.log_lines == 2


def test_a_second_run_says_that_it_runs_and_where(cluster: FakeCluster, recipe: str) -> None:
    first = api.run(options(recipe), sctx=cluster.sctx)
    with pytest.raises(api.AlreadyRunningError, match=f"runs already: http://127.0.0.1:8123/v1 .{first.cluster_id} on localhost") as caught:
        api.run(options(recipe), sctx=cluster.sctx)
    assert "--ensure" in str(caught.value.hint)


def test_ensure_accepts_what_runs(cluster: FakeCluster, recipe: str) -> None:
    first = api.run(options(recipe), sctx=cluster.sctx)
    second = api.run(options(recipe, ensure=True), sctx=cluster.sctx)
    assert (second.cluster_id, second.already_running, second.ready) == (first.cluster_id, True, True)
    assert [call.name for call in cluster["localhost"].ran].count("local_start") == 1


def test_an_engine_that_dies_is_reported_with_code_and_last_lines_and_undone(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].dies_with = 7
    cluster["localhost"].engine_log = ["loading", "cannot allocate"]

    with pytest.raises(api.EngineDiedError, match=r"ended with exit code 7(.|\n)*\| cannot allocate"):
        api.run(options(recipe), sctx=cluster.sctx)

    assert cluster["localhost"].processes == {}
    assert read_jobs(cluster.sctx.config.paths) == ()


def test_keep_on_failure_leaves_the_evidence(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].dies_with = 7
    with pytest.raises(api.EngineDiedError):
        api.run(options(recipe, keep_on_failure=True), sctx=cluster.sctx)
    assert len(cluster["localhost"].processes) == 1
    assert any(isinstance(event, Note) and "kept as it is" in event.text for event in cluster.events)


def test_an_engine_that_never_answers_is_stopped(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].never_ready = "health_timeout"
    with pytest.raises(api.NotReadyError, match="it did not become healthy in time"):
        api.run(options(recipe), sctx=cluster.sctx)
    assert cluster["localhost"].processes == {}


@pytest.mark.parametrize("script", ["local_start", "ready"])
def test_ctrl_c_in_a_launch_leaves_nothing_running(cluster: FakeCluster, recipe: str, script: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    cluster["localhost"].on(script, interrupt)
    with pytest.raises(api.Interrupted, match="nothing of this launch is left running"):
        api.run(options(recipe), sctx=cluster.sctx)
    assert cluster["localhost"].processes == {}
    assert read_jobs(cluster.sctx.config.paths) == ()


def test_ctrl_c_before_anything_started_is_just_that(cluster: FakeCluster, recipe: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    cluster["localhost"].on("observe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        api.run(options(recipe), sctx=cluster.sctx)


def test_a_port_in_use_names_its_holder_before_anything_starts(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].ports[8123] = (4711, "nginx")
    with pytest.raises(api.PortInUseError, match=r"localhost: port 8123 is in use by nginx \(pid 4711\)"):
        api.run(options(recipe), sctx=cluster.sctx)
    assert "local_start" not in {call.name for call in cluster["localhost"].ran}


def test_a_port_given_by_the_user_is_the_one_looked_at(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].ports[8200] = (1, "other")
    with pytest.raises(api.PortInUseError, match="port 8200"):
        api.run(options(recipe, settings={"port": 8200}), sctx=cluster.sctx)


def test_a_missing_model_file_is_told_before_anything_starts(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].models.clear()
    with pytest.raises(api.ModelMissingError, match=r"localhost: model /models/tiny\.gguf is not there: no such file"):
        api.run(options(recipe), sctx=cluster.sctx)


def test_a_host_without_an_engine_says_how_to_get_one(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].programs.clear()
    with pytest.raises(api.EngineMissingError, match="no llama-server on PATH") as caught:
        api.run(options(recipe), sctx=cluster.sctx)
    assert "sparkrun[local]" in str(caught.value.hint)


def test_a_cache_that_cannot_be_written_is_told_before_anything_starts(cluster: FakeCluster, recipe: str) -> None:
    cluster["localhost"].cache_writable = False
    with pytest.raises(api.StateError, match="is not writable"):
        api.run(options(recipe), sctx=cluster.sctx)
    assert "local_start" not in {call.name for call in cluster["localhost"].ran}


def test_an_executor_that_is_switched_off_names_its_flag(tmp_path: Path, recipe: str) -> None:
    plain = FakeCluster("localhost", root=tmp_path / "home")
    with pytest.raises(api.ExecutorUnavailableError, match=r"executor.local \(named by the recipe\)") as caught:
        api.run(options(recipe), sctx=plain.sctx)
    assert "sparkrun setup features enable executor.local" in str(caught.value.hint)


def test_an_unknown_executor_is_never_replaced_by_another(cluster: FakeCluster, recipe: str) -> None:
    with pytest.raises(api.ExecutorUnavailableError, match=r"no executor named 'locl' \(named by --executor\)") as caught:
        api.run(options(recipe, executor="locl"), sctx=cluster.sctx)
    assert caught.value.hint == "did you mean 'local'?"


def test_an_unreachable_host_is_named_with_its_reason(cluster: FakeCluster, recipe: str) -> None:
    with pytest.raises(api.HostUnreachableError, match="spark-9: unreachable: no route to host"):
        api.run(options(recipe, hosts=api.HostOptions(("spark-9",))), sctx=cluster.sctx)


def test_an_api_key_is_in_no_metadata_and_on_no_command_line(cluster: FakeCluster, tmp_path: Path, recipe: str) -> None:
    Path(recipe).write_text(TINY.replace("ctx_size: 512", "api_key: s3cret-word"))
    result = api.run(options(recipe), sctx=cluster.sctx)
    kept = "".join(path.read_text() for path in cluster.sctx.config.paths.jobs_dir.iterdir())
    assert "s3cret-word" not in kept
    assert "s3cret-word" not in json.dumps(api.plan(options(recipe), sctx=cluster.sctx).public())
    started = next(call for call in cluster["localhost"].ran if call.name == "local_start")
    assert started.secrets == {"SECRET_ENVS": ("LLAMA_API_KEY=s3cret-word",)}
    assert "s3cret-word" not in str(started.params)
    assert result.ready


def test_extra_words_reach_the_engine(cluster: FakeCluster, recipe: str) -> None:
    planned = api.plan(options(recipe, extra_args=("--jinja", "--chat-template", "a b")), sctx=cluster.sctx)
    assert planned.head.command.endswith("--jinja --chat-template 'a b'")


def test_an_override_without_effect_is_refused_by_name(cluster: FakeCluster, recipe: str) -> None:
    with pytest.raises(api.UsageError, match="the override ctx_sise would have no effect") as caught:
        api.plan(options(recipe, overrides=("ctx_sise=4",)), sctx=cluster.sctx)
    assert caught.value.hint == "did you mean 'ctx_size'?"


def test_a_literal_port_in_the_template_is_replaced_and_said(cluster: FakeCluster, recipe: str) -> None:
    Path(recipe).write_text(TINY + "command: llama-server -m {model} --port 9001\n")
    planned = api.plan(options(recipe, settings={"port": 8123}), sctx=cluster.sctx)
    assert planned.port == 8123
    assert planned.head.command == "llama-server -m /models/tiny.gguf --port 8123 --alias tiny"
    assert any("9001" in note for note in planned.notes)


def test_an_unknown_placeholder_stops_before_a_host_is_touched(cluster: FakeCluster, recipe: str) -> None:
    Path(recipe).write_text(TINY + "command: llama-server -m {model} -c {ctx_sise}\n")
    wanted = r"tiny\.yaml:5:1: unknown placeholder \{ctx_sise\} \(did you mean 'ctx_size'\?\)"
    with pytest.raises(api.UnknownPlaceholderError, match=wanted):
        api.run(options(recipe), sctx=cluster.sctx)
    assert cluster["localhost"].ran == []


def test_hooks_that_the_executor_cannot_run_are_refused_not_dropped(cluster: FakeCluster, recipe: str) -> None:
    Path(recipe).write_text(TINY + "pre_exec: [echo hi]\n")
    with pytest.raises(api.RecipeError, match="pre_exec cannot be run by the executor 'local'"):
        api.run(options(recipe), sctx=cluster.sctx)


def test_undoing_touches_only_what_this_launch_started(cluster: FakeCluster, recipe: str) -> None:
    host = cluster["localhost"]
    first = api.run(options(recipe), sctx=cluster.sctx)
    stop = next(call for call in host.ran if call.name == "local_start")
    planned = api.plan(options(recipe), sctx=cluster.sctx)
    undo = planned.stages[0].actions[0].undo
    assert undo is not None
    host.answer(undo)
    assert first.cluster_id in {process.params["CLUSTER_ID"] for process in host.processes.values()}
    assert stop.params["LAUNCH"] != undo.params["ONLY_LAUNCH"]


def test_a_changed_recipe_takes_the_place_of_what_runs(cluster: FakeCluster, recipe: str) -> None:
    first = api.run(options(recipe), sctx=cluster.sctx)
    Path(recipe).write_text(Path(recipe).read_text() + "env: {SOME_KEY: changed}\n")
    second = api.run(options(recipe), sctx=cluster.sctx)
    assert second.cluster_id == first.cluster_id
    assert not second.already_running
    assert any(isinstance(event, Note) and "replacing" in event.text for event in cluster.events)


def test_a_changed_recipe_that_cannot_be_launched_leaves_what_runs(cluster: FakeCluster, recipe: str) -> None:
    api.run(options(recipe), sctx=cluster.sctx)
    Path(recipe).write_text(Path(recipe).read_text() + "env: {SOME_KEY: changed}\n")
    cluster["localhost"].models.clear()
    with pytest.raises(api.ModelMissingError):
        api.run(options(recipe), sctx=cluster.sctx)
    assert [process.alive for process in cluster["localhost"].processes.values()] == [True]


@pytest.mark.parametrize("after", ["post_exec: [./x]", "post_commands: [./x]", "stop_after_post: true"])
def test_what_runs_once_it_answers_needs_the_wait(cluster: FakeCluster, tmp_path: Path, after: str) -> None:
    path = tmp_path / "hooks.yaml"
    path.write_text(f"model: org/m\nruntime: vllm\ncontainer: e/v:1\n{after}\n")
    with pytest.raises(api.UsageError, match=f"--no-ready-wait and the recipe's {after.partition(':')[0]} exclude each other"):
        api.run(options(str(path), wait=False, hosts=api.HostOptions(("localhost",))), sctx=cluster.sctx)
    assert cluster["localhost"].ran == []


def test_the_times_of_all_six_phases_are_told(cluster: FakeCluster, recipe: str) -> None:
    timings = api.run(options(recipe), sctx=cluster.sctx).timings
    assert [timing.title for timing in timings] == [event.title for event in cluster.events if isinstance(event, Phase)]
    assert len(timings) == 6
    assert [(timing.seconds is None) is (timing.skipped is not None) for timing in timings] == [True] * 6
    assert [part.title for part in timings[0].parts] == ["look at localhost", "plan the launch"]
    (wait,) = timings[5].parts
    assert [(stage.title, stage.seconds) for stage in wait.parts] == [("port open", 0.04), ("healthy", 0.01), ("first token", 0.09)]


def test_what_a_recipe_runs_afterwards_are_steps_of_the_last_phase(cluster: FakeCluster, tmp_path: Path) -> None:
    host = cluster["localhost"]
    host.gpus = 1
    host.docker.trouble = None
    host.models["org/m"] = "/models/m"
    path = tmp_path / "hooks.yaml"
    path.write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\npost_exec: [./x]\npost_commands: ['true']\n")
    timings = api.run(options(str(path), trust=True, hosts=api.HostOptions(("localhost",))), sctx=cluster.sctx).timings
    assert [part.title.partition(" ")[0] for part in timings[5].parts] == ["wait", "post_exec[1]", "post_commands[1]"]
    assert timings[5].seconds is not None


def test_many_network_variables_of_a_recipe_are_one_warning(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\nenv: {NCCL_IB_HCA: a, GLOO_SOCKET_IFNAME: b, NODE_IP: c}\n")
    api.plan(options(str(path), hosts=api.HostOptions(("spark-9",))), sctx=cluster.sctx)
    (told,) = [event.text for event in cluster.events if isinstance(event, Warn) and "detected on each host" in event.text]
    assert "env NCCL_IB_HCA, GLOO_SOCKET_IFNAME, NODE_IP are detected on each host" in told


def test_metadata_tells_whose_libraries_and_which_accelerators(cluster: FakeCluster, tmp_path: Path) -> None:
    host = cluster["localhost"]
    host.gpus, host.docker.trouble, host.models["org/m"] = 1, None, "/models/m"
    path = tmp_path / "m.yaml"
    path.write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\n")
    api.run(options(str(path), hosts=api.HostOptions(("localhost",))), sctx=cluster.sctx)
    (job,) = read_jobs(cluster.sctx.config.paths)
    assert job.backends == {"localhost": {"vendor": "nvidia", "backend": "nccl"}}
    assert job.gpu_allocations == {"localhost": [{"rank": 0, "gpu_index": 0}]}
    assert job.effective_container_images == {"localhost": "e/v:1"}
    assert job.recipe_fingerprint is not None
