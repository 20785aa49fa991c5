"""The JSON Schema for editors agrees with what loading accepts."""

from __future__ import annotations

from typing import Any

import pytest

from sparkrun.core.recipe.json_schema import recipe_schema
from sparkrun.core.recipe.keys import TOP_LEVEL

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = recipe_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_field_is_described() -> None:
    schema = recipe_schema()
    properties = schema["$defs"][schema["$ref"].rpartition("/")[2]]["properties"]

    assert set(properties) == set(TOP_LEVEL)
    assert all(prop.get("description") for prop in properties.values())


@pytest.mark.parametrize(
    "document",
    [
        {"model": "o/m"},
        {"include": "base.yaml"},
        {"model": "o/m", "recipe_version": 1, "min_nodes": "2", "mods": "a", "solo_only": "yes", "zebra": 1},
        {"model": "o/m", "env": None, "pre_exec": ["a", {"command": "b", "timeout": 3}], "post_exec": "c"},
        {"model": "o/m", "overrides": [{"when": {"tp": {"gt": 1}}}], "runtime_cache": False},
    ],
)
def test_what_loads_is_valid(validator: Any, document: dict[str, Any]) -> None:
    assert list(validator.iter_errors(document)) == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"model": {"id": "x"}},
        {"model": "o/m", "defaults": []},
        {"model": "o/m", "command": ["a"]},
        {"model": "o/m", "min_nodes": 0},
        {"model": "o/m", "mode": "odd"},
        {"model": "o/m", "overrides": [{"defaults": {}}]},
        {"model": "o/m", "readiness": {"port_timeout": 1}},
    ],
)
def test_what_does_not_load_is_invalid(validator: Any, document: dict[str, Any]) -> None:
    assert list(validator.iter_errors(document))
