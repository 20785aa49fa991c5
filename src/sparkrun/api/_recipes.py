"""Finding and showing recipes, and the registries they come from."""

from __future__ import annotations

from sparkrun.core.catalog import CatalogQuery, CatalogResult
from sparkrun.core.catalog import search_recipes as _search
from sparkrun.core.context import SparkrunContext
from sparkrun.core.recipe import Recipe
from sparkrun.core.registry import RegistryManager
from sparkrun.core.resolve import resolve_context, resolve_recipe


def search_recipes(query: CatalogQuery = CatalogQuery(), *, sctx: SparkrunContext) -> CatalogResult:
    """The recipes that answer to a query. A registry that was never fetched is fetched first, unless ``sctx.offline``.

    Raises ``UsageError`` for an unknown registry or runtime.
    """
    return _search(query, resolve_context(sctx))


def show(recipe: str, *, sctx: SparkrunContext) -> Recipe:
    """A recipe by path, name, ``@registry/name`` or address. Raises ``RecipeNotFoundError``, ``RecipeSyntaxError`` or ``RecipeError``."""
    return resolve_recipe(recipe, resolve_context(sctx))


def registries(*, sctx: SparkrunContext) -> RegistryManager:
    """The registries of this user; its methods list, add, remove, trust and update them."""
    return RegistryManager(sctx.config, offline=sctx.offline, emit=sctx.emit)
