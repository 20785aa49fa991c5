"""F1: a model's files, as they lie in the cache of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Said

Cli = Callable[..., Said]
SHA = "0123456789abcdef0123456789abcdef01234567"
HUB = "/cache/huggingface/hub/models--org--Vision-8B-GGUF/snapshots"
TEXT = "model: org/Vision-8B-GGUF:Q4_K_M\ncontainer: e/v:1\n"


@pytest.fixture
def cached() -> Path:
    """A model with two projectors in the cache."""
    repo = Path(os.environ["HOME"], ".cache/huggingface/hub/models--org--Vision-8B-GGUF")
    snapshot = repo / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(SHA)
    for name in ("Vision-8B-Q4_K_M.gguf", "mmproj-F16.gguf", "mmproj-BF16.gguf"):
        (snapshot / name).write_text("x")
    return snapshot


@pytest.mark.parametrize(
    "more",
    [
        "command: llama-server -hf {model} --port 8080\n",
        "command: llama-server -hf org/Vision-8B-GGUF:Q4_K_M --port 8080\n",
        "runtime: llama-cpp\n",
    ],
)
def test_f1_the_file_and_its_best_projector_are_named_and_two_are_said(plan: Cli, cached: Path, more: str) -> None:
    said = plan(TEXT + more, hosts="127.0.0.1")
    assert said.code == 0, said.err
    words = said.words()
    assert words[words.index("-m") + 1] == f"{HUB}/{SHA}/Vision-8B-Q4_K_M.gguf"
    assert words[words.index("--mmproj") + 1] == f"{HUB}/{SHA}/mmproj-F16.gguf"
    assert "-hf" not in words
    assert "2 projectors exist; mmproj-F16.gguf is used" in said.plan["notes"]


@pytest.mark.parametrize(("more", "wanted"), [("mmproj: mmproj-BF16.gguf\n", "mmproj-BF16.gguf"), ("mmproj: false\n", None)])
def test_f1_a_recipe_may_choose_the_projector(plan: Cli, cached: Path, more: str, wanted: str | None) -> None:
    words = plan(TEXT + "runtime: llama-cpp\n" + more, hosts="127.0.0.1").words()
    assert ("--mmproj" in words) is (wanted is not None)
    assert wanted is None or words[words.index("--mmproj") + 1] == f"{HUB}/{SHA}/{wanted}"
