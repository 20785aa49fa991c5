from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sparkrun.core.errors import RecipeError, UsageError
from sparkrun.core.placement import NodeCountError
from sparkrun.runtimes.ranks import with_env_keys
from tests.runtimes.serving import SHA, SNAPSHOT, Serve, lines, split

PLAIN = "model: org/m\nruntime: vllm-distributed\ncontainer: v:1\n"
RAY = "model: org/m\nruntime: vllm-ray\ncontainer: v:1\n"


def template(command: str, defaults: str = "{}", runtime: str = "vllm-distributed") -> str:
    return f"model: org/m\nruntime: {runtime}\ncontainer: v:1\ndefaults: {defaults}\ncommand: |\n  {command}\n"


def test_a_command_without_template_is_rendered_in_the_map_s_order(serve: Serve) -> None:
    recipe = PLAIN + (
        "defaults: {gpu_memory_utilization: 0.8, port: 8001, tensor_parallel: 2, enable_prefix_caching: false, max_model_len: 4096,"
        " speculative_config: {method: mtp, num_speculative_tokens: 1}}\n"
    )
    expected = "vllm serve org/m -tp 2 --port 8001 --gpu-memory-utilization 0.8 --max-model-len 4096 --no-enable-prefix-caching"
    assert serve(recipe).words == [
        *expected.split(),
        "--speculative-config",
        '{"method":"mtp","num_speculative_tokens":1}',
        "--served-model-name",
        "org/m",
    ]


@pytest.mark.parametrize(
    ("command", "defaults", "tail"),
    [
        ("vllm serve {model}", "{}", "--served-model-name org/m"),
        ("vllm serve {model}", "{served_model_name: n}", "--served-model-name n"),
        ("vllm serve {model} --served-model-name literal", "{served_model_name: n}", "--served-model-name literal"),
        ("vllm serve {model} --served_model_name=literal", "{}", "--served_model_name=literal"),
        ("vllm serve {model} # why", "{}", "--served-model-name org/m # why"),
    ],
)
def test_a_template_is_always_given_a_name(serve: Serve, command: str, defaults: str, tail: str) -> None:
    assert serve(template(command, defaults)).command.text == f"vllm serve org/m {tail}"


def test_a_model_of_a_path_is_named_after_its_folder(serve: Serve) -> None:
    words = serve("model: /models/big\nruntime: vllm-distributed\ncontainer: v:1\n").words
    assert words == ["vllm", "serve", "/models/big", "--served-model-name", "big"]


def test_several_names_are_several_words_and_the_first_is_asked_for(serve: Serve) -> None:
    command = serve(PLAIN + "defaults: {served_model_name: [a, b c]}\n").command
    assert split(command.text)[-3:] == ["--served-model-name", "a", "b c"]
    assert (command.served_model_name, command.served_model_names) == ("a", ("a", "b c"))


def test_a_name_with_blanks_and_quotes_stays_one_word(serve: Serve) -> None:
    assert serve(PLAIN + 'defaults: {served_model_name: "my model\'s name"}\n').words[-1] == "my model's name"


def test_a_hub_model_keeps_its_id_and_gets_the_commit(serve: Serve) -> None:
    assert serve(PLAIN, model=SNAPSHOT).words[:5] == ["vllm", "serve", "org/m", "--revision", SHA]
    assert serve(PLAIN + "model_revision: v2\n").words[:5] == ["vllm", "serve", "org/m", "--revision", "v2"]


def test_a_template_serves_the_snapshot(serve: Serve) -> None:
    text = template("vllm serve {model} --revision {model_revision} --tokenizer {resolved_model_path}")
    bound = serve(text, model=SNAPSHOT).words
    assert bound == [*("vllm", "serve", SNAPSHOT, "--revision", SHA, "--tokenizer", SNAPSHOT, "--served-model-name", "org/m")]
    assert serve(text).words == ["vllm", "serve", "org/m", "--tokenizer", "org/m", "--served-model-name", "org/m"]


def test_a_model_that_is_spelt_out_is_not_pinned(serve: Serve) -> None:
    (warning,) = serve(template("vllm serve org/m"), model=SNAPSHOT).command.warnings
    assert "spells out org/m, so its revision is not pinned" in warning
    assert serve(template("vllm serve org/m")).command.warnings == ()


def test_another_model_than_the_recipe_s_is_refused(serve: Serve) -> None:
    with pytest.raises(RecipeError, match="the command serves other/x, the recipe's model is org/m"):
        _ = serve(template("vllm serve other/x")).command


def test_a_draft_model_gets_its_commit(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {speculative_config: {method: eagle3, model: org/draft}}\n").given(draft_revisions={"org/draft": SHA})
    assert json.loads(served.words[4]) == {"method": "eagle3", "model": "org/draft", "revision": SHA}


def test_ray_is_left_out_of_the_distributed_variant(serve: Serve) -> None:
    command = serve(template("vllm serve {model} --distributed-executor-backend ray -tp 2")).command
    assert command.text == "vllm serve org/m -tp 2 --served-model-name org/m"
    assert any("without Ray" in note for note in command.notes)


def test_an_override_of_the_backend_replaces_the_flag(serve: Serve) -> None:
    text = template("vllm serve {model} --distributed-executor-backend ray -tp 2")
    assert "--distributed-executor-backend mp" in serve(text, "distributed_executor_backend=mp").command.text


def test_overrides_that_the_template_does_not_use_take_effect(serve: Serve) -> None:
    text = template("vllm serve {model} --port 9001 -tp 1 # end")
    command = serve(text, "port=8123", "tensor_parallel=2", "served_model_name=x", "kv_cache_dtype=fp8").command
    assert command.text == "vllm serve org/m --port 8123 -tp 2 --served-model-name x --kv-cache-dtype fp8 # end"
    assert command.port == 8123


def test_keys_that_the_launch_reads_are_no_override_without_effect(serve: Serve) -> None:
    assert serve(PLAIN, "ray_port=1", "init_port=2", "data_parallel_rpc_port=3").words == serve(PLAIN).words
    with pytest.raises(UsageError, match="the override init_prt would have no effect"):
        _ = serve(PLAIN, "init_prt=2").command


def test_defaults_that_reach_nobody_are_told_with_the_nearest_name(serve: Serve) -> None:
    (warning,) = serve(PLAIN + "defaults: {gpu_memory_utilisation: 0.5}\n").command.warnings
    assert warning == (
        "defaults.gpu_memory_utilisation has no effect: vllm-distributed has no flag for it; did you mean 'gpu_memory_utilization'?"
    )
    (unused,) = serve(template("vllm serve {model}", "{block_size: 16, port: 8000}")).command.warnings
    assert unused == "defaults.block_size has no effect: the command does not use it"


def test_two_nodes_get_their_places_before_a_comment(serve: Serve) -> None:
    commands = serve(template("vllm serve {model} -tp 2 # two", "{tensor_parallel: 2}")).rank_commands(2)
    common = "vllm serve org/m -tp 2 --served-model-name org/m --nnodes 2 --node-rank {} --master-addr 10.0.0.1 --master-port 25000"
    assert [command.text for command in commands] == [f"{common.format(0)} # two", f"{common.format(1)} --headless # two"]


def test_one_node_gets_nothing(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 4}\n")
    assert [command.text for command in served.rank_commands(1, gpus=4)] == [served.command.text]


def test_replicas_of_one_node_get_the_data_parallel_flags_alone(serve: Serve) -> None:
    served = serve(template("vllm serve {model}", "{data_parallel: 3}"))
    common = "--data-parallel-size 3 --data-parallel-rank {} --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345"
    assert lines(served.added(3)) == [common.format(rank) for rank in range(3)]


def test_replicas_of_several_nodes_have_ranks_and_masters_of_their_own(serve: Serve) -> None:
    served = serve(template("vllm serve {model}", "{data_parallel: 2, tensor_parallel: 2}"))
    replica = "--nnodes 2 --node-rank {} --master-addr 10.0.0.{} --master-port 25000{}"
    shared = "--data-parallel-size 2 --data-parallel-rank {} --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345"
    assert lines(served.added(4)) == [
        f"{replica.format(0, 1, '')} {shared.format(0)}",
        f"{replica.format(1, 1, ' --headless')} {shared.format(0)}",
        f"{replica.format(0, 3, '')} {shared.format(1)}",
        f"{replica.format(1, 3, ' --headless')} {shared.format(1)}",
    ]


def test_nodes_with_several_replicas_hand_their_work_to_the_head(serve: Serve) -> None:
    served = serve(template("vllm serve {model}", "{data_parallel: 4, tensor_parallel: 2}"))
    meeting = "--data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345"
    assert lines(served.added(2, gpus=4)) == [
        f"--data-parallel-size 4 --data-parallel-size-local 2 {meeting}",
        f"--data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-start-rank 2 --headless {meeting}",
    ]


def test_the_port_where_replicas_meet_can_be_set(serve: Serve) -> None:
    served = serve(template("vllm serve {model}", "{data_parallel: 2, data_parallel_rpc_port: 14000}"))
    assert [added[-2:] for added in served.added(2)] == [["--data-parallel-rpc-port", "14000"]] * 2
    assert served.runtime.rank_ports(served.given(rank=served.ranks(2)[0]).ctx, served.command) == (8000, 14000)


def test_the_number_of_replicas_is_told_once(serve: Serve) -> None:
    (first, _) = serve(template("vllm serve {model} --data-parallel-size {data_parallel}", "{data_parallel: 2}")).rank_commands(2)
    assert first.text.count("--data-parallel-size") == 1


def test_an_author_s_own_rank_flags_are_warned_about_and_give_way(serve: Serve) -> None:
    served = serve(template("vllm serve {model} --nnodes 4 --node-rank $RANK --master-addr=1.2.3.4 -tp 2", "{tensor_parallel: 2}"))
    (warning,) = served.command.warnings
    assert warning.startswith("the command holds --nnodes, --node-rank, --master-addr, which each rank gets at launch")
    (head, _) = served.rank_commands(2)
    assert head.text.count("--nnodes") == head.text.count("--master-addr") == 1
    assert "1.2.3.4" not in head.text
    assert len(head.notes) == 3


def test_a_command_in_quotes_cannot_be_spread_over_nodes(serve: Serve) -> None:
    served = serve(template("bash -c 'vllm serve {model} -tp 2'", "{tensor_parallel: 2}"))
    with pytest.raises(Exception, match="flags cannot be changed: the command starts vllm serve inside quotes"):
        served.rank_commands(2)


def test_parallelism_of_the_command_counts_where_nobody_overrides_it(serve: Serve) -> None:
    served = serve(template("vllm serve {model} -tp 2 --pipeline-parallel-size 2 --gpu-memory-utilization 0.90"))
    found = served.runtime.settings_in_command(served.recipe, served.config)
    assert found == {"tensor_parallel": 2, "pipeline_parallel": 2, "gpu_memory_utilization": "0.90"}
    assert served.runtime.world_size(served.config.with_values(found)) == 4
    overridden = serve(template("vllm serve {model} -tp 2"), "tensor_parallel=1")
    assert overridden.runtime.settings_in_command(overridden.recipe, overridden.config) == {}


def test_counting_with_the_command_s_own_settings_changes_no_command(serve: Serve) -> None:
    served = serve(template("vllm serve {model} -tp 2 --gpu-memory-utilization 0.90"))
    counted = served.config.with_values(served.runtime.settings_in_command(served.recipe, served.config))
    assert served.given(config=counted).command == served.command


def wait_for_nodes(serve: Serve, tmp_path: Path, nodes: str) -> subprocess.CompletedProcess[str]:
    """What the head's command does before it serves, with a Ray that knows these nodes and a clock that runs fast."""
    served = serve(template("vllm serve {model} -tp 2", "{tensor_parallel: 2}", "vllm-ray"))
    words = shlex.split(served.rank_command(served.ranks(2)[0]).text)
    (script,) = [word for word in words if word.startswith("import ray")]
    (tmp_path / "ray.py").write_text(f"def init(**_): pass\ndef nodes(): return {nodes}\n")
    (tmp_path / "sitecustomize.py").write_text("import time\nreal = time.monotonic\ntime.monotonic = lambda: real() * 10000\n")
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=20, check=False)


def test_the_head_serves_once_all_ray_nodes_are_there(serve: Serve, tmp_path: Path) -> None:
    ended = wait_for_nodes(serve, tmp_path, "[{'Alive': True}, {'Alive': False}, {'Alive': True}]")
    assert (ended.returncode, ended.stdout) == (0, "2 of 2 Ray nodes have joined\n")


def test_ray_nodes_that_never_join_are_the_reason_why_the_head_ends(serve: Serve, tmp_path: Path) -> None:
    ended = wait_for_nodes(serve, tmp_path, "[{'Alive': True}, {'Alive': False}]")
    assert (ended.returncode, ended.stderr.strip()) == (1, "Ray nodes are missing after 420 s: there are 1 of 2")


def test_ray_builds_a_cluster_around_one_engine(serve: Serve) -> None:
    served = serve(template("vllm serve {model} -tp 2", "{tensor_parallel: 2}", "vllm-ray"))
    head, worker = served.ranks(2)
    text = served.rank_command(head).text.splitlines()
    assert text[0] == ("ray start --head --port 46379 --node-ip-address 10.0.0.1 --include-dashboard=False --disable-usage-stats || exit")
    assert text[1].startswith("python3 -c '")
    assert "while seen < 2:" in text
    assert text[-1] == "vllm serve org/m -tp 2 --served-model-name org/m --distributed-executor-backend ray"
    assert served.rank_command(worker).text.splitlines()[-1] == (
        "exec ray start --block --address=10.0.0.1:46379 --node-ip-address 10.0.0.2 --disable-usage-stats"
    )


def test_a_ray_worker_waits_until_its_head_listens(serve: Serve, tmp_path: Path) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        served = serve(RAY + "defaults: {tensor_parallel: 2}\n")
        worker = msgspec.structs.replace(served.ranks(2)[1], head_address="127.0.0.1", master_port=head.getsockname()[1])
        (tmp_path / "ray").write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / "ray").chmod(0o755)
        words = ["sh", "-c", served.rank_command(worker).text]
        path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
        with subprocess.Popen(words, env={"PATH": path}, stdout=subprocess.PIPE, text=True) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.4)
            head.listen()
            said, _ = process.communicate(timeout=20)
    assert said.startswith("start --block --address=127.0.0.1:")


def test_the_ray_dashboard_is_off_and_never_open_to_the_network(serve: Serve) -> None:
    served = serve(RAY + "defaults: {tensor_parallel: 2, dashboard: true, dashboard_port: 9000, ray_port: 5000}\n")
    head, worker = served.ranks(2)
    assert "--port 5000 --node-ip-address 10.0.0.1 --include-dashboard=True --dashboard-host 127.0.0.1 --dashboard-port 9000" in (
        served.rank_command(head).text
    )
    assert served.runtime.rank_ports(served.given(rank=head).ctx, served.command) == (8000, 5000, 9000)
    assert served.runtime.rank_ports(served.given(rank=worker).ctx, served.command) == ()


def test_variables_that_differ_from_host_to_host_are_kept_at_home(serve: Serve, tmp_path: Path) -> None:
    served = serve(RAY + "defaults: {tensor_parallel: 2}\n")
    envs = [{"NODE_IP": "10.0.0.1", "A": "1"}, {"NODE_IP": "10.0.0.2", "A": "1"}]
    head = with_env_keys(served.ranks(2), envs)[0]
    line = next(line for line in served.rank_command(head).text.splitlines() if line.startswith("mkdir"))
    subprocess.run(["bash", "-c", line], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True)
    assert json.loads((tmp_path / ".config/vllm/ray_non_carry_over_env_vars.json").read_text()) == ["NODE_IP"]


def test_another_backend_gives_way_to_ray_on_several_nodes_only(serve: Serve) -> None:
    served = serve(template("vllm serve {model} --distributed-executor-backend mp -tp 2", "{tensor_parallel: 2}", "vllm-ray"))
    assert "mp" in served.words
    (head, _) = served.rank_commands(2)
    assert head.text.splitlines()[-1].endswith("-tp 2 --served-model-name org/m --distributed-executor-backend ray")


@pytest.mark.parametrize("runtime", ["vllm-ray", "eugr-vllm"])
def test_ray_has_no_data_parallelism(serve: Serve, runtime: str) -> None:
    served = serve(f"model: org/m\nruntime: {runtime}\ncontainer: v:1\ndefaults: {{data_parallel: 2}}\n")
    with pytest.raises(RecipeError, match=f"{runtime} has no data_parallel"):
        served.runtime.required_nodes(served.recipe, served.config, [1, 1])


def test_no_parallelism_uses_one_host(serve: Serve) -> None:
    served = serve(PLAIN)
    count = served.runtime.required_nodes(served.recipe, served.config, [1, 1, 1])
    assert (count.ranks, count.nodes) == (1, 1)


def test_more_nodes_than_allowed_tell_both_numbers(serve: Serve) -> None:
    served = serve(PLAIN + "max_nodes: 1\n", "tensor_parallel=2")
    with pytest.raises(NodeCountError, match="recipe allows 1 node, tensor_parallel 2 needs 2"):
        served.runtime.required_nodes(served.recipe, served.config, [1, 1])


def test_the_old_name_says_what_to_write(serve: Serve) -> None:
    served = serve("model: org/m\nruntime: eugr-vllm\ncontainer: v:1\n")
    assert served.runtime.deprecation == "runtime eugr-vllm is deprecated; write runtime: vllm-ray and builder: eugr"
    assert served.runtime.requires_capability() == "gb10"


def test_ports_that_must_be_free(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {data_parallel: 2, tensor_parallel: 2, port: 8001}\n")
    ports = [served.runtime.rank_ports(served.given(rank=rank).ctx, served.command) for rank in served.ranks(4)]
    assert ports == [(8001, 25000, 13345), (), (8001, 25000), ()]
