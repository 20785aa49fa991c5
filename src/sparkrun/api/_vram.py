"""How much memory a recipe takes, and whether that fits."""

from __future__ import annotations

from sparkrun.api._recipes import show
from sparkrun.core.context import SparkrunContext
from sparkrun.core.vram_report import VramOptions, VramReport, report_vram


def vram(recipe: str, options: VramOptions = VramOptions(), *, sctx: SparkrunContext) -> VramReport:
    """What a recipe takes of each GPU, against the cluster's hosts as they are saved, else against a DGX Spark. Contacts no host.

    Asks the hub for what this machine does not know, within ``hub.timeout_s`` and ``hub.metadata_budget_s``, unless ``sctx.offline`` or
    ``options`` say no. Raises ``UsageError``, ``RecipeError`` or what finding the recipe raises.
    """
    return report_vram(show(recipe, sctx=sctx), options, sctx)
