"""``sparkrun stop``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.recipe_names import WorkloadName
from sparkrun.cli.state import CliState

if TYPE_CHECKING:
    from sparkrun.api import StoppedWorkload


@click.command()
@click.argument("target", required=False, type=WorkloadName())
@click.option("--all", "everything", is_flag=True, help="Stop every workload on the hosts.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be stopped; look at the hosts, change nothing.")
@click.option("--tp", "tensor_parallel", type=click.IntRange(min=1), metavar="N", help="Only one with this tensor parallelism.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Only the one at this port.")
@click.option("--served-model-name", metavar="NAME", help="Only the one that clients call so.")
@host_options
@json_option
@click.pass_obj
def stop(
    state: CliState,
    target: str | None,
    everything: bool,
    dry_run: bool,
    tensor_parallel: int | None,
    port: int | None,
    served_model_name: str | None,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Stop a workload and confirm on every host that it is gone.

    TARGET is an id or its first letters, a recipe, a model, a served name or a container's name. Exit code 1 when nothing answers to it,
    or when a host cannot confirm.
    """
    from sparkrun import api

    if everything == bool(target):
        raise click.UsageError("name one workload, or --all" if not target else "--all goes without a name")
    only = api.Narrowing(tensor_parallel, port, served_model_name)
    if everything and only.narrows:
        raise click.UsageError("--all stops everything: it goes without --tp, --port and --served-model-name")
    chosen = hosts_of(hosts, hosts_file, cluster)
    sctx = state.context()
    if target is None:
        result = api.stop_all(chosen, dry_run=dry_run, sctx=sctx)
    else:
        result = api.stop(target, chosen, only=only, dry_run=dry_run, sctx=sctx)
    if as_json:
        echo_json(result.to_json())
        return
    for workload in result.stopped:
        click.echo(_stopped_line(workload, dry_run=dry_run))
    if not result.stopped:
        click.echo("Nothing is running.")
    for host in result.unreachable:
        click.echo(f"warning: {host.host} did not answer ({host.reason}); what runs there is unknown", err=True)


def _stopped_line(workload: StoppedWorkload, *, dry_run: bool) -> str:
    name, where = f"{workload.recipe or 'workload'} ({workload.cluster_id})", ", ".join(workload.hosts)
    if workload.had_ended:
        return (
            f"{name} has ended; would remove what is left of it on {where}."
            if dry_run
            else f"{name} had ended; nothing of it is left on {where}."
        )
    return f"{'Would stop' if dry_run else 'Stopped'} {name} on {where}."
