"""Recipes: reading, checking and writing them.

``validate`` and ``json_schema`` are modules of their own: most commands only read.
"""

from sparkrun.core.recipe.detect import RUNTIME_NAMES, canonical_runtime, matches_runtime, runtime_family, runtime_in_force
from sparkrun.core.recipe.export import export_recipe, recipe_json
from sparkrun.core.recipe.include import Included, IncludeResolver, resolve_sibling
from sparkrun.core.recipe.load import load_recipe_file, load_recipe_text
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.schema import ConditionalOverride, Finding, Hook, HostImage, Recipe, RecipeSource, Values
from sparkrun.core.recipe.sniff import is_recipe

__all__ = [
    "RUNTIME_NAMES",
    "ConditionalOverride",
    "Finding",
    "Hook",
    "HostImage",
    "IncludeResolver",
    "Included",
    "InvalidRecipeError",
    "Recipe",
    "RecipeSource",
    "Values",
    "canonical_runtime",
    "export_recipe",
    "is_recipe",
    "load_recipe_file",
    "load_recipe_text",
    "matches_runtime",
    "recipe_json",
    "resolve_sibling",
    "runtime_family",
    "runtime_in_force",
]
