"""``sparkrun stop``."""

from __future__ import annotations

import click

from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.recipe_names import WorkloadName
from sparkrun.cli.state import CliState


@click.command()
@click.argument("target", required=False, type=WorkloadName())
@click.option("--all", "everything", is_flag=True, help="Stop every workload on the hosts.")
@host_options
@json_option
@click.pass_obj
def stop(
    state: CliState,
    target: str | None,
    everything: bool,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Stop a workload and confirm on every host that it is gone.

    TARGET is an id or its first letters, a recipe, a model or a served name. Exit code 1 when nothing answers to it, or when a host
    cannot confirm.
    """
    from sparkrun import api

    if everything == bool(target):
        raise click.UsageError("name one workload, or --all" if not target else "--all goes without a name")
    chosen = hosts_of(hosts, hosts_file, cluster)
    sctx = state.context()
    result = api.stop_all(chosen, sctx=sctx) if target is None else api.stop(target, chosen, sctx=sctx)
    if as_json:
        echo_json(result.to_json())
        return
    for workload in result.stopped:
        if workload.had_ended:
            click.echo(
                f"{workload.recipe or 'workload'} ({workload.cluster_id}) had ended; nothing of it is left on {', '.join(workload.hosts)}."
            )
            continue
        click.echo(f"Stopped {workload.recipe or 'workload'} ({workload.cluster_id}) on {', '.join(workload.hosts)}.")
    if not result.stopped:
        click.echo("Nothing is running.")
    for host in result.unreachable:
        click.echo(f"warning: {host.host} did not answer ({host.reason}); what runs there is unknown", err=True)
