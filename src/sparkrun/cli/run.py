"""``sparkrun run``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.recipe_names import RecipeName
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import RunOptions, RunResult, SparkrunContext
    from sparkrun.core.values import ConfigValue

F = TypeVar("F", bound=Callable[..., Any])

TRANSFER_MODES = ("auto", "local", "push", "delegated", "pull")

_DEDICATED = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "gpu_mem": "gpu_memory_utilization",
    "max_model_len": "max_model_len",
    "port": "port",
    "served_model_name": "served_model_name",
    "init_port": "init_port",
    "ray_port": "ray_port",
    "dashboard": "dashboard",
    "dashboard_port": "dashboard_port",
}

_SAME_NAME = (
    *("overrides", "image", "executor", "ensure", "keep_on_failure", "probe", "rootful", "container_name", "runtime_cache"),
    *("fail_on", "trust", "force", "solo", "scheduler", "rebuild", "transfer_mode", "collect_diagnostics"),
)
"""Options that are called the same in ``RunOptions``."""


def override_options(command: F) -> F:
    """The options that change a recipe's configuration."""
    options = (
        click.option("--tp", "--tensor-parallel", "tp", type=click.IntRange(min=1), help="Tensor parallelism."),
        click.option("--pp", "--pipeline-parallel", "pp", type=click.IntRange(min=1), help="Pipeline parallelism."),
        click.option("--dp", "--data-parallel", "dp", type=click.IntRange(min=1), hidden=True),
        click.option(
            "--gpu-mem", "--gpu-memory-utilization", "--mem-fraction-static", "gpu_mem", type=float, help="Fraction of the GPU's memory."
        ),
        click.option("--max-model-len", type=click.IntRange(min=1), help="Context length in tokens."),
        click.option("--port", type=click.IntRange(1, 65535), help="Port of the API."),
        click.option("--served-model-name", metavar="NAME", help="What clients call the model."),
        click.option("--image", metavar="IMAGE", help="Container image in place of the recipe's."),
        click.option("--executor", metavar="NAME", hidden=True),
        click.option(
            "-o",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Any other setting of the recipe; dotted keys edit inside a mapping.",
        ),
        click.option("-e", "env", multiple=True, metavar="NAME=VALUE", help="An environment variable of the engine."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _restart_policy(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"no|always|unless-stopped|on-failure(:[0-9]+)?", value):
        raise click.BadParameter(f"{value} is not no, always, unless-stopped or on-failure[:N]")
    return value


def _words(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value or ""))
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}".lower()) from None


def build_options(command: F) -> F:
    """Options of what comes before a launch."""
    options = (
        click.option("--rebuild/--no-rebuild", default=None, help="Build or pull the image anew, whatever is there; or do not."),
        click.option("--no-sync-tuning", is_flag=True, help="Bring no tuning configs of the recipe's registry to the hosts."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def expert_options(command: F) -> F:
    """Options that few need: they work, and are documented, but do not stand in ``--help``."""
    ports = click.IntRange(1, 65535)
    options = (
        click.option("--solo", is_flag=True, hidden=True),
        click.option("--scheduler", metavar="NAME", hidden=True),
        click.option("--restart", metavar="POLICY", callback=_restart_policy, hidden=True),
        click.option("--executor-args", metavar="WORDS", callback=_words, hidden=True),
        click.option("--container-name", metavar="NAME", hidden=True),
        click.option("--init-port", type=ports, hidden=True),
        click.option("--ray-port", type=ports, hidden=True),
        click.option("--dashboard/--no-dashboard", default=None, hidden=True),
        click.option("--dashboard-port", type=ports, hidden=True),
        click.option("--runtime-cache/--no-runtime-cache", default=None, hidden=True),
        click.option("--transfer-mode", type=click.Choice(TRANSFER_MODES), hidden=True),
        click.option("--collect-diagnostics", type=click.Path(dir_okay=False), metavar="FILE", hidden=True),
        click.option("--fail-on", type=click.Choice(["error", "warning", "suggestion", "none"]), default="error", hidden=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("recipe", type=RecipeName())
@click.argument("extra_args", nargs=-1, type=click.UNPROCESSED)
@host_options
@override_options
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan; change nothing, contact no host.")
@click.option("--probe", is_flag=True, help="With --dry-run: look at the hosts, read-only.")
@click.option("--ensure", is_flag=True, help="If it runs already, wait until it answers and succeed.")
@click.option("--follow", is_flag=True, help="Show the log after it is ready too; Ctrl-C detaches, the engine goes on.")
@click.option("--no-follow", is_flag=True, help="Do not show the log.")
@click.option("--no-ready-wait", is_flag=True, help="Return once it is started.")
@click.option("--foreground", is_flag=True, help="Stay attached: Ctrl-C stops the engine, its end ends the command.")
@click.option("--keep-on-failure", is_flag=True, help="Leave what a failed launch started, to look at it.")
@click.option("--rootful", is_flag=True, help="Run containers privileged and as the image's own user.")
@click.option("--memory-limit", metavar="SIZE", help="Memory limit of each container, for example 32G.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the containers.")
@click.option("--force", is_flag=True, help="Start it although memory says that it does not fit.")
@click.option("--no-auto-detect", is_flag=True, help="Size memory by the recipe's metadata alone; do not ask the hub.")
@click.option("--trust", is_flag=True, help="Let the recipe's hooks, mods and host settings run this once.")
@click.option("--no-rm", is_flag=True, help="Keep the container of an engine that has ended, to look at it.")
@click.option("--timings/--no-timings", default=True, help="Say how long each phase took (default).")
@click.option("--offline/--online", default=None, help="No outbound call at all; or some, though the cluster is offline.")
@build_options
@expert_options
@json_option
@click.pass_obj
def run(state: CliState, /, recipe: str, extra_args: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Serve a recipe's model and wait until it answers.

    RECIPE is a path, @registry/name or a name. Words after -- are added to the engine's command line.
    """
    _refuse_conflicts(given)
    if given["solo"]:
        click.echo("warning: --solo is deprecated; name one host (-H), or write mode: solo in the recipe", err=True)
    options = run_options(recipe, given, extra_args=extra_args, as_json=as_json)
    sctx = state.context(offline=given["offline"])
    if given["dry_run"]:
        return _show_plan(options, sctx, as_json=as_json)
    return _serve(options, sctx, as_json=as_json, given=given)


def _refuse_conflicts(given: dict[str, Any]) -> None:
    for one, other in (("follow", "no_follow"), ("follow", "no_ready_wait"), ("foreground", "no_ready_wait"), ("foreground", "follow")):
        if given[one] and given[other]:
            raise click.UsageError(f"--{one.replace('_', '-')} and --{other.replace('_', '-')} exclude each other")
    if given["probe"] and not given["dry_run"]:
        raise click.UsageError("--probe goes with --dry-run; a real run always looks at the hosts")
    if given["collect_diagnostics"] and given["dry_run"]:
        raise click.UsageError("--collect-diagnostics goes with a real run; a dry run shows its plan with --json")
    refuse_offline_rebuild(given)


def refuse_offline_rebuild(given: dict[str, Any]) -> None:
    """Raise the usage error of two options that cannot both be."""
    if given["rebuild"] and given["offline"]:
        raise click.UsageError("--rebuild and --offline exclude each other: nothing is built or pulled offline")


def run_options(recipe: str, given: dict[str, Any], *, extra_args: tuple[str, ...] = (), as_json: bool = False) -> RunOptions:
    """The options of ``run``, and of the commands that do a part of it; what a command does not have is as if not given."""
    from sparkrun.api import RunOptions

    settings: dict[str, ConfigValue] = {key: given[option] for option, key in _DEDICATED.items() if given.get(option) is not None}
    flags = {name: given[name] for name in _SAME_NAME if name in given}
    return RunOptions(
        recipe=recipe,
        hosts=hosts_of(given["hosts"], given["hosts_file"], given["cluster"]),
        settings=settings,
        env=_variables(given["env"]),
        extra_args=extra_args,
        wait=not given.get("no_ready_wait"),
        stream_log=not (as_json or given.get("no_follow")),
        labels=_pairs("--label", given.get("labels", ())),
        executor_args=given.get("executor_args") or (),
        executor_config=_executor_config(given),
        sync_tuning=not given["no_sync_tuning"],
        auto_detect=not given.get("no_auto_detect"),
        **flags,
    )


def _executor_config(given: dict[str, Any]) -> dict[str, ConfigValue]:
    config = {
        "memory_limit": given.get("memory_limit"),
        "restart_policy": given.get("restart"),
        "auto_remove": False if given.get("no_rm") else None,
    }
    return {key: value for key, value in config.items() if value is not None}


def _variables(texts: tuple[str, ...]) -> dict[str, str]:
    from sparkrun.core.container_words import variable_problem

    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or variable_problem(name):
            raise click.UsageError(f"-e {text}: NAME=VALUE is wanted")
        variables[name] = value
    return variables


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {text}: KEY=VALUE is wanted")
        pairs[key] = value
    return pairs


def _show_plan(options: RunOptions, sctx: SparkrunContext, *, as_json: bool) -> int:
    from sparkrun import api

    plan = api.plan(options, sctx=sctx)
    if as_json:
        echo_json(plan.public())
    else:
        from sparkrun.cli.plan_text import plan_text

        click.echo(plan_text(plan))
    if plan.memory and not options.force:
        plan.memory.refuse()
    return 0


def _serve(options: RunOptions, sctx: SparkrunContext, *, as_json: bool, given: dict[str, Any]) -> int:
    from sparkrun import api

    result: RunResult | None = None
    try:
        result = api.run(options, sctx=sctx)
        _tell_result(result, as_json=as_json, timings=given["timings"])
        if not (given["follow"] or given["foreground"]):
            return 0
        _show_log(result, sctx)
    except KeyboardInterrupt:
        if result is None:
            raise
        return _interrupted(result, sctx, foreground=given["foreground"])
    return _ended(result, sctx)


def _tell_result(result: RunResult, *, as_json: bool, timings: bool) -> None:
    if as_json:
        echo_json({**result.to_json(), **({} if timings else {"timings": []})})
    else:
        from sparkrun.cli.plan_text import result_text

        click.echo(result_text(result, timings=timings))


def _interrupted(result: RunResult, sctx: SparkrunContext, *, foreground: bool) -> int:
    """Ctrl-C once it serves: in the foreground the engine ends with the command, else it goes on."""
    from sparkrun import api

    if foreground:
        api.stop(result.cluster_id, api.HostOptions(result.hosts), sctx=sctx)
        click.echo(f"\nstopped {result.recipe}", err=True)
    else:
        click.echo(f"\ndetached; {result.recipe} goes on. Stop it with: sparkrun stop {result.cluster_id}", err=True)
    return 130


def _ended(result: RunResult, sctx: SparkrunContext) -> int:
    """The log is at its end: the engine ended, or the connection did. Only the hosts know which."""
    from sparkrun import api

    seen = api.status(api.HostOptions(result.hosts), sctx=sctx).status
    workload = seen.workload(result.cluster_id)
    if workload and all(rank.alive for rank in workload.ranks) and not workload.missing:
        click.echo(f"the log ended, the engine did not; look with: sparkrun logs -f {result.cluster_id}", err=True)
        return 0
    if seen.unreachable:
        told = ", ".join(f"{host.host} ({host.reason})" for host in seen.unreachable)
        raise api.HostUnreachableError(f"the log of {result.recipe} ended; whether its engine did is not known: no answer from {told}")
    ended = [rank for rank in workload.ranks if rank.exit_code is not None] if workload else []
    codes = ", ".join(f"exit code {rank.exit_code} on {rank.host}" for rank in ended)
    raise api.EngineDiedError(
        f"the engine of {result.recipe} ended{f' ({codes})' if codes else ''}",
        hint=f"what it said: sparkrun logs -a {result.cluster_id}; remove what is left of it: sparkrun stop {result.cluster_id}",
    )


def _show_log(result: RunResult, sctx: SparkrunContext) -> None:
    from sparkrun import api

    view = api.LogView(follow=True, skip=result.log_lines)
    api.logs(result.cluster_id, lambda line: click.echo(line.text), api.HostOptions(result.hosts), view=view, sctx=sctx)
