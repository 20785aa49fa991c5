"""Command texts of real recipes, where this machine has them: ``SPARKRUN_SHARED``, or a folder ``shared`` beside the repository."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sparkrun.core.flags import FlagMap
from sparkrun.core.shell_text import EngineSyntax, find_engine, insert_flags, lex
from sparkrun.core.templating import Rendered, render
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.flag_tables import llama_cpp, sglang, vllm

TABLES: dict[str, tuple[EngineSyntax, FlagMap]] = {
    "vllm": (vllm.ENGINE, vllm.FLAGS),
    "sglang": (sglang.ENGINE, sglang.FLAGS),
    "llama-cpp": (llama_cpp.ENGINE, llama_cpp.FLAGS),
}
BOUND_AT_LAUNCH = {"resolved_model_path"}


@pytest.fixture(scope="module")
def folder() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared"
    found = Path(os.environ.get("SPARKRUN_SHARED", beside)) / "recipes"
    if not found.is_dir():
        pytest.skip("no shared recipes on this machine")
    return found


def real_recipes(folder: Path) -> Iterator[tuple[str, dict[str, ConfigValue]]]:
    """Every recipe with a command, by its path below the folder."""
    for path in sorted(folder.rglob("*.y*ml")):
        try:
            recipe = yaml.safe_load(path.read_text())
        except yaml.YAMLError:
            continue
        if isinstance(recipe, dict) and isinstance(recipe.get("command"), str):
            yield str(path.relative_to(folder)), recipe


def family(recipe: dict[str, ConfigValue]) -> str:
    runtime = str(recipe.get("runtime") or "vllm")
    return "vllm" if "vllm" in runtime else runtime


def rendered(recipe: dict[str, ConfigValue]) -> Rendered:
    defaults = recipe.get("defaults") or {}
    assert isinstance(defaults, dict)
    values = {"model": recipe.get("model"), **defaults}
    return render(str(recipe["command"]), values, from_recipe=set(values), flags=TABLES[family(recipe)][1])


def test_tokens_give_back_every_command(folder: Path) -> None:
    commands = [str(recipe["command"]) for _, recipe in real_recipes(folder)]
    assert len(commands) > 100
    for text in commands:
        assert "".join(text[token.start : token.end] for token in lex(text).tokens) == text


def test_engine_is_found_in_every_command(folder: Path) -> None:
    known = [(path, recipe) for path, recipe in real_recipes(folder) if family(recipe) in TABLES]
    missing = [path for path, recipe in known if not find_engine(str(recipe["command"]), TABLES[family(recipe)][0])]
    assert len(known) > 100
    assert missing == []


def test_every_command_renders_with_nothing_unknown(folder: Path) -> None:
    unknown = {found.name for _, recipe in real_recipes(folder) if family(recipe) in TABLES for found in rendered(recipe).unknown}
    assert unknown <= BOUND_AT_LAUNCH


def test_flags_are_inserted_at_the_end_of_every_rendered_engine_command(folder: Path) -> None:
    for path, recipe in real_recipes(folder):
        engine = TABLES[family(recipe)][0]
        call = find_engine(rendered(recipe).text, engine)
        assert call is not None, path
        again = find_engine(insert_flags(call, ["--new", "'a b'"]), engine)
        assert again is not None, path
        assert [word.text for word in again.arguments] == [*(word.text for word in call.arguments), "--new", "a b"], path


def test_words_are_those_that_an_earlier_version_rendered(folder: Path) -> None:
    """Where that version ran the template itself; it appended flags of its own, and rebuilt llama.cpp commands for several nodes."""
    earlier = [json.loads(line) for line in (folder / "renders.jsonl").read_text().splitlines()]
    recipes = dict(real_recipes(folder))
    compared = 0
    for render_of in earlier:
        recipe = recipes.get(render_of["path"])
        if recipe is None or render_of["runtime"] == "llama-cpp" or "{resolved_model_path}" in str(recipe["command"]):
            continue
        compared += 1
        words = shlex.split(rendered(recipe).text)
        assert shlex.split(render_of["ranks"][0]["command"])[: len(words)] == words, render_of["path"]
    assert compared > 100
