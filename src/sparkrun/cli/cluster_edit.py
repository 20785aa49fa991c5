"""``sparkrun cluster create``, ``update``, ``delete``, ``set-default`` and ``unset-default``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sparkrun.cli.cluster_settings import read_edit, setting_options
from sparkrun.cli.options import echo_json, json_option
from sparkrun.cli.recipe_names import ClusterName
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import SavedCluster

_HOSTS = click.option("-H", "--hosts", multiple=True, metavar="HOSTS", help="The hosts, with commas between them; may be repeated.")
_HOSTS_FILE = click.option("--hosts-file", metavar="FILE", help="The hosts, one a line; # begins a comment.")
_DEFAULT = click.option("--default", "make_default", is_flag=True, help="Make it the default cluster.")


@click.command()
@click.argument("name")
@_HOSTS
@_HOSTS_FILE
@setting_options
@_DEFAULT
@json_option
def create(name: str, make_default: bool, as_json: bool, **given: Any) -> None:
    """Save a cluster under NAME."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import NEW_CLUSTER_SCHEDULER

    files = ClusterFiles()
    edit = read_edit({"scheduler": NEW_CLUSTER_SCHEDULER, **_said(given)}, files.config)
    saved = files.manager.create(name, edit)
    _report(files, saved, "created", make_default=make_default, as_json=as_json)


@click.command()
@click.argument("name", type=ClusterName())
@_HOSTS
@_HOSTS_FILE
@click.option("--add-host", "add_hosts", multiple=True, metavar="HOSTS", help="Hosts to add; may be repeated.")
@click.option("--remove-host", "remove_hosts", multiple=True, metavar="HOSTS", help="Hosts to take out; may be repeated.")
@setting_options
@click.option("--clear-executor-config", is_flag=True, help="Forget every -o of before.")
@click.option("--infer-hardware", is_flag=True, help="Look at the hosts and save what they are made of.")
@_DEFAULT
@json_option
@click.pass_obj
def update(state: CliState, /, name: str, infer_hardware: bool, make_default: bool, as_json: bool, **given: Any) -> int:
    """Change the cluster NAME. An empty text ('') clears a setting."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import SavedCluster

    files = ClusterFiles()
    edit = read_edit(_said(given), files.config)
    nothing_else = edit.empty and (infer_hardware or make_default)
    saved = SavedCluster(files.manager.load(name)) if nothing_else else files.manager.update(name, edit)
    complete = True
    if infer_hardware:
        saved, complete = _infer_hardware(state, saved)
    _report(files, saved, "updated", make_default=make_default, as_json=as_json)
    return 0 if complete else 1


@click.command()
@click.argument("name", type=ClusterName())
@click.option("--force", is_flag=True, help="Do not ask.")
@json_option
def delete(name: str, force: bool, as_json: bool) -> int:
    """Remove the cluster NAME. Its hosts are left as they are."""
    from sparkrun.cli.cluster_files import ClusterFiles

    files = ClusterFiles()
    files.manager.require(name)
    if not force and not _confirmed(f"Delete cluster '{name}'?"):
        click.echo("Nothing was deleted.", err=True)
        return 1
    was_default = files.manager.delete(name)
    if as_json:
        echo_json({"deleted": name, "was_default": was_default})
    else:
        click.echo(f"Cluster '{name}' deleted." + (" There is no default cluster now." if was_default else ""))
    return 0


@click.command("set-default")
@click.argument("name", type=ClusterName())
@json_option
def set_default(name: str, as_json: bool) -> None:
    """Make the cluster NAME the default one."""
    from sparkrun.cli.cluster_files import ClusterFiles
    from sparkrun.core.cluster_manager import cluster_json

    files = ClusterFiles()
    files.manager.set_default(name)
    if as_json:
        echo_json(cluster_json(files.manager.load(name), default=True))
    else:
        click.echo(f"Default cluster: {name}")


@click.command("unset-default")
@json_option
def unset_default(as_json: bool) -> None:
    """Have no default cluster."""
    from sparkrun.cli.cluster_files import ClusterFiles

    before = ClusterFiles().manager.unset_default()
    if as_json:
        echo_json({"unset": before})
    else:
        click.echo(f"No default cluster now (it was '{before}')." if before else "There was no default cluster.")


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; Click has ``None`` or an empty list for the others."""
    return {key: value for key, value in given.items() if key == "offline" or value not in (None, (), False)}


def _infer_hardware(state: CliState, saved: SavedCluster) -> tuple[SavedCluster, bool]:
    from sparkrun import api

    found = api.infer_hardware(saved.cluster.name, sctx=state.context())
    silent = tuple(f"{host.host} did not answer: {host.reason}" for host in found.unreachable)
    return saved._replace(cluster=found.cluster, warnings=(*saved.warnings, *silent)), not silent


def _report(files: ClusterFiles, saved: SavedCluster, what: str, *, make_default: bool, as_json: bool) -> None:
    from sparkrun.core.cluster_manager import cluster_json

    cluster = saved.cluster
    if make_default:
        files.manager.set_default(cluster.name)
    is_default = files.manager.default_name() == cluster.name
    if as_json:
        echo_json(cluster_json(cluster, default=is_default))
    else:
        click.echo(f"Cluster '{cluster.name}' {what}: {', '.join(cluster.hosts)}" + (" (default)" if is_default else ""))
    files.say_warnings((*saved.warnings, *cluster.warnings))


def _confirmed(question: str) -> bool:
    from sparkrun.core.cluster_manager import ClusterError

    if not sys.stdin.isatty():
        raise ClusterError(f"no terminal to ask on: {question}", hint="add --force")
    return click.confirm(question, err=True)
