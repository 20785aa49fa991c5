"""Writing a recipe out: version 2, and the same launch."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.recipe import Recipe, RecipeSource, export_recipe, load_recipe_text, recipe_json
from sparkrun.core.recipe.export import KEY_ORDER
from sparkrun.core.templating import render

SOURCE = RecipeSource("text", "r")
WAYS_OF_SAYING = {
    "source",
    "positions",
    "findings",
    "version",
    "author_version",
    "declared_runtime",
    "solo_only",
    "cluster_only",
    "include",
}


def load(text: str) -> Recipe:
    return load_recipe_text(text, SOURCE)


def meaning(recipe: Recipe) -> dict[str, object]:
    fields = {name: value for name, value in msgspec.structs.asdict(recipe).items() if name not in WAYS_OF_SAYING}
    return {
        **fields,
        "command": rendered(recipe),
        "metadata": {key: value for key, value in recipe.metadata.items() if key != "description"},
    }


def rendered(recipe: Recipe) -> list[str] | None:
    return render(recipe.command, {**recipe.model_values(), **recipe.defaults}).text.split() if recipe.command else None


OLD = """recipe_version: "1"
name: Old one
description: an old recipe
model: org/m
container: vllm-node
build_args: [--x]
mods: [mods/a]
cluster_only: true
defaults: {port: 8000, spec: '{{"a": {port}}}'}
env: {A: 1, B: true}
command: |
  vllm serve {model} \\  \n    --port {port} --json '{{"a": {{"b": {port}}}}}' \\
    --spec {spec}
benchmark: {framework: llama-benchy, args: {pp: [2048]}}
"""


def test_an_old_recipe_becomes_a_true_new_one() -> None:
    document = yaml.safe_load(export_recipe(load(OLD)))

    assert document == {
        "recipe_version": "2",
        "model": "org/m",
        "runtime": "vllm",
        "builder": "eugr",
        "min_nodes": 2,
        "container": "vllm-node",
        "metadata": {"description": "an old recipe"},
        "build_args": ["--x"],
        "mods": ["mods/a"],
        "defaults": {"port": 8000, "spec": '{"a": {port}}'},
        "env": {"A": "1", "B": "true"},
        "command": 'vllm serve {model} \\\n  --port {port} --json \'{"a": {"b": {port}}}\' \\\n  --spec {spec}\n',
        "benchmark": {"framework": "llama-benchy", "args": {"pp": [2048]}},
    }


def test_the_export_means_the_same() -> None:
    assert meaning(load(export_recipe(load(OLD)))) == meaning(load(OLD))


def test_the_export_of_an_export_is_itself() -> None:
    text = export_recipe(load(OLD))

    assert export_recipe(load(text)) == text


def test_a_recipe_without_runtime_says_the_public_name() -> None:
    recipe = load("model: org/m\ncommand: vllm serve {model} --distributed-executor-backend ray\n")

    assert recipe_json(recipe)["runtime"] == "vllm"
    assert load(export_recipe(recipe)).runtime == "vllm-ray"


@pytest.mark.parametrize("runtime", ["vllm-distributed", "vllm-ray", "sglang", "my-plugin"])
def test_a_runtime_the_author_named_is_kept(runtime: str) -> None:
    assert recipe_json(load(f"model: org/m\nruntime: {runtime}\n"))["runtime"] == runtime


def test_keys_are_in_the_documented_order_and_the_rest_by_name() -> None:
    text = (
        "model: o/m\nscheduler: greedy\nbenchmark: {a: 1}\nenv: {A: b}\nmin_nodes: 2\ncommand: x {model}\npre_exec: [a]\ndefaults: {a: 1}\n"
    )
    keys = list(recipe_json(load(text)))

    assert keys == [key for key in KEY_ORDER if key in keys] + ["benchmark", "scheduler"]


def test_a_command_of_many_lines_is_a_block() -> None:
    assert "\ncommand: |\n  vllm serve {model} \\\n    --port 1\n" in export_recipe(
        load('model: o/m\ncommand: "vllm serve {model} \\\\  \\n  --port 1  \\n"\n')
    )


def test_a_doubled_placeholder_stays_doubled() -> None:
    recipe = load("model: o/m\ndefaults: {port: 1}\ncommand: 'vllm serve {model} --chat {{port}}'\n")

    assert load(export_recipe(recipe)).command == recipe.command


def test_a_default_with_doubled_braces_left_survives() -> None:
    recipe = load("model: o/m\ndefaults: {a: '{{{{ x }}}}'}\n")

    assert recipe.defaults == {"a": "{{ x }}"}
    assert load(export_recipe(recipe)).defaults == recipe.defaults


@pytest.mark.parametrize(
    "text",
    [
        "pre_exec: [a, {command: b, timeout: 3}, {copy: c, dest: /d}]",
        "post_exec: [{command: a, timeout: 0}]",
        "overrides: [{when: {tp: {gt: 1}}, defaults: {a: 1}, env: {A: 1}, container: x}, {when: {}}]",
        "containers: [{host: a, image: b}]",
        "runtime_cache: false",
        "runtime_cache: {enabled: true, prune: {max_age_days: 3}}",
        "zebra: {a: 1}",
        "mode: cluster",
        "solo_only: true",
        "max_nodes: 3",
        "description: a\nmetadata: {description: b}",
        "description: a\nmetadata: {maintainer: me}",
        "defaults: {a: null, b: [], c: '', d: false, e: 0}",
        "readiness: {inference: false}",
        "stop_after_post: true",
        "env: {A: '{config.a}', B: ' ', C: \"x\\ny\"}",
    ],
)
def test_nothing_is_lost(text: str) -> None:
    recipe = load(f"model: org/m\n{text}\n")

    assert meaning(load(export_recipe(recipe))) == meaning(recipe)


def test_the_authors_revision_number_is_kept_in_the_metadata() -> None:
    assert recipe_json(load("model: org/m\nrecipe_version: 7\n"))["metadata"] == {"author_version": "7"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(
    defaults=st.dictionaries(st.text(min_size=1), VALUES, max_size=4),
    env=st.dictionaries(st.from_regex(r"\A[A-Z_]+\Z"), st.text(), max_size=3),
)
def test_any_values_survive(defaults: dict[str, object], env: dict[str, str]) -> None:
    recipe = msgspec.structs.replace(
        load("model: org/m\nruntime: sglang\n"), defaults=defaults, env={name: value.replace("{launch.", "") for name, value in env.items()}
    )
    back = load(export_recipe(recipe))

    assert (back.defaults, back.env) == (recipe.defaults, recipe.env)
