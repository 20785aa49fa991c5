"""What recipes are checked against here: the runtimes, executors and schedulers that can be had."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import PluginError
from sparkrun.core.features import feature_enabled
from sparkrun.core.recipe import RUNTIME_NAMES, Recipe
from sparkrun.core.recipe.builders import BUILDERS, BuilderKnowledge
from sparkrun.core.recipe.knowledge import Surroundings


def surroundings_of(recipe: Recipe, config: SparkrunConfig, plugins: Plugins | None = None) -> Surroundings:
    """The surroundings of a recipe; an unknown runtime leaves its own checks out."""
    runtime = recipe.runtime
    plugins = plugins or Plugins(config)
    try:
        knowledge = plugins.runtime(runtime).knowledge()
    except PluginError:
        knowledge = None
    executors = {plugin.plugin_name: plugin.feature is None or feature_enabled(plugin.feature, config) for plugin in plugins.executors()}
    runtimes = plugins.names("runtime") if knowledge is None else (*RUNTIME_NAMES, runtime)
    return Surroundings(runtime=knowledge, runtimes=runtimes, executors=executors, builders=_builders(recipe.builder, plugins))


def _builders(named: str | None, plugins: Plugins) -> Mapping[str, BuilderKnowledge]:
    """Those of sparkrun, and the named one where somebody else brings it."""
    if named is None or named in BUILDERS:
        return BUILDERS
    try:
        return {**BUILDERS, named: plugins.builder(named).knowledge}
    except PluginError:
        return BUILDERS
