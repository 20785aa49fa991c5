"""Real public recipes: all load, nothing is dropped, and writing them out changes nothing. Skipped where they are not at hand."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sparkrun.core.recipe import Recipe, export_recipe, is_recipe, load_recipe_file, load_recipe_text
from sparkrun.core.recipe.json_schema import recipe_schema
from sparkrun.core.recipe.keys import TOP_LEVEL
from sparkrun.core.recipe.source import read_document
from sparkrun.core.recipe.validate import validate
from sparkrun.core.templating import render

SHARED = Path(os.environ.get("SPARKRUN_SHARED") or Path(__file__).resolve().parents[4] / "shared")
INDEX = SHARED / "recipes" / "INDEX.tsv"
pytestmark = pytest.mark.skipif(not INDEX.exists(), reason="no folder of public recipes (set SPARKRUN_SHARED)")

WAYS_OF_SAYING = {
    "source",
    "positions",
    "findings",
    "version",
    "author_version",
    "declared_runtime",
    "solo_only",
    "cluster_only",
    "command",
    "metadata",
}


def paths() -> Iterator[Path]:
    with INDEX.open() as lines:
        yield from (SHARED / "recipes" / row["path"] for row in csv.DictReader(lines, delimiter="\t") if row["kind"] == "recipe")


@pytest.fixture(scope="module")
def corpus() -> list[Recipe]:
    return [load_recipe_file(path) for path in paths()]


def test_every_recipe_loads_and_is_one(corpus: list[Recipe]) -> None:
    assert len(corpus) > 200
    assert [recipe.source.path for recipe in corpus if not is_recipe(Path(recipe.source.path or "").read_text())] == []


def test_no_key_is_dropped(corpus: list[Recipe]) -> None:
    for recipe in corpus:
        keys = read_document(Path(recipe.source.path or "").read_text(), "r").value
        assert [key for key in keys if key not in TOP_LEVEL and key not in recipe.runtime_config] == []


def test_the_runtime_is_the_one_that_was_rendered(corpus: list[Recipe]) -> None:
    root = SHARED / "recipes"
    wanted = {row["path"]: row["runtime"] for row in map(msgspec.json.decode, (root / "renders.jsonl").read_text().splitlines())}
    told = {str(Path(recipe.source.path or "").relative_to(root)): recipe.runtime for recipe in corpus}

    assert {path: told[path] for path in wanted if path in told} == {path: runtime for path, runtime in wanted.items() if path in told}


def test_an_export_means_the_same(corpus: list[Recipe]) -> None:
    for recipe in corpus:
        back = load_recipe_text(export_recipe(recipe), recipe.source)
        assert meaning(back) == meaning(recipe), recipe.source.path
        assert back.findings == ()


def test_errors_are_only_real_ones(corpus: list[Recipe]) -> None:
    errors = {finding.code for recipe in corpus for finding in validate(recipe).findings if finding.severity == "error"}

    assert errors <= {"duplicate-key"}


def test_the_json_schema_accepts_them(corpus: list[Recipe]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator: Any = jsonschema.Draft202012Validator(recipe_schema())

    for recipe in corpus:
        document = read_document(Path(recipe.source.path or "").read_text(), "r").value
        assert [error.message for error in validator.iter_errors(document)] == [], recipe.source.path


def meaning(recipe: Recipe) -> dict[str, object]:
    fields = {name: value for name, value in msgspec.structs.asdict(recipe).items() if name not in WAYS_OF_SAYING}
    values = {**recipe.model_values(), **recipe.defaults}
    return {**fields, "rendered": render(recipe.command, values).text.split() if recipe.command else None}
