"""``sparkrun logs``."""

from __future__ import annotations

import re

import click

from sparkrun.cli.options import host_options, hosts_of
from sparkrun.cli.recipe_names import WorkloadName
from sparkrun.cli.state import CliState


def _moment(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """As docker takes it: an age in its units, or a time."""
    if value is None or re.fullmatch(r"(?:[0-9]+(?:\.[0-9]+)?[hms])+", value):
        return value
    if match := re.fullmatch(r"([0-9]+)d", value):
        return f"{int(match[1]) * 24}h"
    from datetime import datetime

    try:
        return datetime.fromisoformat(value).astimezone().isoformat(timespec="seconds")
    except ValueError:
        raise click.BadParameter(f"{value} is neither an age (90s, 10m, 2h, 1d) nor a time (2026-01-31T12:00:00)") from None


@click.command()
@click.argument("target", type=WorkloadName())
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the engine ends or Ctrl-C; the engine is not touched.")
@click.option(
    "--since", metavar="WHEN", callback=_moment, help="Only what came since: an age (90s, 10m, 2h) or a time (2026-01-31T12:00:00)."
)
@click.option("-a", "--all", "all_ranks", is_flag=True, help="Every rank, each line with its rank in front.")
@host_options
@click.pass_obj
def logs(
    state: CliState,
    target: str,
    lines: int | None,
    follow: bool,
    since: str | None,
    all_ranks: bool,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
) -> int:
    """Show the serve log of a workload, also of one that has ended.

    TARGET is an id or its first letters, a recipe, a model, a served name or a container's name. -a without -f shows the lines of all
    ranks in the order of their times.
    """
    from sparkrun import api

    def show(line: api.LogLine) -> None:
        click.echo(f"[{line.rank}] {line.text}" if all_ranks else line.text)

    view = api.LogView(lines=lines, follow=follow, all_ranks=all_ranks, since=since)
    try:
        api.logs(target, show, hosts_of(hosts, hosts_file, cluster), view=view, sctx=state.context())
    except KeyboardInterrupt:
        return 0
    return 0
