from __future__ import annotations

import pytest

from sparkrun.core.errors import RecipeError
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.runtimes.model_files import container_facts
from sparkrun.runtimes.ranks import with_fabric
from tests.runtimes.serving import SHA, Serve

PLAIN = "model: org/Vision-8B-GGUF:Q4_K_M\nruntime: llama-cpp\ncontainer: l:1\n"
FOLDER = f"/cache/huggingface/hub/models--org--Vision-8B-GGUF/snapshots/{SHA}"
FILES = ModelFacts(kind="hub", path=f"{FOLDER}/Vision-8B-Q4_K_M.gguf", mmproj=f"{FOLDER}/mmproj-F16.gguf", mmproj_count=2)


def template(command: str, more: str = "") -> str:
    return f"{PLAIN}{more}command: |\n  {command}\n"


def test_files_that_were_fetched_take_the_place_of_the_id(serve: Serve) -> None:
    command = serve(template("llama-server -hf {model} --port 8000 # why"), model=FILES).command
    assert command.text == f"llama-server -m {FILES.path} --port 8000 --mmproj {FILES.mmproj} # why"
    assert command.notes == ("2 projectors exist; mmproj-F16.gguf is used",)


@pytest.mark.parametrize("spelling", ["-hf org/Vision-8B-GGUF:Q4_K_M", "--hf-repo=org/Vision-8B-GGUF"])
def test_an_id_that_is_spelt_out_is_replaced_too(serve: Serve, spelling: str) -> None:
    assert serve(template(f"llama-server {spelling}"), model=FILES).words == [
        *("llama-server", "-m", FILES.path, "--mmproj", FILES.mmproj),
    ]


def test_another_model_s_id_is_not_replaced(serve: Serve) -> None:
    with pytest.raises(RecipeError, match="the command serves other/x, the recipe's model is org/Vision-8B-GGUF:Q4_K_M"):
        _ = serve(template("llama-server -hf other/x"), model=FILES).command


def test_paths_of_the_host_become_those_of_the_container() -> None:
    host = HostFacts(
        host="spark-1",
        hf_cache="/home/ann/.cache/huggingface",
        model=ModelFacts(path="/home/ann/.cache/huggingface/hub/models--o--m/snapshots/x/a.gguf", mmproj="/data/p.gguf"),
    )
    model = container_facts(host).model
    assert (model.path, model.mmproj) == ("/cache/huggingface/hub/models--o--m/snapshots/x/a.gguf", "/data/p.gguf")


@pytest.mark.parametrize(
    ("said", "tail"),
    [
        ("mmproj: false\n", []),
        ("mmproj: mmproj-BF16.gguf\n", ["--mmproj", f"{FOLDER}/mmproj-BF16.gguf"]),
        ("", ["--mmproj", f"{FOLDER}/mmproj-F16.gguf"]),
    ],
)
def test_the_projector_that_the_recipe_wants(serve: Serve, said: str, tail: list[str]) -> None:
    assert serve(PLAIN + said, model=FILES).words == ["llama-server", "-m", FILES.path, *tail]
    assert serve(template("llama-server -m {model} --mmproj own.gguf", said), model=FILES).words[-2:] == ["--mmproj", "own.gguf"]


def test_before_the_files_are_known_the_id_stands(serve: Serve) -> None:
    assert serve(template("llama-server -hf {model}")).words == ["llama-server", "-hf", "org/Vision-8B-GGUF:Q4_K_M"]
    assert serve(PLAIN).words == ["llama-server", "-hf", "org/Vision-8B-GGUF:Q4_K_M"]


def test_a_command_without_template(serve: Serve) -> None:
    recipe = PLAIN + "defaults: {max_model_len: 4096, flash_attn: true, served_model_name: n, n_gpu_layers: 99, webui: false}\n"
    assert serve(recipe, platform={"mmap": False}).command.text == (
        "llama-server -hf org/Vision-8B-GGUF:Q4_K_M --ctx-size 4096 --n-gpu-layers 99 --alias n --flash-attn on --no-webui --no-mmap"
    )


@pytest.mark.parametrize(("said", "name"), [("--alias x", "x"), ("-a x", "x"), ("", "n")])
def test_an_alias_is_added_unless_one_stands_there(serve: Serve, said: str, name: str) -> None:
    served = serve(template(f"llama-server -hf {{model}} {said}", "defaults: {served_model_name: n}\n"))
    assert served.command.served_model_name == name
    assert served.command.text.count("x") + served.command.text.count("--alias n") == 1


@pytest.mark.parametrize(
    ("defaults", "mode"),
    [
        ("{tensor_parallel: 2}", ["--split-mode", "row"]),
        ("{pipeline_parallel: 2}", ["--split-mode", "layer"]),
        ("{tensor_parallel: 2, split_mode: none}", ["--split-mode", "none"]),
        ("{tensor_parallel: 1}", []),
    ],
)
def test_parallelism_says_how_the_model_is_split(serve: Serve, defaults: str, mode: list[str]) -> None:
    assert serve(f"{PLAIN}defaults: {defaults}\n").words[3:] == mode
    command = "llama-server -hf {model} --split-mode {split_mode}" if "none" in defaults else "llama-server -hf {model}"
    assert serve(template(command, f"defaults: {defaults}\n")).words[3:] == mode


def test_the_template_is_kept_over_several_hosts(serve: Serve) -> None:
    served = serve(template("llama-server -hf {model} --jinja # all", "defaults: {tensor_parallel: 3}\n"))
    head, *workers = (command.text for command in served.rank_commands(3))
    assert head == ("llama-server -hf org/Vision-8B-GGUF:Q4_K_M --jinja --split-mode layer --rpc 10.0.0.2:50052,10.0.0.3:50052 # all")
    assert workers == ["rpc-server --host 10.0.0.2 --port 50052", "rpc-server --host 10.0.0.3 --port 50052"]


def test_workers_lend_their_memory_on_the_fabric_alone(serve: Serve) -> None:
    served = serve(template("llama-server -hf {model}", "defaults: {tensor_parallel: 3}\n"))
    ranks = with_fabric(served.ranks(3), {"spark-1": "192.168.1.1", "spark-2": "192.168.1.2"})
    head, *workers = (served.rank_command(rank).text for rank in ranks)
    assert head.endswith("--rpc 192.168.1.2:50052,10.0.0.3:50052")
    assert workers == ["rpc-server --host 192.168.1.2 --port 50052", "rpc-server --host 10.0.0.3 --port 50052"]


def test_only_the_head_needs_the_model_and_names_are_numbered(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 3}\n")
    ranks = served.ranks(3)
    assert [served.runtime.needs_model(rank) for rank in ranks] == [True, False, False]
    assert [rank.role for rank in ranks] == ["head", "worker_1", "worker_2"]
    ports = [served.runtime.rank_ports(served.given(rank=rank).ctx, served.command) for rank in ranks]
    assert ports == [(8080,), (50052,), (50052,)]


def test_the_port_of_the_workers_can_be_set(serve: Serve) -> None:
    served = serve(PLAIN + "defaults: {tensor_parallel: 2, rpc_port: 6000}\n")
    head, worker = (command.text for command in served.rank_commands(2))
    assert head.endswith("--rpc 10.0.0.2:6000")
    assert worker == "rpc-server --host 10.0.0.2 --port 6000"


def test_without_parallelism_every_host_lends_its_memory(serve: Serve) -> None:
    served = serve(PLAIN)
    assert served.runtime.required_nodes(served.recipe, served.config, [1, 1, 1]).ranks == 3


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ("{tensor_parallel: 2, pipeline_parallel: 2}", "splits by tensor_parallel or by pipeline_parallel, not both"),
        ("{data_parallel: 2}", "llama-cpp has no data_parallel"),
    ],
)
def test_parallelism_that_it_does_not_have(serve: Serve, defaults: str, message: str) -> None:
    served = serve(f"{PLAIN}defaults: {defaults}\n")
    with pytest.raises(RecipeError, match=message):
        served.runtime.required_nodes(served.recipe, served.config, [1] * 4)


def test_an_image_brings_its_own_engine(serve: Serve) -> None:
    served = serve(PLAIN, model=FILES)
    assert served.ctx.facts.engine_path is None
    assert served.words[0] == "llama-server"
