"""``sparkrun export``."""

from __future__ import annotations

from pathlib import Path

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.state import CliState

_COMMANDS = {"recipe": Entry("sparkrun.cli.export:export_recipe", "Write a recipe as one self-contained file.")}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def export() -> None:
    """Write things for others to use."""


@click.command("recipe")
@click.argument("name", type=RecipeName())
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write there instead of standard output.")
@json_option
@click.pass_obj
def export_recipe(state: CliState, name: str, save: Path | None, as_json: bool) -> None:
    """Write a recipe as one self-contained version 2 file: includes worked in, what was implied spelt out."""
    from sparkrun import api

    sctx = state.context()
    if as_json:
        echo_json(api.recipe_json(api.show(name, sctx=sctx)))
        return
    text = api.export(name, sctx=sctx)
    if save is None:
        click.echo(text, nl=False)
        return
    try:
        save.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {save}: {error.strerror}") from error
    click.echo(f"written to {save}", err=True)
