"""``sparkrun status`` and ``sparkrun cluster status``."""

from __future__ import annotations

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.state import CliState


@click.command()
@host_options
@json_option
@click.pass_obj
def status(state: CliState, hosts: tuple[str, ...], hosts_file: str | None, cluster: str | None, as_json: bool) -> int:
    """Show what runs on the hosts, as the hosts themselves tell it.

    Without host options: the default cluster, and every host this machine launched something on. A host that does not answer is unknown;
    the exit code is 1 when a host is.
    """
    from sparkrun import api
    from sparkrun.cli.status_text import status_text

    report = api.status(hosts_of(hosts, hosts_file, cluster), sctx=state.context())
    if as_json:
        echo_json(report.to_json())
    else:
        click.echo(status_text(report))
    return 1 if report.status.unreachable else 0
