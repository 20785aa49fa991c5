"""Checking recipes and handing them on."""

from __future__ import annotations

from typing import Any, cast, get_args

from sparkrun.api._recipes import show
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe import export_recipe, load_recipe_text
from sparkrun.core.recipe.json_schema import recipe_schema
from sparkrun.core.recipe.report import FailOn, Report
from sparkrun.core.recipe.validate import finding_of
from sparkrun.core.recipe.validate import validate as _validate
from sparkrun.core.resolve import find_recipe, include_resolver, resolve_context
from sparkrun.core.surroundings import surroundings_of


def validate(recipe: str, *, sctx: SparkrunContext) -> Report:
    """Everything that is wrong or doubtful about a recipe; a broken file is a report too. Raises ``RecipeNotFoundError``."""
    context = resolve_context(sctx)
    found = find_recipe(recipe, context)
    try:
        loaded = load_recipe_text(found.text, found.source, resolve=include_resolver(context))
    except RecipeError as error:
        return Report.of(found.source.path or found.source.ref, (finding_of(error),))
    return _validate(loaded, surroundings_of(loaded, sctx.config))


def fail_on(wanted: str | None = None, *, sctx: SparkrunContext) -> FailOn:
    """What makes a check fail: as asked for, else ``validation.fail_on`` of the settings, else an error."""
    said = wanted or sctx.config.text("validation.fail_on") or "error"
    return cast("FailOn", said) if said in get_args(FailOn) else "error"


def export(recipe: str, *, sctx: SparkrunContext) -> str:
    """A recipe as a self-contained version 2 file that renders the same launch."""
    return export_recipe(show(recipe, sctx=sctx))


def schema() -> dict[str, Any]:
    """The JSON Schema of the recipe format, for editors."""
    return recipe_schema()
