"""``recipe vram`` and the memory block of ``show``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Said
from tests.core.conftest import forbid_connections

Cli = Callable[..., Said]
DOCUMENTED = """\
model: org/m
runtime: vllm
container: e/v:1
metadata: {model_params: 8B, model_dtype: bf16, num_layers: 36, num_kv_heads: 8, head_dim: 128}
defaults: {tensor_parallel: 2, kv_cache_dtype: fp8, max_model_len: 32768}
"""
KEYS = """
    recipe model runtime model_weights_gb kv_cache_per_token_bytes kv_cache_total_gb total_per_gpu_gb max_model_len tensor_parallel
    pipeline_parallel warnings model_params model_dtype kv_dtype num_layers num_kv_heads head_dim kv_arch kv_arch_label kv_cache_replicated
    kv_estimate_is_floor gpu_memory_utilization total_gpu_memory_gb usable_gpu_memory_gb available_kv_gb max_context_tokens
    context_multiplier model_max_len kv_cache_memory_bytes kv_cache_per_gpu_gb memory_estimate_complete
""".split()


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "documented.yaml"
    path.write_text(DOCUMENTED)
    return str(path)


@pytest.fixture
def vram(cli: Cli, recipe: str) -> Callable[..., dict[str, Any]]:
    def run(*words: str) -> dict[str, Any]:
        said = cli("recipe", "vram", recipe, "--offline", "--json", *words)
        assert said.code == 0, said.err
        data: dict[str, Any] = json.loads(said.out)
        return data

    return run


def test_the_documented_example_in_its_documented_keys(vram: Callable[..., dict[str, Any]]) -> None:
    data = vram()
    assert [key for key in KEYS if key not in data] == []
    assert data["schema"] == "sparkrun.vram/1"
    assert round(data["model_weights_gb"], 2) == 14.90
    assert (data["kv_cache_per_token_bytes"], data["kv_cache_total_gb"]) == (73728, 2.25)
    assert round(data["total_per_gpu_gb"], 2) == 8.58
    assert (data["total_gpu_memory_gb"], data["gpu_memory_utilization"], data["usable_gpu_memory_gb"]) == (121.0, 0.8, 96.8)
    assert (data["fit"], data["memory_estimate_complete"], data["assumed"]) == ("fits", True, True)
    assert data["against"] == "a DGX Spark with 121 GiB: no cluster is known"


def test_options_change_the_numbers(vram: Callable[..., dict[str, Any]]) -> None:
    assert vram("--tp", "1")["total_per_gpu_gb"] == pytest.approx(17.15, abs=0.01)
    assert vram("--pp", "2")["total_per_gpu_gb"] == pytest.approx(17.15 / 4, abs=0.01)
    assert vram("--max-model-len", "65536")["kv_cache_total_gb"] == 4.5
    assert vram("--gpu-mem", "0.05")["fit"] == "exceeds"
    assert vram("-o", "kv_cache_dtype=bfloat16")["kv_cache_total_gb"] == 4.5
    assert vram("-o", "kv_cache_memory_bytes=10G")["gpu_memory_utilization"] is None


def test_a_saved_cluster_is_measured_against_by_what_it_has(cli: Cli, vram: Callable[..., dict[str, Any]]) -> None:
    folder = Path(os.environ["SPARKRUN_CONFIG_DIR"]) / "clusters"
    folder.mkdir(parents=True)
    spec = "{accelerators: [{vendor: nvidia, model: l4, memory_gb: 24}]}"
    (folder / "lab.yaml").write_text(f"name: lab\nhosts: [a, b]\nhosts_hardware: {{a: {spec}, b: {spec}}}\n")
    data = vram("--cluster", "lab", "--gpu-mem", "0.5")
    assert (data["total_gpu_memory_gb"], data["usable_gpu_memory_gb"], data["fit"], data["assumed"]) == (24.0, 12.0, "fits", False)
    assert (data["hosts"], data["against"]) == (["a", "b"], "a, b (cluster 'lab')")
    assert vram("--cluster", "lab", "--tp", "4")["warnings"] == ["tensor_parallel 4 × pipeline_parallel 1 needs 4 GPUs, the hosts have 2"]


def test_the_text_tells_all_of_it(cli: Cli, recipe: str) -> None:
    said = cli("recipe", "vram", recipe, "--offline")
    assert said.code == 0
    lines = {line[:9].strip(): line[9:].strip() for line in said.out.splitlines()}
    assert lines["Weights"].startswith("14.90 GiB  8B parameters, bfloat16")
    assert lines["KV cache"].startswith("2.25 GiB  32,768 tokens, 73,728 bytes a token, fp8; 36 layers, 8 KV heads of 128")
    assert lines["Per GPU"].startswith("8.58 GiB")
    assert lines["Budget"].startswith("96.80 GiB  0.8 of 121 GiB, gpu_memory_utilization")
    assert lines["Fit"] == "FITS"
    assert "Against: a DGX Spark with 121 GiB: no cluster is known" in said.out


def test_nothing_known_is_told_as_such(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bare.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {max_model_len: 1000}\n")
    data = json.loads(cli("recipe", "vram", str(tmp_path / "bare.yaml"), "--offline", "--json").out)
    assert (data["model_weights_gb"], data["kv_cache_total_gb"], data["total_per_gpu_gb"]) == (None, None, None)
    assert (data["fit"], data["memory_estimate_complete"]) == ("unknown", False)
    assert "UNVERIFIED" in cli("recipe", "vram", str(tmp_path / "bare.yaml"), "--offline").out


@pytest.mark.parametrize(
    "words", [("recipe", "vram", "--offline"), ("recipe", "vram", "--no-auto-detect"), ("show",), ("run", "-H", "a,b", "-n")]
)
def test_the_network_is_left_alone(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    forbid_connections(monkeypatch)
    (tmp_path / "bare.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2}\n")
    assert cli(*words, str(tmp_path / "bare.yaml")).code == 0


def test_a_hub_that_does_not_answer_is_told_and_is_no_failure(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "bare.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\n")
    said = cli("recipe", "vram", str(tmp_path / "bare.yaml"))
    assert said.code == 0
    assert "the hub does not answer (Connection refused)" in said.out


def test_a_cluster_that_is_offline_asks_no_hub(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_connections(monkeypatch)
    assert cli("cluster", "create", "lab", "-H", "a", "--offline", "--default").code == 0
    (tmp_path / "bare.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\n")
    said = cli("recipe", "vram", str(tmp_path / "bare.yaml"))
    assert (said.code, "the hub" in said.out) == (0, False)


def test_show_has_the_memory_unless_told_otherwise(cli: Cli, recipe: str) -> None:
    assert "VRAM estimation:" in cli("show", recipe).out
    assert "VRAM estimation:" not in cli("show", recipe, "--no-vram").out
    assert "tensor parallel 4" in cli("show", recipe, "--tp", "4").out
    assert "EXCEEDS" in cli("show", recipe, "--gpu-mem", "0.05").out
    assert "vram" not in cli("show", recipe, "--json").out


def test_a_recipe_of_an_unknown_runtime_is_shown_all_the_same(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("model: org/m\nruntime: nosuch\ncontainer: e/v:1\n")
    said = cli("show", str(tmp_path / "x.yaml"))
    assert (said.code, "cannot be told" in said.out) == (0, True)
    assert cli("recipe", "vram", str(tmp_path / "x.yaml")).code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--gpu-mem", "112"), 2, "looks like GiB"),
        (("--tp", "0"), 2, "--tp"),
        (("-o", "tensor_parallel"), 1, "no '='"),
        (("--cluster", "nosuch"), 1, "cluster 'nosuch' not found"),
        (("--gpumem", "1"), 2, "did you mean '--gpu-mem'"),
    ],
)
def test_wrong_inputs_are_named(cli: Cli, recipe: str, words: tuple[str, ...], code: int, said: str) -> None:
    found = cli("recipe", "vram", recipe, "--offline", *words)
    assert (found.code, said in found.err) == (code, True), found.err
