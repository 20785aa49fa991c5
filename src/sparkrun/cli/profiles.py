"""``sparkrun registry list-benchmark-profiles`` and ``show-benchmark-profile``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.state import CliState
from sparkrun.cli.tables import columns

if TYPE_CHECKING:
    from sparkrun.api import BenchmarkProfile


@click.command("list-benchmark-profiles")
@click.option("-a", "--all", "hidden", is_flag=True, help="Also those of hidden registries.")
@click.option("--registry", metavar="NAME", help="Only this registry.")
@json_option
@click.pass_obj
def list_profiles(state: CliState, hidden: bool, registry: str | None, as_json: bool) -> None:
    """Show the benchmark profiles: your own, then those of the registries."""
    import msgspec

    from sparkrun import api

    found = api.benchmark_profiles(registry=registry, hidden=hidden, sctx=state.context())
    if as_json:
        echo_json([msgspec.to_builtins(profile) for profile in found.profiles])
    else:
        click.echo(_table(found.profiles) or "No benchmark profiles found.")
    for line in (*(broken.line for broken in found.broken), *(failure.line for failure in found.failures)):
        click.echo(f"warning: {line}", err=True)


@click.command("show-benchmark-profile")
@click.argument("name")
@json_option
@click.pass_obj
def show_profile(state: CliState, name: str, as_json: bool) -> None:
    """Show a benchmark profile.

    NAME is a name, @registry/name or a path.
    """
    import msgspec

    from sparkrun import api

    profile = api.benchmark_profile(name, sctx=state.context())
    if as_json:
        echo_json(msgspec.to_builtins(profile))
        return
    rows = {
        "Name": profile.name,
        "Path": profile.path,
        "Framework": profile.framework,
        "Description": profile.description,
        "Category": profile.category or "",
        "Timeout": f"{profile.timeout_s} s" if profile.timeout_s is not None else "",
    }
    click.echo("\n".join(f"{label + ':':13}{value}" for label, value in rows.items() if value))
    click.echo(f"\n{Path(profile.path).read_text(encoding='utf-8-sig').strip()}")


def _table(profiles: tuple[BenchmarkProfile, ...]) -> str:
    rows = [(profile.name, profile.registry or "", profile.framework, profile.description) for profile in profiles]
    return columns([("Profile", "Registry", "Framework", "Description"), *rows]) if rows else ""
