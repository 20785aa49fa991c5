"""``sparkrun build``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sparkrun.cli.options import echo_json, host_options, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.run import build_options, override_options, refuse_offline_rebuild, run_options
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import BuildResult


@click.command()
@click.argument("recipe", type=RecipeName())
@host_options
@override_options
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; change nothing, contact no host.")
@click.option("--probe", is_flag=True, help="With --dry-run: look at the hosts, read-only.")
@build_options
@click.option("--trust", is_flag=True, help="Let the recipe's build, hooks, mods and host settings run this once.")
@click.option("--offline/--online", help="No outbound call at all.")
@json_option
@click.pass_obj
def build(state: CliState, /, recipe: str, as_json: bool, **given: Any) -> int:
    """Prepare hosts for a recipe without launching it: build the image, bring image, model and tuning configs.

    Works while other models serve there. RECIPE is a path, @registry/name or a name.
    """
    from sparkrun import api

    if given["probe"] and not given["dry_run"]:
        raise click.UsageError("--probe goes with --dry-run; a real build always looks at the hosts")
    refuse_offline_rebuild(given)
    options = run_options(recipe, given)
    sctx = state.context(offline=given["offline"])
    if given["dry_run"]:
        plan = api.plan_build(options, sctx=sctx)
        if as_json:
            echo_json(plan.public())
        else:
            from sparkrun.cli.plan_text import preparation_text

            click.echo(preparation_text(plan))
        return 0
    result = api.build(options, sctx=sctx)
    if as_json:
        echo_json(result.to_json())
    else:
        click.echo(_text(result))
    return 0


def _text(result: BuildResult) -> str:
    lines = [f"{result.recipe} is prepared on {', '.join(result.hosts)}."]
    lines += [f"  built:   {image.image} on {', '.join(image.hosts)} ({image.why})" for image in result.built]
    lines += [f"  brought: {item.kind} {item.what} to {', '.join(item.hosts)} ({item.way})" for item in result.brought]
    lines += [f"  image:   {image}" for image in dict.fromkeys(result.images.values())]
    if result.tuning and result.tuning.files:
        lines.append(f"  tuning:  {result.tuning.files} configs of {result.tuning.runtime}")
    return "\n".join(lines)
