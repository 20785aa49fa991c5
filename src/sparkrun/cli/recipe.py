"""``sparkrun recipe``, and its short forms ``list``, ``search`` and ``show``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.state import CliState
from sparkrun.cli.tables import columns

if TYPE_CHECKING:
    from sparkrun.api import BrokenRecipe, CatalogResult, Finding, Report

F = TypeVar("F", bound=Callable[..., Any])

_COMMANDS = {
    "list": Entry("sparkrun.cli.recipe:list_recipes", "List recipes, one row a name."),
    "search": Entry("sparkrun.cli.recipe:search", "Search recipes, every copy of a name."),
    "show": Entry("sparkrun.cli.show:show", "Show what a recipe says."),
    "validate": Entry("sparkrun.cli.recipe:validate", "Tell what is wrong or doubtful about a recipe."),
    "vram": Entry("sparkrun.cli.vram:vram", "Tell how much memory a recipe takes, and whether that fits."),
    "schema": Entry("sparkrun.cli.recipe:schema", "Print the JSON Schema of the recipe format, for editors."),
}


def _catalog_options(command: F) -> F:
    for option in (
        json_option,
        click.option("--offline", is_flag=True, help="Fetch nothing."),
        click.option("--runtime", metavar="NAME", help="Only this runtime or family (vllm, sglang …)."),
        click.option("--registry", metavar="NAME", help="Only this registry."),
        click.option("-a", "--all", "hidden", is_flag=True, help="Also recipes of hidden registries."),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, entries=_COMMANDS)
def recipe() -> None:
    """Find, show and check recipes."""


@click.command("list")
@click.argument("query", default="")
@_catalog_options
@click.pass_obj
def list_recipes(state: CliState, /, query: str, **given: Any) -> None:
    """List recipes, one row a name.

    QUERY is a part of a name, model or description; @registry or @registry/text looks in one registry.
    """
    _show(state, query, given, unique_names=True)


@click.command()
@click.argument("query")
@_catalog_options
@click.pass_obj
def search(state: CliState, /, query: str, **given: Any) -> None:
    """Search recipes, every copy of a name.

    QUERY is a part of a name, model or description; @registry or @registry/text looks in one registry.
    """
    _show(state, query, given, unique_names=False)


@click.command()
@click.argument("name", type=RecipeName())
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option("--fail-on", type=click.Choice(["error", "warning", "suggestion", "none"]), help="What makes the exit code 1.")
@json_option
@click.pass_obj
def validate(state: CliState, name: str, strict: bool, fail_on: str | None, as_json: bool) -> int:
    """Tell what is wrong or doubtful about a recipe: exit code 0 when nothing counts as a failure, 1 otherwise."""
    from sparkrun import api

    if strict and fail_on not in (None, "warning"):
        raise click.UsageError("--strict and --fail-on exclude each other")
    sctx = state.context()
    limit = api.fail_on("warning" if strict else fail_on, sctx=sctx)
    report = api.validate(name, sctx=sctx)
    if as_json:
        echo_json(report.as_json(limit))
    else:
        click.echo(_report_text(report, limit))
    return 1 if report.failed(limit) else 0


@click.command()
def schema() -> None:
    """Print the JSON Schema of the recipe format.

    In an editor with the YAML language server: sparkrun recipe schema > recipe.schema.json, and begin a recipe with
    "# yaml-language-server: $schema=recipe.schema.json".
    """
    from sparkrun import api

    echo_json(api.schema())


def _show(state: CliState, text: str, given: dict[str, Any], *, unique_names: bool) -> None:
    """What the options of ``_catalog_options`` ask for."""
    import msgspec

    from sparkrun import api

    query = api.CatalogQuery(text, given["registry"], given["runtime"], given["hidden"], unique_names=unique_names)
    found = api.search_recipes(query, sctx=state.context(offline=given["offline"]))
    if given["as_json"]:
        echo_json([*(msgspec.to_builtins(item) for item in found.items), *map(_broken_json, found.broken_of(query))])
    else:
        click.echo(_table(found) or _nothing(query.text))
    for broken in found.broken:
        click.echo(f"warning: {broken.line}", err=True)
    for failure in found.failures:
        click.echo(f"warning: {failure.line}", err=True)


def _broken_json(broken: BrokenRecipe) -> dict[str, object]:
    """A broken file in the shape of a recipe, with the one key that no recipe has."""
    known = {"name": broken.label, "file": broken.file, "path": broken.path, "registry": broken.registry}
    from sparkrun.api import CatalogItem

    return {**dict.fromkeys(CatalogItem.__struct_fields__), **known, "error": broken.reason}


def _nothing(text: str) -> str:
    return f"No recipes found matching '{text}'." if text else "No recipes found."


def _table(found: CatalogResult) -> str:
    rows = [
        (
            item.name if item.registry else item.file,
            item.runtime,
            str(item.tp or ""),
            str(item.min_nodes),
            "" if item.gpu_mem is None else f"{item.gpu_mem:g}",
            item.model,
        )
        for item in found.items
    ]
    return columns([("Name", "Runtime", "TP", "Nodes", "GPU Mem", "Model"), *rows]) if rows else ""


def _report_text(report: Report, limit: object) -> str:
    verdict = "failed" if report.failed(limit) else "valid"  # type: ignore[arg-type]
    counts = ", ".join(f"{report.count(severity)} {severity}s" for severity in ("error", "warning", "suggestion"))
    return "\n".join([*(line for finding in report.findings for line in _finding_lines(finding)), f"{report.recipe}: {verdict} ({counts})"])


def _finding_lines(finding: Finding) -> list[str]:
    where = f"{finding.where}: " if finding.where else ""
    lines = [f"{finding.severity}: {where}{finding.message} [{finding.code}]"]
    return [*lines, f"  fix: {finding.fix}"] if finding.fix else lines
