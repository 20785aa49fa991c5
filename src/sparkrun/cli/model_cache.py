"""``sparkrun model-cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import apply_option, echo_json, host_options, hosts_of, json_option, say_where
from sparkrun.cli.recipe_names import CachedModelName
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import CacheOptions, ModelCacheChange

F = TypeVar("F", bound=Callable[..., Any])
_COMMANDS = {
    "list": Entry("sparkrun.cli.model_cache:list_models", "Show the models in the caches of the hosts."),
    "inspect": Entry("sparkrun.cli.model_cache:inspect", "Show one model: snapshots, files, what is wrong."),
    "verify": Entry("sparkrun.cli.model_cache:verify", "Read models and say what is damaged."),
    "repair": Entry("sparkrun.cli.model_cache:repair", "Take out what is damaged, so that it comes again."),
    "pin": Entry("sparkrun.cli.model_cache:pin", "Protect a model from being removed."),
    "unpin": Entry("sparkrun.cli.model_cache:unpin", "Lift that protection."),
    "prune": Entry("sparkrun.cli.model_cache:prune", "Remove what nobody needs."),
    "delete": Entry("sparkrun.cli.model_cache:delete", "Remove a model."),
}


def cache_options(command: F) -> F:
    """The host options, ``--cache-dir`` and ``--json``."""
    where = click.option("--cache-dir", metavar="DIR", help="Hugging Face home on the hosts (its hub is DIR/hub).")
    return host_options(where(json_option(command)))


def options_of(hosts: tuple[str, ...], hosts_file: str | None, cluster: str | None, cache_dir: str | None) -> CacheOptions:
    """The shared options as one value."""
    from sparkrun.api import CacheOptions

    return CacheOptions(hosts_of(hosts, hosts_file, cluster), cache_dir)


@click.group(cls=LazyGroup, entries=_COMMANDS)
def model_cache() -> None:
    """The models in the Hugging Face caches of the hosts: this machine's where no host is named and no default cluster is set.

    What removes something only tells what would go, until --apply is given.
    """


@click.command("list")
@cache_options
@click.pass_obj
def list_models(state: CliState, /, as_json: bool, **where: Any) -> int:
    """Show the models, their sizes, when they were used last, and what is wrong with them. A shared cache is shown once.

    The exit code is 1 when a host does not answer.
    """
    from sparkrun import api
    from sparkrun.cli.model_cache_text import report_text

    report = api.model_cache(options_of(**where), sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(report_text(report))
    return 1 if report.unreachable else 0


@click.command()
@click.argument("model", type=CachedModelName())
@cache_options
@click.pass_obj
def inspect(state: CliState, /, model: str, as_json: bool, **where: Any) -> int:
    """Show what the caches hold of MODEL (org/name), and what is wrong with it. The exit code is 1 when a host does not answer."""
    from sparkrun import api
    from sparkrun.cli.model_cache_text import report_text

    report = api.inspect_model(model, options_of(**where), sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(report_text(report, details=True))
    return 1 if report.unreachable else 0


@click.command()
@click.argument("model", required=False, type=CachedModelName())
@click.option("--quick", is_flag=True, help="Compare lengths alone, read no content.")
@cache_options
@click.pass_obj
def verify(state: CliState, /, model: str | None, quick: bool, as_json: bool, **where: Any) -> int:
    """Read MODEL, or every model, and compare each file with what its name in the cache says: its sha256, or git's sha1 of a small one.

    Every host reads for itself, all at once, a shared cache once. The exit code is 1 when anything is wrong.
    """
    from sparkrun import api
    from sparkrun.cli.model_cache_text import verify_text

    report = api.verify_models(model, options_of(**where), quick=quick, sctx=state.context())
    say_where(report.origin)
    echo_json(report.to_json()) if as_json else click.echo(verify_text(report))
    return 0 if report.good else 1


@click.command()
@click.argument("model", type=CachedModelName())
@click.option("--quick", is_flag=True, help="Compare lengths alone, read no content.")
@apply_option
@cache_options
@click.pass_obj
def repair(state: CliState, /, model: str, quick: bool, apply: bool, as_json: bool, **where: Any) -> int:
    """Verify MODEL and take out what is damaged: links to nothing, leftovers of transfers, wrong content.

    The next launch brings that again, and nothing else.
    """
    from sparkrun import api

    return _tell(api.repair_model(model, options_of(**where), quick=quick, apply=apply, sctx=state.context()), as_json=as_json)


@click.command()
@click.argument("model", type=CachedModelName())
@click.option("--reason", default="", metavar="TEXT", help="What for; shown when somebody wants to remove it.")
@cache_options
@click.pass_obj
def pin(state: CliState, /, model: str, reason: str, as_json: bool, **where: Any) -> int:
    """Protect MODEL from delete, prune and repair."""
    from sparkrun import api

    return _tell(api.pin_model(model, options_of(**where), reason=reason, sctx=state.context()), as_json=as_json)


@click.command()
@click.argument("model", type=CachedModelName())
@cache_options
@click.pass_obj
def unpin(state: CliState, /, model: str, as_json: bool, **where: Any) -> int:
    """Lift the protection of MODEL."""
    from sparkrun import api

    return _tell(api.unpin_model(model, options_of(**where), sctx=state.context()), as_json=as_json)


@click.command()
@click.option("--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Also models that nothing has used for so long.")
@apply_option
@cache_options
@click.pass_obj
def prune(state: CliState, /, older_than: float | None, apply: bool, as_json: bool, **where: Any) -> int:
    """Remove what nobody needs: leftovers of transfers, snapshots that no branch or tag names, content that no file leads to.

    Models that are pinned, or used by a running workload, are left alone.
    """
    from sparkrun import api

    return _tell(api.prune_models(options_of(**where), older_than_days=older_than, apply=apply, sctx=state.context()), as_json=as_json)


@click.command()
@click.argument("model", type=CachedModelName())
@apply_option
@cache_options
@click.pass_obj
def delete(state: CliState, /, model: str, apply: bool, as_json: bool, **where: Any) -> int:
    """Remove MODEL from the caches of the hosts. Refused where it is pinned, or used by a running workload."""
    from sparkrun import api

    return _tell(api.delete_model(model, options_of(**where), apply=apply, sctx=state.context()), as_json=as_json)


def _tell(change: ModelCacheChange, *, as_json: bool) -> int:
    from sparkrun.cli.model_cache_text import change_text

    say_where(change.origin)
    echo_json(change.to_json()) if as_json else click.echo(change_text(change))
    return 0 if change.complete else 1
