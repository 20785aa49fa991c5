from __future__ import annotations

import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.placement import NodeCountError
from sparkrun.core.recipe.detect import CONCRETE_RUNTIMES
from sparkrun.runtimes.base import RuntimePlugin
from tests.runtimes.serving import Serve

MAX = "model: org/m\nruntime: modular-max\ncontainer: x:1\n"
TOKENARY = "model: org/m\nruntime: tokenary\ncontainer: x:1\n"


def test_every_documented_runtime_is_a_plugin(plugins: Plugins) -> None:
    assert set(plugins.names("runtime")) == set(CONCRETE_RUNTIMES)
    assert plugins.failures == []


@pytest.mark.parametrize("name", CONCRETE_RUNTIMES)
def test_what_checking_a_recipe_needs_to_know(plugins: Plugins, name: str) -> None:
    runtime: RuntimePlugin = plugins.runtime(name)
    known = runtime.knowledge()
    assert (known.name, known.engine, known.flag_map) == (name, runtime.engine, runtime.flag_map)
    assert known.takes_host_images == (name in ("sglang", "vllm-distributed", "llama-cpp"))
    assert known.strategy == {"vllm-ray": "ray", "eugr-vllm": "ray", "llama-cpp": "native/rpc"}.get(name, "native")
    assert all(flag.startswith("--") for flag in known.rendezvous_flags)


def test_modular_max(serve: Serve) -> None:
    recipe = MAX + "defaults: {port: 8000, max_model_len: 4096, max_num_seqs: 8, tensor_parallel: 2, quantization: q4_k}\n"
    assert serve(recipe).command.text == (
        "max serve --model org/m --port 8000 --max-length 4096 --max-batch-size 8 --quantization-encoding q4_k --devices gpu:0,1"
    )
    assert serve(MAX + "command: max serve --model {model} --devices gpu:3\n", "tensor_parallel=2").words[-2:] == ["--devices", "gpu:3"]
    assert serve(MAX + "command: max serve --model {model}\n", "served_model_name=n").words[-2:] == ["--served-model-name", "n"]


def test_modular_max_stays_on_one_host(serve: Serve) -> None:
    served = serve(MAX + "defaults: {tensor_parallel: 2}\n")
    assert served.runtime.required_nodes(served.recipe, served.config, [2, 2]).nodes == 1
    with pytest.raises(NodeCountError, match="modular-max runs on 1 node, tensor_parallel 2 needs 2"):
        served.runtime.required_nodes(served.recipe, served.config, [1, 1])


def test_tokenary(serve: Serve) -> None:
    recipe = TOKENARY + "defaults: {host: 0.0.0.0, port: 8000, max_model_len: 4096, kv_cache_dtype: fp8, ner: true, tensor_parallel: 2}\n"
    served = serve(recipe)
    assert served.command.text == "tokenary serve org/m --port 8000 --host 0.0.0.0 --max-model-len 4096 --kvcache-dtype fp8 --ner"
    assert " ".join(served.added(2)[1]) == "--rank 1 --world-size 2 --master-addr 10.0.0.1 --master-port 27101"
