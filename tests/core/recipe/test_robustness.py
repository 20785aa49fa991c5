"""Whatever a file holds, reading it gives a recipe or a refusal that names the file; so does checking it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe import Recipe, RecipeSource, export_recipe, load_recipe_text, recipe_json
from sparkrun.core.recipe.keys import TOP_LEVEL
from sparkrun.core.recipe.validate import validate_text
from sparkrun.utils.yamlio import dump_yaml

SOURCE = RecipeSource("file", "r", path="r.yaml")
WORDS = st.sampled_from(
    ["", "a", "vllm", "1", "yes", "{a}", "{{a}}", "{config.a}", "{launch.b}", "o/m", "when", "command", "copy", "host", "image", "defaults"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers() | st.booleans(), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from([*TOP_LEVEL, "zebra", "port", 5, True]), VALUES, max_size=6)


def read(text: str) -> Recipe | RecipeError:
    try:
        return load_recipe_text(text, SOURCE)
    except RecipeError as error:
        return error


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    outcome = read(text)

    assert isinstance(outcome, Recipe) or outcome.message.startswith("r.yaml")


@given(DOCUMENTS)
def test_any_document_is_read_or_refused_and_survives_an_export(document: dict[Any, Any]) -> None:
    outcome = read(dump_yaml({"model": "o/m", **document}))

    if isinstance(outcome, RecipeError):
        assert outcome.message.startswith("r.yaml")
    else:
        assert recipe_json(load_recipe_text(export_recipe(outcome), SOURCE)) == recipe_json(outcome)


@given(DOCUMENTS)
def test_any_document_can_be_checked(document: dict[Any, Any]) -> None:
    report = validate_text(dump_yaml({"model": "o/m", **document}), SOURCE)

    assert report.as_json("error")["errors"] == report.count("error")
