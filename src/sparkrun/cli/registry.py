"""``sparkrun registry``: where recipes come from, and whom to trust."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.state import CliState
from sparkrun.cli.tables import columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkrun.api import ChangeResult, RegistryEntry, RegistryInfo, UpdateResult
_COMMANDS = {
    name: Entry(f"sparkrun.cli.registry:{function}", help_text, hidden)
    for name, function, help_text, hidden in (
        ("list", "list_registries", "Show the registries.", False),
        ("show", "show_registry", "Show one registry.", False),
        ("add", "add", "Add the registries of a git repository.", False),
        ("remove", "remove", "Forget a registry.", False),
        ("enable", "enable", "Use a registry again.", False),
        ("disable", "disable", "Keep a registry, but do not use it.", False),
        ("trust", "trust", "Let a registry's recipes run hooks and change host settings unasked.", False),
        ("untrust", "untrust", "Ask before a registry's recipes run hooks.", False),
        ("update", "update", "Fetch what is new.", False),
        ("revert-to-defaults", "revert_to_defaults", "Forget every registry but the shipped ones.", True),
    )
} | {
    "list-benchmark-profiles": Entry("sparkrun.cli.profiles:list_profiles", "Show the benchmark profiles."),
    "show-benchmark-profile": Entry("sparkrun.cli.profiles:show_profile", "Show one benchmark profile."),
}


_JSON_KEYS = (
    *("name", "url", "subpath", "description", "enabled", "visible"),
    *("tuning_subpath", "benchmark_subpath", "mods_subpath", "trusted", "format", "declared_by"),
)


@click.group(cls=LazyGroup, entries=_COMMANDS)
def registry() -> None:
    """Where recipes come from, and whom to trust."""


@click.command("list")
@click.option("--show-disabled", is_flag=True, help="Also disabled ones.")
@click.option("--only-show-visible", is_flag=True, help="Only those whose recipes answer to a bare name.")
@json_option
@click.pass_obj
def list_registries(state: CliState, show_disabled: bool, only_show_visible: bool, as_json: bool) -> None:
    """Show the registries. Nothing is fetched."""
    from sparkrun import api

    manager = api.registries(sctx=state.context())
    found = manager.list(disabled=show_disabled, hidden=not only_show_visible)
    if as_json:
        echo_json([_entry_json(info.entry) for info in found])
        return
    click.echo(columns([("Name", "URL", "Enabled", "Stemless", "Trusted", "Tuning", "Bench", "Fetched"), *(_row(info) for info in found)]))


@click.command("show")
@click.argument("name")
@json_option
@click.pass_obj
def show_registry(state: CliState, name: str, as_json: bool) -> None:
    """Show one registry."""
    from sparkrun import api

    info = api.registries(sctx=state.context()).show(name)
    if as_json:
        echo_json(_entry_json(info.entry))
        return
    entry = info.entry
    rows = {
        "Name": entry.name,
        "URL": entry.url or "(inside sparkrun)",
        "Recipes": entry.subpath,
        "Description": entry.description,
        "Enabled": _yes(entry.enabled),
        "Stemless": _yes(entry.visible),
        "Trusted": _yes(entry.trusted),
        "Tuning": entry.tuning_subpath or "",
        "Benchmarks": entry.benchmark_subpath or "",
        "Mods": entry.mods_subpath or "",
        "Commit": info.commit or ("not fetched yet" if entry.url else ""),
    }
    click.echo("\n".join(f"{label + ':':13}{value}" for label, value in rows.items()))


@click.command()
@click.argument("url")
@click.option("--name", help="The registry's name, for a repository that declares none.")
@click.option("--trust", is_flag=True, help="Let its recipes run hooks and change host settings unasked.")
@click.option("--no-update", is_flag=True, help="Do not fetch its recipes yet.")
@click.pass_obj
def add(state: CliState, url: str, name: str | None, trust: bool, no_update: bool) -> None:
    """Add the registries that a git repository declares; one without a manifest becomes a registry by convention."""
    from sparkrun import api

    result = api.registries(sctx=state.context()).add(url, name=name, trust=trust, fetch=not no_update)
    for entry in result.added:
        click.echo(f"added {entry.name} ({'trusted' if entry.trusted else 'not trusted'}): recipes in {entry.subpath}")
    for line in (*result.skipped, *result.notes, *([result.convention] if result.convention else [])):
        click.echo(f"note: {line}", err=True)
    if not result.added:
        click.echo("nothing was added")


@click.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def remove(state: CliState, name: str, yes: bool) -> None:
    """Forget a registry. It stays forgotten when the others are updated."""
    from sparkrun import api

    manager = api.registries(sctx=state.context())
    entry = manager.entry(name)
    _confirm(f"forget {entry.name} ({entry.url})?", yes=yes)
    manager.remove(name)
    click.echo(f"removed {name}")


@click.command()
@click.argument("name")
@click.pass_obj
def enable(state: CliState, name: str) -> None:
    """Use a registry again."""
    _change(state, "enable", name, "enabled")


@click.command()
@click.argument("name")
@click.pass_obj
def disable(state: CliState, name: str) -> None:
    """Keep a registry, but do not use it."""
    _change(state, "disable", name, "disabled")


@click.command()
@click.argument("name")
@click.pass_obj
def trust(state: CliState, name: str) -> None:
    """Let a registry's recipes run hooks and mods and change host settings without asking."""
    _change(state, "trust", name, "trusted")


@click.command()
@click.argument("name")
@click.pass_obj
def untrust(state: CliState, name: str) -> None:
    """Ask before a registry's recipes run hooks."""
    _change(state, "untrust", name, "not trusted")


@click.command()
@click.argument("name", required=False)
@json_option
@click.pass_obj
def update(state: CliState, name: str | None, as_json: bool) -> int:
    """Fetch what is new, all registries at once. One that fails keeps the recipes it had; the exit code is then 1."""
    import msgspec

    from sparkrun import api

    report = api.registries(sctx=state.context()).update(name)
    if as_json:
        echo_json(msgspec.to_builtins(report))
        return 0 if report.ok else 1
    for result in report.results:
        click.echo(_update_line(result))
    for added in report.added:
        click.echo(f"new: {added}")
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    failed = sum(result.status == "failed" for result in report.results)
    click.echo(f"{len(report.results) - failed} of {len(report.results)} registries are up to date")
    return 0 if report.ok else 1


@click.command("revert-to-defaults")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def revert_to_defaults(state: CliState, yes: bool) -> None:
    """Forget every registry but the shipped ones, and all checkouts."""
    from sparkrun import api

    manager = api.registries(sctx=state.context())
    _confirm("forget every registry that was added, and all that was said about the shipped ones?", yes=yes)
    result = manager.revert_to_defaults()
    click.echo(f"forgotten: {', '.join(result.forgotten) or 'nothing'}")


def _change(state: CliState, action: Literal["enable", "disable", "trust", "untrust"], name: str, word: str) -> None:
    from sparkrun import api

    manager = api.registries(sctx=state.context())
    actions: dict[str, Callable[[str], ChangeResult]] = {
        "enable": manager.enable,
        "disable": manager.disable,
        "trust": manager.trust,
        "untrust": manager.untrust,
    }
    result = actions[action](name)
    click.echo(f"{name} is {word}" + ("" if result.changed else " already"))


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; without one, the answer has to come with the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; add --yes")
    click.confirm(question, abort=True)


def _update_line(result: UpdateResult) -> str:
    commit = f" ({result.commit[:9]})" if result.commit else ""
    reason = f": {result.reason}" if result.reason else ""
    return f"{result.registry}: {'FAILED' if result.status == 'failed' else result.status}{reason or commit}"


def _row(info: RegistryInfo) -> tuple[str, ...]:
    entry = info.entry
    url = entry.url if len(entry.url) <= 40 else f"{entry.url[:39]}…"
    flags = (_yes(value) for value in (entry.enabled, entry.visible, entry.trusted, entry.tuning_subpath, entry.benchmark_subpath))
    return (entry.name, url or "(inside sparkrun)", *flags, _yes(info.fetched))


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _entry_json(entry: RegistryEntry) -> dict[str, Any]:
    return {key: getattr(entry, key) for key in _JSON_KEYS}
