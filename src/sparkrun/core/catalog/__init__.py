"""What recipes there are: the one look-up behind ``list``, ``search`` and completion."""

from sparkrun.core.catalog.index import BrokenRecipe
from sparkrun.core.catalog.search import CatalogItem, CatalogQuery, CatalogResult, search_recipes

__all__ = ["BrokenRecipe", "CatalogItem", "CatalogQuery", "CatalogResult", "search_recipes"]
