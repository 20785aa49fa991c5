"""YAML with positions: every complaint has its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import RecipeSyntaxError
from sparkrun.core.recipe.source import Duplicate, Position, read_document


def test_each_key_keeps_its_place() -> None:
    document = read_document("model: a/b\ndefaults:\n  port: 8000\nmods:\n  - x\n", "r.yaml")

    assert document.where("defaults", "port") == "r.yaml:3:3"
    assert document.where("mods", 0) == "r.yaml:5:5"


def test_an_unknown_key_is_placed_at_its_nearest_known_parent() -> None:
    document = read_document("defaults:\n  port: 1\n", "r.yaml")

    assert document.where("defaults", "host") == "r.yaml:1:1"
    assert document.where("env") == "r.yaml"


def test_a_syntax_error_names_file_line_and_column() -> None:
    with pytest.raises(RecipeSyntaxError, match=r"^r\.yaml:3:13: ") as caught:
        read_document("model: a/b\ndefaults:\n  port: 8000: 9\n", "r.yaml")

    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml:1:1: a recipe is a mapping of keys, not an empty file"),
        ("- a\n", "r.yaml:1:1: a recipe is a mapping of keys, not a list"),
        ("just text\n", "r.yaml:1:1: a recipe is a mapping of keys, not plain text"),
        ("a: 1\nb: \x07\n", "r.yaml:2:4: a character that YAML forbids"),
        ("a: &x [*x]\n", "r.yaml: nested too deeply"),
        ("a: !!python/object:os.x 1\n", "r.yaml:1:4: could not determine a constructor"),
        ("env: {{port}}\n", "r.yaml:1:7: found unhashable key"),
        ("a: !!int ''\n", "r.yaml: not YAML: string index out of range"),
        ("a: !!bool x\n", "r.yaml: not YAML: 'x'"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2:1: but found another document"),
    ],
)
def test_what_is_no_recipe_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(RecipeSyntaxError) as caught:
        read_document(text, "r.yaml")

    assert str(caught.value).startswith(message)


def test_an_alias_bomb_is_refused() -> None:
    layers = "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(8))

    with pytest.raises(RecipeSyntaxError, match="more than 50000 keys"):
        read_document("a0: &a0 [1,2,3]\n" + layers, "r.yaml")


def test_a_key_that_stands_twice_is_told_with_both_places() -> None:
    document = read_document("defaults:\n  port: 8000\n  host: x\n  port: 9000\n", "r.yaml")

    assert document.duplicates == (Duplicate(("defaults", "port"), Position(2, 3), Position(4, 3)),)
    assert document.value["defaults"]["port"] == 9000


def test_the_same_key_in_two_mappings_is_no_duplicate() -> None:
    assert read_document("a: {x: 1}\nb: {x: 1}\n", "r.yaml").duplicates == ()


def test_merge_keys_bring_in_values_places_and_no_duplicates() -> None:
    document = read_document("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  x: 3\n", "r.yaml")

    assert document.value["use"] == {"x": 3, "y": 2}
    assert document.duplicates == ()
    assert document.where("use", "y") == "r.yaml:1:17"


def test_numbers_keep_their_spelling() -> None:
    document = read_document("a: 1.10\nb: 010\nc: on\nd: text\n", "r.yaml")

    assert document.spellings == {("a",): "1.10", ("b",): "010", ("c",): "on"}


def test_dates_stay_text() -> None:
    assert read_document("runtime_version: 2026-01-31\n", "r.yaml").value == {"runtime_version": "2026-01-31"}


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(), min_size=1))
def test_every_key_has_a_line_of_its_own(values: dict[str, int]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in values.items())
    document = read_document(text, "r.yaml")

    assert [document.positions[(key,)].line for key in values] == list(range(1, len(values) + 1))
