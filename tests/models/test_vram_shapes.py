"""KV caches, states and experts of public models' shapes, against numbers worked out by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.architecture import read_architecture
from sparkrun.models.vram.details import ModelDetails, details_of_config
from sparkrun.models.vram.estimate import MemoryWish, estimate_memory
from sparkrun.models.vram.kv_cache import KvCache, size_kv_cache
from sparkrun.models.vram.speed import bound_speed
from tests.models.model_configs import (
    DEEPSEEK_V3,
    DEEPSEEK_V4,
    GEMMA3_27B,
    GPT_OSS,
    KIMI_LINEAR,
    LLAMA_8B,
    MAMBA2,
    NEMOTRON_H,
    QWEN3_MOE,
    QWEN3_NEXT,
    Config,
)


def cache(config: Config, dtype: str = "bfloat16") -> KvCache:
    return size_kv_cache(read_architecture(config), dtype)


def details(config: Config, weight_bytes: int | None = None) -> ModelDetails:
    found = details_of_config(json.dumps(config), source="a test")
    return found.completed_by(ModelDetails(weight_bytes=weight_bytes, source="a test"))


def test_a_dense_model_keeps_keys_and_values_of_each_layer() -> None:
    assert (cache(LLAMA_8B).token_bytes, cache(LLAMA_8B).arch) == (2 * 32 * 8 * 128 * 2, "dense")
    assert cache(LLAMA_8B, "fp8").token_bytes == 65536


def test_a_mixture_keeps_no_more_than_its_attention_does() -> None:
    assert cache(QWEN3_MOE).token_bytes == 2 * 48 * 4 * 128 * 2


def test_a_latent_cache_is_one_vector_a_layer_on_every_rank() -> None:
    found = cache(DEEPSEEK_V3)
    assert (found.token_bytes, found.arch, found.replicated) == ((512 + 64) * 2 * 61, "mla", True)
    assert found.shards(tensor=8, pipeline=2) == 2


def test_a_packed_latent_cache_has_a_size_of_its_own() -> None:
    assert cache(DEEPSEEK_V3, "fp8_ds_mla").token_bytes == 656 * 61
    assert cache({"num_hidden_layers": 78}, "nvfp4_ds_mla").token_bytes == 656 * 78


def test_compressed_layers_count_by_their_ratio() -> None:
    assert cache(DEEPSEEK_V4, "fp8_ds_mla").token_bytes == pytest.approx(584 * (1 / 4 + 1 / 128 + 1 / 4))
    assert cache(DEEPSEEK_V4).token_bytes == pytest.approx(512 * 2 * (1 / 4 + 1 / 128 + 1 / 4))


def test_a_sparse_indexer_keeps_its_keys_too() -> None:
    assert cache(DEEPSEEK_V3 | {"index_head_dim": 128}, "fp8_ds_mla").token_bytes == (656 + 132) * 61


def test_gated_delta_net_keeps_a_state_that_does_not_grow() -> None:
    found = cache(QWEN3_NEXT)
    state = 3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 4
    assert (found.token_bytes, found.fixed_bytes, found.arch, found.floor) == (2 * 12 * 2 * 256 * 2, 36 * state, "hybrid", False)


def test_layer_types_say_the_same_as_an_interval() -> None:
    listed = {**QWEN3_NEXT, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12}
    del listed["full_attention_interval"]
    assert cache(listed) == cache(QWEN3_NEXT)


def test_a_window_ends_what_a_layer_keeps() -> None:
    found = cache(GEMMA3_27B)
    full, windowed = 2 * 10 * 16 * 128 * 2, 2 * 52 * 16 * 128 * 2
    assert (found.token_bytes, found.window_token_bytes, found.window, found.arch) == (full, windowed, 1024, "sliding")
    assert found.total_bytes(512) == (full + windowed) * 512
    assert found.total_bytes(131072) == full * 131072 + windowed * 1024


def test_alternating_windows_are_counted_by_layer() -> None:
    assert (cache(GPT_OSS).token_bytes, cache(GPT_OSS).window) == (2 * 12 * 8 * 64 * 2, 128)


def test_a_window_that_is_switched_off_counts_for_nothing() -> None:
    assert cache({**LLAMA_8B, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}).window is None


def test_mamba2_beside_attention() -> None:
    found = cache(NEMOTRON_H)
    state = 3 * (128 * 64 + 2 * 8 * 128) * 2 + 128 * 64 * 128 * 4
    assert (found.token_bytes, found.fixed_bytes) == (2 * 2 * 8 * 128 * 2, 3 * state)


def test_mamba2_alone_keeps_nothing_a_token() -> None:
    found = cache(MAMBA2)
    state = 3 * (128 * 64 + 2 * 8 * 128) * 2 + 128 * 64 * 128 * 4
    assert (found.token_bytes, found.fixed_bytes, found.arch) == (0, 64 * state, "recurrent")
    assert found.tokens_in(10**12) is None


def test_latent_attention_beside_linear_layers() -> None:
    found = cache(KIMI_LINEAR)
    state = 3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4
    assert (found.token_bytes, found.fixed_bytes, found.replicated) == ((512 + 64) * 2 * 7, 20 * state, True)


def test_layers_that_share_a_cache_keep_none_of_their_own() -> None:
    shared = {**GPT_OSS, "num_kv_shared_layers": 4}
    assert (cache(shared).token_bytes, cache(shared).window_token_bytes) == (2 * 10 * 8 * 64 * 2, 2 * 10 * 8 * 64 * 2)


def test_a_kind_of_layer_that_nobody_knows_is_not_guessed() -> None:
    assert cache({**LLAMA_8B, "layer_types": ["full_attention", "telepathy"]}).token_bytes is None


def test_a_state_of_unknown_shape_makes_the_cache_a_floor() -> None:
    found = cache({**QWEN3_NEXT, "linear_key_head_dim": None})
    assert (found.floor, found.fixed_bytes) == (True, 0)


def test_metadata_beats_the_model_s_own_config() -> None:
    wish = MemoryWish(metadata={"num_layers": 10, "num_kv_heads": 4, "head_dim": 64, "model_max_len": 1000})
    estimate = estimate_memory(wish, details(LLAMA_8B))
    assert (estimate.kv.token_bytes, estimate.shape.max_len) == (2 * 10 * 4 * 64 * 2, 1000)


def test_metadata_alone_can_tell_a_hybrid() -> None:
    said: dict[str, ConfigValue] = {"num_layers": 48, "attention_layers": 12, "num_kv_heads": 2, "head_dim": 256}
    unknown = estimate_memory(MemoryWish(metadata=said, context=1000))
    known = estimate_memory(MemoryWish(metadata={**said, "recurrent_state_bytes": 77266944}, context=1000))
    assert (unknown.kv.token_bytes, unknown.kv_is_floor, unknown.complete) == (24576, True, False)
    assert (known.kv.fixed_bytes, known.kv_is_floor) == (77266944, False)


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (LLAMA_8B, 131072),
        (DEEPSEEK_V3, 163840),
        ({"max_position_embeddings": 4096, "n_positions": 2048}, 2048),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "factor": 32}}, 131072),
        ({}, None),
    ],
)
def test_the_longest_context_follows_from_the_rope(config: Config, length: int | None) -> None:
    assert read_architecture(config).max_len == length


@pytest.mark.parametrize(
    ("config", "params", "active"),
    [(QWEN3_MOE, 30.53e9, 3.35e9), (DEEPSEEK_V3, 671e9, 37.5e9), (QWEN3_NEXT, 79.7e9, 3.93e9)],
)
def test_a_token_reads_the_experts_that_it_uses(config: Config, params: float, active: float) -> None:
    known = {**config, "quantization_config": {"quant_method": "fp8"}}
    bound = bound_speed(estimate_memory(MemoryWish(tensor_parallel=2), details(known, int(params))), 273.0)
    assert bound.active_bytes == pytest.approx(active, rel=0.02)
    assert bound.tokens_per_s == pytest.approx(2 * 273e9 / active, rel=0.02)


def test_a_dense_model_reads_all_of_itself() -> None:
    bound = bound_speed(estimate_memory(MemoryWish(), details(LLAMA_8B, 16_000_000_000)), 273.0)
    assert bound.tokens_per_s == pytest.approx(273 / 16)


def test_no_bound_is_told_where_the_model_might_be_a_mixture() -> None:
    wish = MemoryWish(metadata={"model_params": "30B", "model_dtype": "bf16", "num_layers": 48})
    bound = bound_speed(estimate_memory(wish), 273.0)
    assert bound.tokens_per_s is None
    assert "not known" in bound.reason


@pytest.mark.parametrize("count", [10**9, 10**400])
def test_a_number_of_layers_that_no_model_has_is_unknown(count: int) -> None:
    assert read_architecture({"num_hidden_layers": count, "full_attention_interval": 4}).layers is None


_ANY: st.SearchStrategy[ConfigValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.sampled_from([10**400, "1e999", "7B"]) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=5,
)
_KEYS = sorted({key for config in (DEEPSEEK_V3, QWEN3_NEXT, GEMMA3_27B, NEMOTRON_H, MAMBA2, KIMI_LINEAR, DEEPSEEK_V4) for key in config})


@given(st.dictionaries(st.sampled_from(_KEYS), _ANY, max_size=12))
def test_whatever_a_config_holds_there_is_an_answer(config: dict[str, ConfigValue]) -> None:
    shape = read_architecture(config)
    for dtype in ("bfloat16", "fp8_ds_mla"):
        total = size_kv_cache(shape, dtype).total_bytes(1000)
        assert total is None or total >= 0


_SAID = """
    model_params model_dtype quantization quant_bits kv_dtype num_layers num_kv_heads head_dim model_type model_max_len kv_lora_rank
    qk_rope_head_dim compress_ratios index_head_dim layer_types attention_layers recurrent_state_bytes model_vram kv_vram_per_token
""".split()


@given(st.dictionaries(st.sampled_from(_SAID), _ANY, max_size=8), st.sampled_from([{}, QWEN3_NEXT, GEMMA3_27B, DEEPSEEK_V3]))
def test_whatever_metadata_holds_there_is_an_answer(said: dict[str, ConfigValue], config: Config) -> None:
    estimate = estimate_memory(MemoryWish(metadata=said, context=1000), details(config, 10**9))
    assert estimate.weights_gib is None or 0 < estimate.weights_gib < 1e40
    assert estimate.kv_total_gib is None or estimate.kv_total_gib >= 0
    assert estimate.complete == (estimate.missing is None)
    bound_speed(estimate, 273.0)


@given(st.integers(1, 10**6), st.sampled_from([LLAMA_8B, GEMMA3_27B, QWEN3_NEXT, DEEPSEEK_V3]))
def test_as_many_tokens_go_in_as_take_the_room(tokens: int, config: Config) -> None:
    found = cache(config)
    room = found.total_bytes(tokens)
    assert room is not None
    assert found.tokens_in(room) == pytest.approx(tokens, abs=1)
