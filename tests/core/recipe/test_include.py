"""``include``: a recipe on top of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe import Included, Recipe, RecipeSource, load_recipe_file, load_recipe_text


def family(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def refusal(path: Path) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe_file(path)
    return str(caught.value)


BASE = """
model: org/base
defaults: {port: 8000, host: 0.0.0.0, speculative_config: {method: mtp, n: 1}}
env: {A: 1, B: 2}
mods: [x]
metadata: {maintainer: me, tags: {a: 1}}
overrides: [{when: {tp: 1}, defaults: {max_num_seqs: 1}}]
"""
OUTER = """
include: base.yaml
model: org/outer
defaults: {port: 9000, host: null, speculative_config: {method: eagle}}
env: {A: 3}
mods: [y]
metadata: {tags: {b: 2}}
overrides:
  - {when: {tp: 2}, defaults: {max_num_seqs: 2}}
"""


@pytest.fixture
def outer(tmp_path: Path) -> Recipe:
    return load_recipe_file(family(tmp_path, base=BASE, outer=OUTER) / "outer.yaml")


def test_the_outer_recipe_stands_on_top(outer: Recipe) -> None:
    assert (outer.model, outer.env, outer.mods) == ("org/outer", {"A": "3", "B": "2"}, ("y",))
    assert outer.metadata == {"maintainer": "me", "tags": {"a": 1, "b": 2}}


def test_values_of_defaults_are_replaced_whole_and_null_removes(outer: Recipe) -> None:
    assert outer.defaults == {"port": 9000, "speculative_config": {"method": "eagle"}}


def test_overrides_follow_those_of_the_base(outer: Recipe) -> None:
    assert [entry.when for entry in outer.overrides] == [{"tp": 1}, {"tp": 2}]


def test_places_name_the_file_that_wrote_the_value(outer: Recipe, tmp_path: Path) -> None:
    assert outer.where("defaults", "port") == f"{tmp_path}/outer.yaml:4:12"
    assert outer.where("metadata", "maintainer") == f"{tmp_path}/base.yaml:6:12"
    assert outer.where("overrides", 0, "when") == f"{tmp_path}/base.yaml:7:14"
    assert outer.where("overrides", 1, "when") == f"{tmp_path}/outer.yaml:9:6"


def test_null_for_a_key_the_base_lacks_stays_a_switched_off_key(tmp_path: Path) -> None:
    family(tmp_path, base="model: o/m\n", outer="include: base.yaml\ndefaults: {attention_backend: null}\n")

    assert load_recipe_file(tmp_path / "outer.yaml").defaults == {"attention_backend": None}


def test_a_duplicate_in_the_base_names_the_base(tmp_path: Path) -> None:
    family(tmp_path, base="model: o/m\nenv:\n  A: 1\n  A: 2\n", outer="include: base.yaml\n")

    assert load_recipe_file(tmp_path / "outer.yaml").findings[0].where == f"{tmp_path}/base.yaml:4:3"


def test_a_chain_of_two_is_a_suggestion(tmp_path: Path) -> None:
    family(tmp_path, a="model: o/m\n", b="include: a.yaml\n", c="include: b.yaml\n")

    assert [f.code for f in load_recipe_file(tmp_path / "b.yaml").findings] == []
    assert [f.code for f in load_recipe_file(tmp_path / "c.yaml").findings] == ["nested-include"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"r": "include: x/y.yaml\n"}, "r.yaml:1:1: include must be the name of a file in the same folder"),
        ({"r": "include: none.yaml\n"}, "no recipe file"),
        ({"r": "include: [a]\n"}, "r.yaml:1:1: include must be text"),
        ({"r": "include: r.yaml\n"}, "include goes in a circle"),
        ({"r": "include: b.yaml\n", "b": "include: r.yaml\n"}, "include goes in a circle"),
        ({"r": "include: b.yaml\n", "b": "recipe_version: 1\nmodel: o/m\n"}, "b.yaml is a recipe of version 1"),
        ({"r": "recipe_version: 1\ninclude: b.yaml\n", "b": "model: o/m\n"}, "a recipe of version 1 cannot include"),
        ({"r": "include: b.yaml\n", "b": "a: [\n"}, "b.yaml:2:1: "),
        ({"r": "include: b.yaml\n", "b": "defaults: [1]\nmodel: o/m\n"}, "b.yaml:1:1: defaults must be a mapping"),
        ({"r": "include: '@reg/x'\n"}, "cannot look up @reg/x here"),
    ],
)
def test_what_cannot_be_included_is_refused(tmp_path: Path, texts: dict[str, str], message: str) -> None:
    assert message in refusal(family(tmp_path, **texts) / "r.yaml")


def test_a_chain_deeper_than_eight_is_refused(tmp_path: Path) -> None:
    family(tmp_path, r0="model: o/m\n", **{f"r{n}": f"include: r{n - 1}.yaml\n" for n in range(1, 9)})

    assert load_recipe_file(tmp_path / "r7.yaml").model == "o/m"
    assert "deeper than 8" in refusal(tmp_path / "r8.yaml")


def registry_base(reference: str, source: RecipeSource) -> Included:
    assert (reference, source.name) == ("@reg/base", "outer")
    return Included("model: o/m\nmods: [mods/a, '@other/b']\n", RecipeSource("registry", "base", registry="reg", trusted=False))


def test_mods_of_a_registry_base_say_their_registry() -> None:
    recipe = load_recipe_text(
        "include: '@reg/base'\n", RecipeSource("file", "outer", path="outer.yaml", trusted=True), resolve=registry_base
    )

    assert recipe.mods == ("@reg/a", "@other/b")


def test_one_untrusted_link_makes_the_chain_untrusted() -> None:
    recipe = load_recipe_text(
        "include: '@reg/base'\n", RecipeSource("file", "outer", path="outer.yaml", trusted=True), resolve=registry_base
    )

    assert not recipe.source.trusted


def test_a_recipe_from_an_address_has_no_siblings() -> None:
    with pytest.raises(RecipeError, match="has no folder"):
        load_recipe_text("include: base.yaml\n", RecipeSource("url", "x", url="https://x/y.yaml"))
