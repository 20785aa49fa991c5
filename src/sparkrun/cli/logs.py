"""``sparkrun logs``."""

from __future__ import annotations

import click

from sparkrun.cli.options import host_options, hosts_of
from sparkrun.cli.recipe_names import WorkloadName
from sparkrun.cli.state import CliState


@click.command()
@click.argument("target", type=WorkloadName())
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the engine ends or Ctrl-C; the engine is not touched.")
@click.option("-a", "--all", "all_ranks", is_flag=True, help="Every rank, each line with its rank in front.")
@host_options
@click.pass_obj
def logs(
    state: CliState,
    target: str,
    lines: int | None,
    follow: bool,
    all_ranks: bool,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
) -> int:
    """Show the serve log of a workload, also of one that has ended.

    TARGET is an id or its first letters, a recipe, a model or a served name.
    """
    from sparkrun import api

    def show(line: api.LogLine) -> None:
        click.echo(f"[{line.rank}] {line.text}" if all_ranks else line.text)

    view = api.LogView(lines=lines, follow=follow, all_ranks=all_ranks)
    try:
        api.logs(target, show, hosts_of(hosts, hosts_file, cluster), view=view, sctx=state.context())
    except KeyboardInterrupt:
        return 0
    return 0
