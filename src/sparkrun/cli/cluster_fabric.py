"""``sparkrun cluster fabric``."""

from __future__ import annotations

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.state import CliState


@click.command()
@host_options
@json_option
@click.pass_obj
def fabric(state: CliState, hosts: tuple[str, ...], hosts_file: str | None, cluster: str | None, as_json: bool) -> int:
    """Show the network between the hosts, as a launch over all of them would use it.

    Which port reaches which, what is used and what not and why, where the nodes meet, and what each host's collective library would be
    told. Looks, and changes nothing. The exit code is 1 when a host does not answer.
    """
    from sparkrun import api
    from sparkrun.cli.fabric_text import fabric_text

    report = api.fabric(hosts_of(hosts, hosts_file, cluster), sctx=state.context())
    if as_json:
        echo_json(report.to_json())
    else:
        click.echo(fabric_text(report))
    return 1 if report.unreachable else 0
