"""``sparkrun cluster list``, ``show``, ``inspect`` and ``default``."""

from __future__ import annotations

import click

from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.recipe_names import ClusterName
from sparkrun.cli.state import CliState


@click.command("list")
@json_option
def list_clusters(as_json: bool) -> None:
    """Show the saved clusters; * marks the default one. A file that is broken is named, and hides no other."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.cli.cluster_text import table_lines
    from sparkrun.core.cluster_manager import cluster_json

    files = ClusterFiles()
    default = files.manager.default_name()
    good, broken = files.manager.load_all()
    if as_json:
        items = [cluster_json(found, default=found.name == default) for found in good]
        echo_json([*items, *({"name": bad.name, "error": bad.reason, "default": bad.name == default} for bad in broken)])
    else:
        for line in table_lines(good, default) if good else ("No saved clusters.",):
            click.echo(line)
    files.say_warnings(f"cluster '{bad.name}' cannot be used: {bad.reason}" for bad in broken)


@click.command()
@click.argument("name", type=ClusterName())
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what a cluster's file says."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.cli.cluster_text import cluster_lines
    from sparkrun.core.cluster_manager import detailed_json

    files = ClusterFiles()
    found = files.manager.load(name)
    is_default = files.manager.default_name() == name
    if as_json:
        echo_json(detailed_json(found, default=is_default))
    else:
        for line in cluster_lines(found, default=is_default):
            click.echo(line)
        if found.scheduler_hint:
            click.echo(f"hint: {found.scheduler_hint}", err=True)
    files.say_warnings(found.warnings)


@click.command()
@click.argument("name", type=ClusterName())
@json_option
@click.pass_obj
def inspect(state: CliState, name: str, as_json: bool) -> None:
    """Show what a cluster's settings come to on this machine. Asks no host."""
    from sparkrun import api
    from sparkrun.cli.cluster_text import inspection_lines

    found = api.inspect_cluster(name, sctx=state.context())
    if as_json:
        echo_json(found.to_json())
        return
    for line in inspection_lines(found):
        click.echo(line)
    for warning in found.cluster.warnings:
        click.echo(f"warning: {warning}", err=True)


@click.command()
@json_option
def default(as_json: bool) -> None:
    """Show the default cluster."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import cluster_json

    files = ClusterFiles()
    found = files.manager.default()
    if as_json:
        echo_json(cluster_json(found, default=True) if found else None)
    else:
        click.echo(f"{found.name}  {', '.join(found.hosts)}" if found else "No default cluster.")
    files.say_warnings()
