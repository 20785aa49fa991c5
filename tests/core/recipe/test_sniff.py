"""Telling recipes from other YAML in a folder."""

from __future__ import annotations

import pytest

from sparkrun.core.recipe import is_recipe


@pytest.mark.parametrize(
    "text",
    [
        "model: o/m\ncontainer: x\n",
        "container: x\n'model': o/m\n",
        "model: o/m\ncontainers: [{host: a, image: b}]\n",
        "include: base.yaml\n",
    ],
)
def test_recipes(text: str) -> None:
    assert is_recipe(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model: o/m\n",
        "model: {id: x}\ncontainer: x\n",
        "- model: x\n",
        "services:\n  model: x\n  container: y\n",
        "model: [\ncontainer: x\n",
        "include: [a]\n",
        "text",
    ],
)
def test_other_files(text: str) -> None:
    assert not is_recipe(text)
