"""The root command: global options, the table of commands, and the one place where errors become text and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from sparkrun import __version__
from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.state import CliState
from sparkrun.core.errors import SparkrunError
from sparkrun.utils.text import did_you_mean

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

COMMANDS = {
    "run": Entry("sparkrun.cli.run:run", "Serve a recipe's model and wait until it answers."),
    "build": Entry("sparkrun.cli.build:build", "Prepare hosts for a recipe without launching it."),
    "stage": Entry("sparkrun.cli.build:stage", "Bring a recipe's image and model to all hosts."),
    "status": Entry("sparkrun.cli.status:status", "Show what runs on the hosts."),
    "logs": Entry("sparkrun.cli.logs:logs", "Show the serve log of a workload."),
    "stop": Entry("sparkrun.cli.stop:stop", "Stop a workload and confirm that it is gone."),
    "list": Entry("sparkrun.cli.recipe:list_recipes", "List recipes."),
    "search": Entry("sparkrun.cli.recipe:search", "Search recipes, every copy of a name."),
    "show": Entry("sparkrun.cli.show:show", "Show what a recipe says."),
    "cluster": Entry("sparkrun.cli.cluster:cluster", "Saved clusters and what runs on them."),
    "recipe": Entry("sparkrun.cli.recipe:recipe", "Find, show and check recipes."),
    "registry": Entry("sparkrun.cli.registry:registry", "Where recipes come from, and whom to trust."),
    "model-cache": Entry("sparkrun.cli.model_cache:model_cache", "The models in the caches of the hosts: see, check, mend, remove."),
    "image-cache": Entry("sparkrun.cli.image_cache:image_cache", "The images of the hosts: see, check, remove."),
    "export": Entry("sparkrun.cli.export:export", "Write things for others to use."),
    "setup": Entry("sparkrun.cli.setup:setup", "Set sparkrun up: features and more."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, context_settings=_HELP)
@click.version_option(__version__, prog_name="sparkrun", message="%(prog)s, version %(version)s")
@click.option("-v", "--verbose", count=True, help="Say more: -v details, -vv with times, -vvv each script sent to a host.")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors.")
@click.pass_context
def root(ctx: click.Context, verbose: int, quiet: bool) -> None:
    """Serve LLMs on one or several accelerator hosts."""
    ctx.obj = CliState(verbosity=-1 if quiet else verbose)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command line; every error is rendered here, once."""
    debug = "-vvv" in arguments or arguments.count("-v") >= 3
    try:
        result = root.main(args=list(arguments), prog_name="sparkrun", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as help_shown:
        click.echo(help_shown.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return _usage_error(error)
    except click.ClickException as error:
        return _say(error.format_message(), None, error.exit_code)
    except SparkrunError as error:
        return _known_error(error, debug=debug)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", None, 130)
    except Exception as error:  # noqa: BLE001 - the CLI's top: a defect of ours, told in one line
        return _defect(error, debug=debug)


def _usage_error(error: click.UsageError) -> int:
    command = error.ctx.command_path if error.ctx else "sparkrun"
    if isinstance(error, click.NoSuchOption):
        hint = did_you_mean(error.option_name, _options(error.ctx))
        return _say(f"no such option '{error.option_name}'", hint or f"{command} --help", error.exit_code)
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    return _say(message, None if "hint:" in message else f"{command} --help", error.exit_code)


def _options(ctx: click.Context | None) -> list[str]:
    return [name for parameter in ctx.command.params for name in parameter.opts if name.startswith("-")] if ctx else []


def _known_error(error: SparkrunError, *, debug: bool) -> int:
    if debug:
        _traceback()
    return _say(error.message, error.hint, error.exit_code)


def _defect(error: Exception, *, debug: bool) -> int:
    if debug:
        _traceback()
    return _say(f"{type(error).__name__}: {error}", "this is a defect of sparkrun; run again with -vvv for the traceback", 1)


def _say(message: str, hint: str | None, code: int) -> int:
    sys.stdout.flush()
    label = click.style("error:", fg="red", bold=True)
    click.echo(f"{label} {message}", err=True)
    if hint:
        for line in hint.splitlines():
            click.echo(f"  {click.style('hint:', fg='cyan')} {line}", err=True)
    return code


def _traceback() -> None:
    import traceback

    traceback.print_exc()
