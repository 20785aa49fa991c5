"""The estimate: where its numbers come from, how they are split, and what it says of what is not known."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.details import ModelDetails, details_of_config, weight_files
from sparkrun.models.vram.estimate import DraftModel, MemoryWish, estimate_memory
from tests.models.model_configs import DEEPSEEK_V3, LLAMA_8B, QWEN3_NEXT, Config

GIB = 1024**3
DOCUMENTED: dict[str, ConfigValue] = {"model_params": "8B", "model_dtype": "bf16", "num_layers": 36, "num_kv_heads": 8, "head_dim": 128}


def details(config: Config, **known: object) -> ModelDetails:
    found = details_of_config(json.dumps(config), source="a test")
    return found.completed_by(ModelDetails(source="a test", **known))  # type: ignore[arg-type]


def test_the_documented_example() -> None:
    """8B in bf16, 36 layers, 8 KV heads of 128, fp8 cache, 32768 tokens, two ranks."""
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, kv_dtype_default="fp8", context=32768, tensor_parallel=2))
    assert estimate.weights_gib == pytest.approx(14.90, abs=0.005)
    assert estimate.kv.token_bytes == 73728
    assert estimate.kv_total_gib == 2.25
    assert estimate.need.total_gib == pytest.approx(8.58, abs=0.005)
    assert (estimate.complete, estimate.kv_is_floor, estimate.warnings) == (True, False, ())


def test_what_a_recipe_says_of_the_memory_itself_counts_first() -> None:
    estimate = estimate_memory(MemoryWish(metadata={**DOCUMENTED, "model_vram": 326, "kv_vram_per_token": 0.001}, context=1000))
    assert estimate.weights_gib == 326
    assert estimate.kv_total_gib == pytest.approx(1.0)


def test_files_tell_what_the_metadata_does_not() -> None:
    estimate = estimate_memory(MemoryWish(context=8192), details(LLAMA_8B, weight_bytes=16 * GIB))
    assert (estimate.weights_gib, estimate.kv_total_gib, estimate.weights.dtype) == (16, 1.0, "bfloat16")


def test_metadata_beats_the_files() -> None:
    assert estimate_memory(MemoryWish(metadata=DOCUMENTED), details(LLAMA_8B, weight_bytes=99 * GIB)).weights_gib == pytest.approx(
        14.9, abs=0.01
    )


def test_counts_by_type_are_sizes_too() -> None:
    estimate = estimate_memory(MemoryWish(), ModelDetails(type_counts={"BF16": GIB, "F8_E4M3": GIB, "F32": GIB}))
    assert estimate.weights_gib == 2 + 1 + 4


def test_a_checkpoint_that_is_quantised_while_loading_shrinks() -> None:
    stored = details(LLAMA_8B, weight_bytes=16 * GIB)
    assert estimate_memory(MemoryWish(quantization="fp8"), stored).weights_gib == 8
    assert estimate_memory(MemoryWish(quantization="bitsandbytes"), stored).weights_gib == 4
    assert estimate_memory(MemoryWish(quantization="fp8"), stored).weights.dtype == "fp8"


def test_a_checkpoint_that_is_quantised_already_stays_as_it_is() -> None:
    stored = details(DEEPSEEK_V3, weight_bytes=640 * GIB)
    assert estimate_memory(MemoryWish(quantization="fp8"), stored).weights_gib == 640


@pytest.mark.parametrize(
    ("quantization", "dtype", "kv"),
    [
        ({"quant_method": "awq", "bits": 4}, "int4", None),
        ({"quant_method": "gptq", "bits": 8}, "int8", None),
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "nvfp4", "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", None),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "int4", None),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8", None),
        ({"quant_method": "mxfp4"}, "mxfp4", None),
        ({"quant_method": "auto-round", "bits": 4}, "int4", None),
        ({"quant_method": "never-heard-of"}, None, None),
    ],
)
def test_every_family_of_quantisation_tells_its_dtype(quantization: Config, dtype: str | None, kv: str | None) -> None:
    found = details({**LLAMA_8B, "quantization_config": quantization})
    assert (found.quant_dtype, found.kv_dtype) == (dtype, kv)


def test_a_second_file_may_tell_the_quantisation() -> None:
    second = json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    found = details_of_config(json.dumps(LLAMA_8B), second, source="a test")
    assert (found.quant_dtype, found.kv_dtype) == ("nvfp4", "fp8")


@pytest.mark.parametrize(
    ("metadata", "wish", "known", "dtype"),
    [
        ({"model_dtype": "nvfp4", "quantization": "fp8"}, "awq", "int4", "nvfp4"),
        ({"quantization": "fp8"}, "awq", "int4", "fp8"),
        ({}, "awq", "int8", "awq"),
        ({}, None, "int8", "int8"),
        ({}, None, None, "bfloat16"),
        ({"model_dtype": "int4-int8mix", "quantization": "compressed-tensors", "quant_bits": 4}, None, None, "int4"),
        ({"quantization": "none"}, None, None, "bfloat16"),
    ],
)
def test_the_dtype_is_the_first_that_somebody_names(
    metadata: dict[str, ConfigValue], wish: str | None, known: str | None, dtype: str
) -> None:
    files = ModelDetails(dtype="bfloat16", quant_dtype=known, source="a test")
    assert estimate_memory(MemoryWish(metadata=metadata, quantization=wish), files).weights.dtype == dtype


def test_a_dtype_that_nobody_knows_is_passed_over_with_a_warning() -> None:
    estimate = estimate_memory(MemoryWish(metadata={"model_params": "744B", "model_dtype": "int4-int8mix"}))
    assert estimate.weights_gib is None
    assert any("int4-int8mix" in warning for warning in estimate.warnings)


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({}, "fp8"),
        ({"kv_dtype": "auto"}, "fp8"),
        ({"kv_dtype": "nvfp4"}, "nvfp4"),
        ({"metadata": {"kv_dtype": "int8"}}, "int8"),
        ({"metadata": {"kv_dtype": "auto"}}, "fp8"),
        ({"kv_dtype_default": "auto"}, "fp8_e5m2"),
        ({"kv_dtype_default": None, "kv_dtype_in_command": None}, "bfloat16"),
        ({"kv_dtype": "nonsense"}, "fp8"),
    ],
)
def test_the_dtype_of_the_cache_is_the_first_that_is_not_auto(changes: dict[str, object], dtype: str) -> None:
    base: dict[str, object] = {"kv_dtype_default": "fp8", "kv_dtype_in_command": "fp8_e5m2"}
    assert estimate_memory(MemoryWish(**{**base, **changes})).kv_dtype == dtype  # type: ignore[arg-type]


def test_the_checkpoint_s_own_cache_dtype_comes_before_the_recipe_s_default() -> None:
    assert estimate_memory(MemoryWish(kv_dtype_default="int8"), ModelDetails(kv_dtype="fp8")).kv_dtype == "fp8"


def test_a_cache_dtype_in_the_command_alone_is_used_and_told() -> None:
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, kv_dtype_in_command="fp8", context=32768))
    assert estimate.kv_total_gib == 2.25
    assert any("command alone" in warning for warning in estimate.warnings)


def test_a_latent_cache_is_not_split_over_tensor_parallel_ranks() -> None:
    estimate = estimate_memory(MemoryWish(context=10000, tensor_parallel=4, pipeline_parallel=2), details(DEEPSEEK_V3))
    assert estimate.kv_total_gib is not None
    assert estimate.kv_per_gpu_gib == estimate.kv_total_gib / 2


def test_heads_that_are_fewer_than_the_ranks_are_copied_and_that_is_told() -> None:
    estimate = estimate_memory(MemoryWish(metadata={**DOCUMENTED, "num_kv_heads": 2}, context=32768, tensor_parallel=8))
    assert estimate.kv_total_gib is not None
    assert estimate.kv_per_gpu_gib == estimate.kv_total_gib / 2
    assert "2 KV heads on 8 tensor-parallel ranks: each is kept 4 times" in estimate.warnings


def test_a_cache_that_somebody_fixes_is_as_large_as_that() -> None:
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, kv_cache_bytes=10 * GIB, context=32768, tensor_parallel=2))
    assert (estimate.kv_per_gpu_gib, estimate.available_kv_gib(None)) == (10, 10)
    assert estimate.max_context_tokens(None) == 2 * 10 * GIB // (2 * 73728)


def test_what_is_left_beside_the_weights_holds_so_many_tokens() -> None:
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, kv_dtype_default="fp8", context=32768, tensor_parallel=2))
    left = 20 - 8e9 * 2 / GIB / 2
    assert estimate.available_kv_gib(20) == pytest.approx(left)
    assert estimate.max_context_tokens(20) == int(left * GIB * 2 / 73728)
    assert estimate.available_kv_gib(1) == 0


def test_a_draft_model_is_counted() -> None:
    draft = DraftModel("org/draft", details(LLAMA_8B, weight_bytes=2 * GIB))
    alone = estimate_memory(MemoryWish(metadata=DOCUMENTED, context=8192))
    both = estimate_memory(MemoryWish(metadata=DOCUMENTED, context=8192, draft=draft))
    assert alone.weights_gib is not None
    assert alone.kv_total_gib is not None
    assert both.weights_gib == alone.weights_gib + 2
    assert both.kv_total_gib == alone.kv_total_gib + 1.0


def test_a_draft_model_that_nobody_knows_leaves_the_estimate_open() -> None:
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, context=8192, draft=DraftModel("org/draft")))
    assert (estimate.complete, estimate.kv_is_floor, estimate.missing) == (False, True, "the draft model org/draft is not known")


def test_what_is_not_known_is_never_nothing() -> None:
    estimate = estimate_memory(MemoryWish(context=8192))
    assert (estimate.weights_gib, estimate.kv_total_gib, estimate.need.total_gib) == (None, None, None)
    assert estimate.missing == "the size of the weights is not known"


def test_weights_without_a_cache_are_not_the_whole() -> None:
    estimate = estimate_memory(MemoryWish(metadata={"model_params": "8B", "model_dtype": "bf16"}, context=8192))
    assert (estimate.complete, estimate.kv_per_gpu_gib) == (False, None)
    assert estimate.missing is not None
    assert "KV cache of 8192 tokens" in estimate.missing


def test_a_context_that_nobody_gives_is_not_sized_and_nothing_is_missing() -> None:
    estimate = estimate_memory(MemoryWish(metadata={"model_params": "8B", "model_dtype": "bf16"}))
    assert (estimate.kv_total_gib, estimate.complete) == (None, True)


def test_a_split_that_is_not_counted_is_not_guessed() -> None:
    estimate = estimate_memory(MemoryWish(metadata=DOCUMENTED, unsplit="experts elsewhere"))
    assert (estimate.weights_per_gpu_gib, estimate.missing) == (None, "experts elsewhere")


def test_of_a_repository_s_files_those_count_that_an_engine_loads() -> None:
    names = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "consolidated.safetensors",
        "adapter_model.safetensors",
    ]
    assert weight_files(names) == tuple(names[:2])
    assert weight_files(names[2:]) == ()
    assert weight_files(["x.safetensors", "original/y.safetensors", "pytorch_model.bin"]) == ("x.safetensors",)


@given(st.integers(1, 8), st.integers(1, 4), st.sampled_from([LLAMA_8B, QWEN3_NEXT, DEEPSEEK_V3]))
def test_no_gpu_holds_more_when_there_are_more_of_them(tensor: int, pipeline: int, config: Config) -> None:
    def need(tp: int, pp: int) -> float:
        wish = MemoryWish(context=10000, tensor_parallel=tp, pipeline_parallel=pp)
        total = estimate_memory(wish, details(config, weight_bytes=100 * GIB)).need.total_gib
        assert total is not None
        return total

    assert need(tensor + 1, pipeline) <= need(tensor, pipeline)
    assert need(tensor, pipeline + 1) <= need(tensor, pipeline)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"model_params": "8X"}, "metadata.model_params '8X' is not a number or like 7B; it is passed over"),
        ({"model_params": -5}, "metadata.model_params -5 is not a number or like 7B; it is passed over"),
        ({"model_vram": "60GB"}, "metadata.model_vram '60GB' is not a number of GiB; it is passed over"),
        ({"model_vram": None, "model_params": ""}, None),
    ],
)
def test_a_size_in_the_metadata_that_cannot_be_read_is_told(metadata: dict[str, object], told: str | None) -> None:
    estimate = estimate_memory(MemoryWish(metadata=metadata), ModelDetails())  # type: ignore[arg-type]
    assert estimate.weights.warnings == ((told,) if told else ())
