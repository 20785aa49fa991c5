"""``sparkrun build`` and ``sparkrun stage``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import msgspec

from sparkrun.cli.options import echo_json, host_options, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.run import TRANSFER_MODES, build_options, override_options, refuse_offline_rebuild, run_options
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import BuildResult, RunOptions, SparkrunContext

F = TypeVar("F", bound=Callable[..., Any])


class Prepare(Protocol):
    """``api.build`` or ``api.stage``."""

    def __call__(self, options: RunOptions, *, sctx: SparkrunContext) -> BuildResult: ...


def preparing(command: F) -> F:
    """The argument and the options of the commands that prepare hosts."""
    parts = (
        click.argument("recipe", type=RecipeName()),
        host_options,
        override_options,
        click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; change nothing, contact no host."),
        click.option("--probe", is_flag=True, help="With --dry-run: look at the hosts, read-only."),
        build_options,
        click.option("--transfer-mode", type=click.Choice(TRANSFER_MODES), hidden=True),
        click.option("--trust", is_flag=True, help="Let the recipe's build, hooks, mods and host settings run this once."),
        click.option("--offline/--online", default=None, help="No outbound call at all; or some, though the cluster is offline."),
        json_option,
    )
    for part in reversed(parts):
        command = part(command)
    return command


@click.command()
@preparing
@click.pass_obj
def build(state: CliState, /, recipe: str, as_json: bool, **given: Any) -> int:
    """Prepare hosts for a recipe without launching it: build the image, bring image, model and tuning configs.

    Works while other models serve there. RECIPE is a path, @registry/name or a name.
    """
    from sparkrun import api

    return _prepare(state, _options(recipe, given), api.build, as_json=as_json, given=given)


@click.command()
@preparing
@click.pass_obj
def stage(state: CliState, /, recipe: str, as_json: bool, **given: Any) -> int:
    """Bring a recipe's image, model and tuning configs to all hosts, without launching it.

    As build, but to every host that is given or that the cluster has. Works while other models serve there.
    """
    from sparkrun import api

    options = msgspec.structs.replace(_options(recipe, given), everywhere=True)
    return _prepare(state, options, api.stage, as_json=as_json, given=given)


def _options(recipe: str, given: dict[str, Any]) -> RunOptions:
    if given["probe"] and not given["dry_run"]:
        raise click.UsageError("--probe goes with --dry-run; a real run always looks at the hosts")
    refuse_offline_rebuild(given)
    return run_options(recipe, given)


def _prepare(state: CliState, options: RunOptions, prepare: Prepare, *, as_json: bool, given: dict[str, Any]) -> int:
    from sparkrun import api

    sctx = state.context(offline=given["offline"])
    if given["dry_run"]:
        plan = api.plan_build(options, sctx=sctx)
        if as_json:
            echo_json(plan.public())
        else:
            from sparkrun.cli.plan_text import preparation_text

            click.echo(preparation_text(plan))
        return 0
    result = prepare(options, sctx=sctx)
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
