"""Checking a recipe: every complaint with its rule, its place and what to do."""

from __future__ import annotations

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.checks import ALL_RULES
from sparkrun.core.recipe.checks.case import Case
from sparkrun.core.recipe.include import IncludeResolver, resolve_sibling
from sparkrun.core.recipe.knowledge import RuntimeKnowledge, Surroundings
from sparkrun.core.recipe.load import load_recipe_text
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.report import FailOn, Report
from sparkrun.core.recipe.schema import Finding, Recipe, RecipeSource

__all__ = ["FailOn", "Report", "RuntimeKnowledge", "Surroundings", "finding_of", "validate", "validate_text"]

PLAIN_SURROUNDINGS = Surroundings()


def validate(recipe: Recipe, around: Surroundings = PLAIN_SURROUNDINGS) -> Report:
    """Every finding on a recipe that could be loaded, those of loading it included."""
    case = Case(recipe, around)
    checked = tuple(finding for rule in ALL_RULES for finding in rule(case))
    return Report.of(_file_name(recipe.source), _without_doubts(recipe.findings, checked) + checked)


def validate_text(
    text: str, source: RecipeSource, around: Surroundings = PLAIN_SURROUNDINGS, *, resolve: IncludeResolver = resolve_sibling
) -> Report:
    """Every finding on a recipe's text. One that cannot be loaded has one finding: why."""
    try:
        recipe = load_recipe_text(text, source, resolve=resolve)
    except RecipeError as error:
        return Report.of(_file_name(source), (finding_of(error),))
    return validate(recipe, around)


def finding_of(error: RecipeError) -> Finding:
    """The finding that stands for a recipe which cannot be loaded."""
    if isinstance(error, InvalidRecipeError):
        return error.finding
    where, colon, message = error.message.partition(": ")
    return Finding("error", "recipe-syntax", message if colon else error.message, fix=error.hint, where=where if colon else None)


def _without_doubts(loaded: tuple[Finding, ...], checked: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """An unknown key that the engine turns out to know is misplaced, and not also unknown."""
    misplaced = {finding.where for finding in checked if finding.code == "misplaced-config-key"}
    return tuple(finding for finding in loaded if finding.code != "unknown-top-level-key" or finding.where not in misplaced)


def _file_name(source: RecipeSource) -> str:
    return source.path.rpartition("/")[2] if source.path and source.kind == "file" else source.ref
