"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sparkrun.cli.recipe_names import ClusterName

if TYPE_CHECKING:
    from sparkrun.core.hosts import HostOptions

F = TypeVar("F", bound=Callable[..., Any])


def host_options(command: F) -> F:
    """``-H/--hosts``, ``--hosts-file``, ``--cluster``."""
    for option in (
        click.option("--cluster", "cluster", type=ClusterName(), metavar="NAME", help="A saved cluster."),
        click.option("--hosts-file", metavar="FILE", help="Hosts, one a line; # begins a comment."),
        click.option("-H", "--hosts", multiple=True, metavar="HOSTS", help="Hosts with commas between them; may be repeated."),
    ):
        command = option(command)
    return command


def json_option(command: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as one line of JSON.")(command)


def apply_option(command: F) -> F:
    """``--apply``."""
    return click.option("--apply", is_flag=True, help="Do it; without this, only tell what would go.")(command)


def say_where(origin: str) -> None:
    """That nobody named a host."""
    if origin == "this machine":
        click.echo("Note: no hosts named and no default cluster: this machine", err=True)


def hosts_of(hosts: tuple[str, ...], hosts_file: str | None, cluster: str | None) -> HostOptions:
    """The shared host options as one value."""
    from sparkrun.core.hosts import HostOptions  # a usage error needs none of it

    return HostOptions(hosts, hosts_file, cluster)


def echo_json(value: object) -> None:
    """One line, ASCII, a blank after ``,`` and ``:``: the same for every ``--json``."""
    import json  # only who asks for it

    click.echo(json.dumps(value))
