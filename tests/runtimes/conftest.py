"""What every test of an engine starts from."""

from __future__ import annotations

import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.facts import ModelFacts
from sparkrun.core.recipe import RecipeSource, load_recipe_text
from sparkrun.core.recipe.schema import Values
from tests.runtimes.serving import Serve, Served, configured


@pytest.fixture
def plugins(config: SparkrunConfig) -> Plugins:
    return Plugins(config)


@pytest.fixture
def serve(plugins: Plugins) -> Serve:
    """A recipe's text, with what the command line, the platform and the host add to it."""

    def build(text: str, *overrides: str, model: ModelFacts | str | None = None, platform: Values | None = None) -> Served:
        recipe = load_recipe_text(text, RecipeSource("text", "r", trusted=True))
        served = configured(plugins.runtime(recipe.runtime), recipe, *overrides, platform=platform)
        files = ModelFacts(kind="hub", path=model) if isinstance(model, str) else model
        return served.on(files) if files else served

    return build
