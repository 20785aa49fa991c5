"""M: memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Said

Cli = Callable[..., Said]
VLLM = "model: org/m\nruntime: vllm\ncontainer: e/v:1\n"
M1 = "gpu_memory_utilization is a fraction; 112 looks like GiB: 112 of 121 GiB is 0.93"
M3 = f"{VLLM}metadata: {{model_params: 470e9, model_dtype: nvfp4}}\ndefaults: {{tensor_parallel: 2, gpu_memory_utilization: 0.87}}\n"
TOO_LARGE = "weights 109.4 GiB per GPU, allowed 105.3"


@pytest.fixture(autouse=True)
def _quiet(no_network: None) -> None:
    """No case here may need a network."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("defaults: {gpu_memory_utilization: 112}\n", ()),
        ("overrides: [{when: {}, defaults: {gpu_memory_utilization: 112}}]\n", ()),
        ("command: vllm serve {model} --gpu-memory-utilization 112\n", ()),
        ("", ("--gpu-mem", "112")),
        ("", ("-o", "gpu_memory_utilization=112")),
        ("", ("--", "--gpu-memory-utilization", "112")),
        ("", ("--", "--gpu-memory-utilization=112")),
    ],
)
def test_m1_a_size_in_place_of_a_share_is_refused_wherever_it_comes_from(plan: Cli, text: str, words: tuple[str, ...]) -> None:
    said = plan(VLLM + text, *words)
    assert said.code != 0
    assert M1 in said.err
    assert said.out == ""


def test_m1_a_size_in_the_user_s_settings_is_refused(plan: Cli) -> None:
    folder = Path(os.environ["SPARKRUN_CONFIG_DIR"])
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("defaults: {runtimes: {vllm-distributed: {gpu_memory_utilization: 112}}}\n")
    assert M1 in plan(VLLM).err


def test_m1_a_size_in_sglang_s_own_words_is_refused(plan: Cli) -> None:
    said = plan("model: org/m\nruntime: sglang\ncontainer: e/s:1\n", "--mem-fraction-static", "112")
    assert M1 in said.err


@pytest.mark.parametrize("command", [("recipe", "vram"), ("show",)])
def test_m1_an_estimate_refuses_it_too(sparkrun: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "x.yaml").write_text(M3)
    said = sparkrun(*command, str(tmp_path / "x.yaml"), "--gpu-mem", "112")
    assert (said.code, M1 in said.err) == (2, True)


def test_m1_a_recipe_that_holds_it_has_no_estimate(sparkrun: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"{VLLM}defaults: {{gpu_memory_utilization: 112}}\n")
    estimate, shown = sparkrun("recipe", "vram", str(tmp_path / "x.yaml"), "--offline"), sparkrun("show", str(tmp_path / "x.yaml"))
    assert (estimate.code, M1 in estimate.err) == (1, True)
    assert (shown.code, M1 in shown.out) == (0, True)


@pytest.mark.parametrize("words", [("--max-gpu-mem-util", "112"), ("--accelerator-limit", "gb10=112")])
def test_m1_a_cluster_takes_no_size_for_a_share(sparkrun: Cli, words: tuple[str, ...]) -> None:
    said = sparkrun("cluster", "create", "lab", "-H", "a", *words)
    assert said.code != 0
    assert "above 0 and at most 1" in said.err


def test_m3_weights_beyond_the_budget_are_refused_with_both_numbers(plan: Cli) -> None:
    said = plan(M3, hosts="a,b")
    assert said.code == 1
    assert TOO_LARGE in said.err
    assert "--force" in said.err
    assert said.plan["memory"]["fit"] == "exceeds"


def test_m3_force_plans_it_all_the_same(plan: Cli) -> None:
    said = plan(M3, "--force", hosts="a,b")
    assert (said.code, len(said.plan["ranks"]), said.plan["memory"]["fit"]) == (0, 2, "exceeds")


def test_m3_every_command_has_the_same_budget(sparkrun: Cli, tmp_path: Path) -> None:
    recipe = tmp_path / "x.yaml"
    recipe.write_text(M3)
    run = sparkrun("run", str(recipe), "-H", "a,b", "--dry-run")
    shown = sparkrun("show", str(recipe))
    text = sparkrun("recipe", "vram", str(recipe), "--offline")
    data = json.loads(sparkrun("recipe", "vram", str(recipe), "--offline", "--json").out)
    for said in (run, shown, text):
        assert TOO_LARGE in said.out
        assert "EXCEEDS" in said.out
    assert (data["fit"], data["fit_reason"].startswith(TOO_LARGE)) == ("exceeds", True)
    assert (round(data["total_per_gpu_gb"], 1), round(data["usable_gpu_memory_gb"], 1)) == (109.4, 105.3)
