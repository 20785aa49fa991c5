"""``sparkrun cluster``: saved clusters and what runs on them."""

from __future__ import annotations

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import echo_json, host_options, hosts_of, json_option
from sparkrun.cli.state import CliState

_COMMANDS = {
    "create": Entry("sparkrun.cli.cluster_edit:create", "Save a cluster."),
    "update": Entry("sparkrun.cli.cluster_edit:update", "Change a saved cluster."),
    "delete": Entry("sparkrun.cli.cluster_edit:delete", "Remove a saved cluster."),
    "list": Entry("sparkrun.cli.cluster_show:list_clusters", "Show the saved clusters."),
    "show": Entry("sparkrun.cli.cluster_show:show", "Show what a cluster's file says."),
    "inspect": Entry("sparkrun.cli.cluster_show:inspect", "Show what a cluster's settings come to.", hidden=True),
    "default": Entry("sparkrun.cli.cluster_show:default", "Show the default cluster."),
    "set-default": Entry("sparkrun.cli.cluster_edit:set_default", "Make a cluster the default one."),
    "unset-default": Entry("sparkrun.cli.cluster_edit:unset_default", "Have no default cluster."),
    "import": Entry("sparkrun.cli.cluster_import:import_cluster", "Save a cluster from another tool's settings."),
    "fabric": Entry("sparkrun.cli.cluster_fabric:fabric", "Show the network between the hosts as a launch would use it."),
    "status": Entry("sparkrun.cli.status:status", "Show what runs on the hosts."),
    "check-job": Entry("sparkrun.cli.cluster:check_job", "Tell whether a workload runs (exit code 0) or not (1)."),
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def cluster() -> None:
    """Saved clusters and what runs on them."""


@click.command("check-job")
@click.argument("target")
@click.option("--check-http-models", is_flag=True, help="Also ask the engine over HTTP whether it is healthy.")
@host_options
@json_option
@click.pass_obj
def check_job(
    state: CliState,
    target: str,
    check_http_models: bool,
    hosts: tuple[str, ...],
    hosts_file: str | None,
    cluster: str | None,
    as_json: bool,
) -> int:
    """Tell whether a workload runs, and with --check-http-models whether it is healthy: exit code 0 when so, 1 otherwise.

    One of which a rank was not seen does not count as running. TARGET is an id or its first letters, a recipe, a model, a served name or
    a container's name.
    """
    from sparkrun import api

    result = api.check_job(target, hosts_of(hosts, hosts_file, cluster), check_http=check_http_models, sctx=state.context())
    if as_json:
        echo_json(result.to_json())
    else:
        from sparkrun.cli.status_text import check_text

        click.echo(check_text(target, result))
    return 0 if result.running and result.healthy is not False else 1
