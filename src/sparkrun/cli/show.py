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
    from sparkrun.api import Recipe, SparkrunContext


@click.command()
@click.argument("recipe", type=RecipeName())
@click.option("--no-vram", is_flag=True, help="Leave the memory out.")
@click.option("--tp", type=click.IntRange(min=1), help="Memory at another tensor parallelism.")
@click.option("--gpu-mem", type=float, help="Memory at another fraction of the GPU's memory.")
@json_option
@click.pass_obj
def show(state: CliState, recipe: str, no_vram: bool, tp: int | None, gpu_mem: float | None, as_json: bool) -> None:
    """Show what a recipe says.

    RECIPE is a path, @registry/name or a name.
    """
    from sparkrun import api
    from sparkrun.core.recipe import recipe_json

    sctx = state.context()
    found = api.show(recipe, sctx=sctx)
    if as_json:
        echo_json(recipe_json(found))
    else:
        memory = () if no_vram else _memory(found, tp, gpu_mem, sctx)
        click.echo("\n".join((*_lines(found), *memory)))
    for finding in found.findings:
        click.echo(f"{finding.severity}: {finding.message}", err=True)


def _memory(recipe: Recipe, tp: int | None, gpu_mem: float | None, sctx: SparkrunContext) -> Iterator[str]:
    """What can be told without a network. A recipe whose memory cannot be told is shown all the same."""
    from sparkrun.api import PluginError, RecipeError, VramOptions
    from sparkrun.cli.memory_text import report_lines
    from sparkrun.core.vram_report import report_vram

    wanted = {"tensor_parallel": tp, "gpu_memory_utilization": gpu_mem}
    options = VramOptions(settings={key: value for key, value in wanted.items() if value is not None}, ask_hub=False)
    yield "VRAM estimation:"
    try:
        yield from (f"  {line}" for line in report_lines(report_vram(recipe, options, sctx)))
    except (RecipeError, PluginError) as error:
        yield f"  cannot be told: {error.message}"


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
