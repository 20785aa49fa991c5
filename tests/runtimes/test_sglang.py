from __future__ import annotations

import pytest

from sparkrun.core.errors import RecipeError
from tests.runtimes.serving import SHA, SNAPSHOT, Serve, lines

PLAIN = "model: org/m\nruntime: sglang\ncontainer: s:1\n"


def template(command: str, defaults: str = "{}") -> str:
    return f"{PLAIN}defaults: {defaults}\ncommand: |\n  {command}\n"


def test_a_command_without_template(serve: Serve) -> None:
    recipe = PLAIN + "defaults: {port: 8000, tensor_parallel: 2, gpu_memory_utilization: 0.7, max_model_len: 4096, served_model_name: n}\n"
    assert serve(recipe).command.text == (
        "sglang serve --model-path org/m --port 8000 --tp-size 2 --mem-fraction-static 0.7 --context-length 4096 --served-model-name n"
    )


def test_a_hub_model_keeps_its_id_and_gets_the_commit_once(serve: Serve) -> None:
    assert serve(PLAIN, model=SNAPSHOT).command.text == f"sglang serve --model-path org/m --revision {SHA}"
    assert serve(PLAIN, "revision=v9", model=SNAPSHOT).command.text == "sglang serve --model-path org/m --revision v9"


def test_a_name_is_added_only_where_one_is_configured(serve: Serve) -> None:
    command = "python3 -m sglang.launch_server --model-path {model}"
    assert serve(template(command)).command.served_model_name is None
    assert serve(template(command, "{served_model_name: n}")).words[-2:] == ["--served-model-name", "n"]


def test_a_gguf_model_needs_a_tokenizer(serve: Serve) -> None:
    gguf = "model: org/m-GGUF:Q4_K_M\nruntime: sglang\ncontainer: s:1\n"
    with pytest.raises(RecipeError, match="SGLang needs tokenizer_path for the GGUF model org/m-GGUF:Q4_K_M"):
        _ = serve(gguf).command
    file = f"{SNAPSHOT}/m-Q4_K_M.gguf"
    served = serve(gguf + "defaults: {tokenizer_path: org/m}\n", model=file)
    assert served.command.text == f"sglang serve --model-path {file} --tokenizer-path org/m"


def test_a_draft_model_is_pinned_in_both_forms(serve: Serve) -> None:
    pinned = serve(PLAIN + "defaults: {speculative_draft_model: org/d}\n").given(draft_revisions={"org/d": SHA})
    assert pinned.words[-4:] == ["--speculative-draft-model-path", "org/d", "--speculative-draft-model-revision", SHA]
    written = serve(template("sglang serve --model-path {model} --speculative-draft-model-path org/d"))
    assert written.given(draft_revisions={"org/d": SHA}).words[-2:] == ["--speculative-draft-model-revision", SHA]


def test_nodes_meet_at_the_head(serve: Serve) -> None:
    common = "--dist-init-addr 10.0.0.1:25000 --nnodes 2 --node-rank {}"
    assert lines(serve(PLAIN + "defaults: {tensor_parallel: 2}\n").added(2)) == [common.format(0), common.format(1)]


def test_the_rendezvous_port_is_the_planner_s(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 2, init_port: 31000}\n")
    assert served.runtime.first_port(served.config) == 31000
    assert "--dist-init-addr 10.0.0.1:31000" in served.rank_commands(2)[1].text


def test_an_ipv6_head_is_bracketed(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 2}\n")
    rank = served.ranks(2)[0].__class__(node_count=2, replica_nodes=2, master_address="fd00::1", master_port=1)
    assert served.runtime.rank_words(rank)[1] == "'[fd00::1]:1'"


def test_data_parallelism_without_attention_is_independent_servers(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {data_parallel: 2, tensor_parallel: 2}\n")
    commands = [command.text for command in served.rank_commands(4)]
    common = "sglang serve --model-path org/m --tp-size 2 --dist-init-addr 10.0.0.{}:25000 --nnodes 2 --node-rank {}"
    assert commands == [common.format(1, 0), common.format(1, 1), common.format(3, 0), common.format(3, 1)]


def test_independent_servers_of_one_node_meet_nobody(serve: Serve) -> None:
    served = serve(template("sglang serve --model-path {model} --dp-size {data_parallel}", "{data_parallel: 3}"))
    assert [command.text for command in served.rank_commands(3)] == ["sglang serve --model-path org/m"] * 3


def test_a_node_with_several_replicas_serves_those(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {data_parallel: 4}\n")
    assert [command.text for command in served.rank_commands(2, gpus=2)] == ["sglang serve --model-path org/m --dp-size 2"] * 2
    assert served.rank_commands(1, gpus=4)[0].text == "sglang serve --model-path org/m --dp-size 4"


def test_attention_in_parallel_spans_the_tensor_parallel_ranks(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {data_parallel: 2, tensor_parallel: 2, enable_dp_attention: true}\n")
    assert served.runtime.world_size(served.config) == 2
    (head, _) = served.rank_commands(2)
    assert head.text == (
        "sglang serve --model-path org/m --tp-size 2 --dp-size 2 --enable-dp-attention"
        " --dist-init-addr 10.0.0.1:25000 --nnodes 2 --node-rank 0"
    )


def test_attention_in_parallel_has_as_many_parts_as_tensor_parallelism(serve: Serve) -> None:
    assert serve(PLAIN + "defaults: {tensor_parallel: 4, enable_dp_attention: true}\n").words[-2:] == ["--dp-size", "4"]
    wrong = serve(PLAIN + "defaults: {tensor_parallel: 4, data_parallel: 2, enable_dp_attention: true}\n")
    with pytest.raises(RecipeError, match="data_parallel must equal tensor_parallel"):
        wrong.runtime.required_nodes(wrong.recipe, wrong.config, [1] * 8)
    written = serve(template("sglang serve --model-path {model} --tp 2 --enable-dp-attention"))
    assert written.runtime.settings_in_command(written.recipe, written.config) == {"tensor_parallel": 2, "enable_dp_attention": True}
