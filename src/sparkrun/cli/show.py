"""``sparkrun show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.state import CliState
from sparkrun.core.values import value_text

if TYPE_CHECKING:
    from sparkrun.api import Recipe


@click.command()
@click.argument("recipe", type=RecipeName())
@json_option
@click.pass_obj
def show(state: CliState, recipe: str, as_json: bool) -> None:
    """Show what a recipe says.

    RECIPE is a path, @registry/name or a name.
    """
    from sparkrun import api
    from sparkrun.core.recipe import recipe_json

    found = api.show(recipe, sctx=state.context())
    if as_json:
        echo_json(recipe_json(found))
    else:
        click.echo("\n".join(_lines(found)))
    for finding in found.findings:
        click.echo(f"{finding.severity}: {finding.message}", err=True)


def _lines(recipe: Recipe) -> Iterator[str]:
    yield f"Name:        {recipe.name}"
    yield f"From:        {recipe.source.ref}"
    if recipe.description:
        yield f"Description: {recipe.description}"
    yield f"Runtime:     {recipe.runtime}" + (f", executor {recipe.executor}" if recipe.executor else "")
    yield f"Model:       {recipe.model}" + (f" (revision {recipe.model_revision})" if recipe.model_revision else "")
    if recipe.container:
        yield f"Container:   {recipe.container}"
    yield f"Nodes:       {recipe.min_nodes} - {recipe.max_nodes or 'unlimited'}"
    yield from _mapping("Defaults", recipe.defaults)
    yield from _mapping("Environment", recipe.env)
    if recipe.command:
        yield "Command:"
        yield from (f"  {line}" for line in recipe.command.strip().splitlines())


def _mapping(title: str, values: object) -> Iterator[str]:
    if isinstance(values, dict) and values:
        yield f"{title}:"
        yield from (f"  {key}: {value_text(value)}" for key, value in sorted(values.items()))
