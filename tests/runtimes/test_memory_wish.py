"""What a recipe wants of memory, by its configuration and by its command."""

from __future__ import annotations

import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.effective import Tiers, parse_overrides
from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe import load_recipe_text
from sparkrun.core.recipe.schema import RecipeSource
from sparkrun.models.vram.estimate import MemoryWish
from sparkrun.runtimes.memory_wish import memory_share, memory_wish

IN_GIB = """\
runtime: vllm
defaults: {gpu_memory_utilization: 108}
command: vllm serve {model} --gpu-memory-utilization-gb {gpu_memory_utilization}
"""


def wish(config: SparkrunConfig, text: str, *overrides: str, ranks: int = 1) -> MemoryWish:
    recipe = load_recipe_text(f"model: org/m\ncontainer: e/x:1\n{text}", RecipeSource("text", "x"))
    runtime = Plugins(config).runtime(recipe.runtime)
    return memory_wish(runtime, recipe, runtime.configuration(recipe, Tiers(overrides=parse_overrides(overrides))), ranks=ranks)


def share(config: SparkrunConfig, text: str, capacity_gib: float | None = 121.0) -> float | None:
    recipe = load_recipe_text(f"model: org/m\ncontainer: e/x:1\n{text}", RecipeSource("text", "x"))
    runtime = Plugins(config).runtime(recipe.runtime)
    return memory_share(runtime, recipe, runtime.configuration(recipe, Tiers()), capacity_gib)


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ("runtime: vllm\ndefaults: {speculative_config: {method: eagle3, model: org/draft}}\n", "org/draft"),
        ('runtime: vllm\ndefaults: {speculative_config: \'{"method": "eagle3", "model": "org/draft"}\'}\n', "org/draft"),
        ('runtime: vllm\ncommand: |\n  vllm serve {model} --speculative-config \'{"model": "org/draft"}\'\n', "org/draft"),
        ("runtime: sglang\ndefaults: {speculative_draft_model_path: org/draft}\n", "org/draft"),
        ("runtime: sglang\ndefaults: {speculative_draft_model: org/draft}\n", "org/draft"),
        ("runtime: atlas\ndefaults: {draft_model: org/draft}\n", "org/draft"),
        ("runtime: vllm\ndefaults: {speculative_config: {method: mtp, num_speculative_tokens: 1}}\n", None),
        ("runtime: vllm\ndefaults: {speculative_config: {method: mtp, model: org/m}}\n", None),
        ("runtime: vllm\ndefaults: {speculative_config: nonsense}\n", None),
    ],
)
def test_a_draft_model_is_found_wherever_an_engine_reads_it(config: SparkrunConfig, text: str, draft: str | None) -> None:
    found = wish(config, text).draft
    assert (found.name if found else None) == draft


@pytest.mark.parametrize(
    "text",
    [
        "runtime: vllm\ndefaults: {speculative_config: {method: eagle3, model: org/draft, revision: v1}}\n",
        "runtime: sglang\ndefaults: {speculative_draft_model_path: org/draft, speculative_draft_model_revision: v1}\n",
        "runtime: atlas\ndefaults: {draft_model: org/draft, draft_model_revision: v1}\n",
        "runtime: sglang\ncommand: sglang serve --speculative-draft-model-path org/draft --speculative-draft-model-revision v1\n",
    ],
)
def test_the_revision_of_a_draft_model_is_read_with_it(config: SparkrunConfig, text: str) -> None:
    found = wish(config, text).draft
    assert found
    assert (found.name, found.revision) == ("org/draft", "v1")


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("runtime: vllm\ndefaults: {max_model_len: 4096}\n", 4096),
        ("runtime: vllm\ndefaults: {max_model_len: 32K}\n", 32768),
        ("runtime: vllm\ndefaults: {max_model_len: auto}\n", None),
        ("runtime: vllm\n", None),
        ("runtime: vllm\ncommand: vllm serve {model} --max-model-len 8192\n", 8192),
        ("runtime: llama-cpp\ndefaults: {ctx_size: 0}\n", None),
        ("runtime: llama-cpp\ndefaults: {max_model_len: 512}\n", 512),
        ("runtime: llama-cpp\ncommand: llama-server -m {model} -c 2048\n", 2048),
        ("runtime: sglang\ncommand: sglang serve --model-path {model} --context-length 1024\n", 1024),
        ("runtime: trtllm\ncommand: trtllm-serve {model} --max_seq_len 256\n", 256),
    ],
)
def test_the_context_is_what_the_engine_will_be_told(config: SparkrunConfig, text: str, context: int | None) -> None:
    assert wish(config, text).context == context


def test_what_is_given_for_a_run_beats_what_the_command_says(config: SparkrunConfig) -> None:
    text = "runtime: llama-cpp\ncommand: llama-server -m {model} -c 2048\n"
    assert wish(config, text, "ctx_size=99").context == 99


def test_where_a_cache_dtype_comes_from_is_kept_apart(config: SparkrunConfig) -> None:
    text = "runtime: vllm\ndefaults: {kv_cache_dtype: fp8}\n"
    given, default = wish(config, text, "kv_cache_dtype=int8"), wish(config, text)
    spelt = wish(config, "runtime: vllm\ncommand: vllm serve {model} --kv-cache-dtype fp8\n")
    assert (given.kv_dtype, default.kv_dtype_default, spelt.kv_dtype_in_command) == ("int8", "fp8", "fp8")


@pytest.mark.parametrize(
    ("text", "ranks", "split"),
    [
        ("runtime: llama-cpp\n", 4, (1, 4)),
        ("runtime: llama-cpp\ndefaults: {tensor_parallel: 2}\n", 2, (2, 1)),
        ("runtime: vllm\n", 4, (1, 1)),
        ("runtime: vllm\ndefaults: {tensor_parallel: 2, pipeline_parallel: 3}\n", 6, (2, 3)),
        ("runtime: vllm\ndefaults: {tensor_parallel: 2, data_parallel: 2}\n", 4, (2, 1)),
    ],
)
def test_the_split_is_by_ranks_that_share_a_model(config: SparkrunConfig, text: str, ranks: int, split: tuple[int, int]) -> None:
    found = wish(config, text, ranks=ranks)
    assert ((found.tensor_parallel, found.pipeline_parallel), found.unsplit) == (split, None)


def test_nothing_is_split_over_less_than_one(config: SparkrunConfig) -> None:
    with pytest.raises(RecipeError, match="tensor_parallel is 0, less than 1"):
        wish(config, "runtime: vllm\ndefaults: {tensor_parallel: 0}\n")


@pytest.mark.parametrize(
    "text",
    [
        "runtime: vllm\ndefaults: {data_parallel: 2}\ncommand: vllm serve {model} -dp {data_parallel} --enable-expert-parallel\n",
        "runtime: sglang\ndefaults: {tensor_parallel: 2, data_parallel: 2, enable_dp_attention: true}\n",
        "runtime: atlas\ndefaults: {tensor_parallel: 2, expert_parallel: 4}\n",
    ],
)
def test_a_split_of_another_kind_is_not_guessed(config: SparkrunConfig, text: str) -> None:
    assert wish(config, text).unsplit


@pytest.mark.parametrize(
    ("text", "capacity", "wanted"),
    [
        ("runtime: vllm\ndefaults: {gpu_memory_utilization: 0.7}\n", 121.0, 0.7),
        ("runtime: vllm\ncommand: vllm serve {model} --gpu-memory-utilization 0.6\n", 121.0, 0.6),
        ("runtime: sglang\ncommand: sglang serve --model-path {model} --mem-fraction-static 0.6\n", 121.0, 0.6),
        ("runtime: llama-cpp\ndefaults: {gpu_memory_utilization: 0.7}\n", 121.0, None),
        ("runtime: vllm\n", 121.0, None),
        (IN_GIB, 120.0, 0.9),
        (IN_GIB, None, None),
    ],
)
def test_a_share_is_one_also_where_the_engine_is_told_gib(
    config: SparkrunConfig, text: str, capacity: float | None, wanted: float | None
) -> None:
    assert share(config, text, capacity) == wanted
