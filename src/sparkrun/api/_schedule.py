"""Asking where a demand would be placed."""

from __future__ import annotations

from collections.abc import Callable

from sparkrun.api._context import reach
from sparkrun.core.bootstrap import Plugins
from sparkrun.core.cluster_status import ClusterStatus
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import PluginError
from sparkrun.core.facts import Unreachable
from sparkrun.core.hardware import HostHardware
from sparkrun.core.hardware_probe import probe_hosts
from sparkrun.core.hosts import HostOptions, require_hosts
from sparkrun.core.limits import MemoryCaps
from sparkrun.core.memory_check import platform_memory
from sparkrun.core.placement import Conditions, Demand, Placement
from sparkrun.core.scheduler import Scheduler, SchedulerLayers, resolve_scheduler
from sparkrun.orchestration.status import query_status_for_cluster
from sparkrun.utils.text import did_you_mean


def schedule(
    demand: Demand,
    hosts: HostOptions = HostOptions(),
    *,
    scheduler: str | None = None,
    replacing: str | None = None,
    sctx: SparkrunContext,
) -> Placement:
    """Where a demand would be placed now: looks at the hosts, starts nothing.

    ``replacing`` is the intent id of a workload whose GPUs count as free. Raises ``HostsError``, ``PluginError``,
    ``InsufficientCapacity`` or ``LayoutRequiredError``.
    """
    sctx = reach(hosts, sctx)
    selection = require_hosts(hosts, sctx.config)
    cluster, plugins = selection.cluster, Plugins(sctx.config)
    chosen = resolve_scheduler(SchedulerLayers(cli=scheduler, cluster=cluster.scheduler if cluster else None), _finder(plugins))
    found = probe_hosts(selection.hosts, sctx.runner)
    hardware = {host: each for host, each in found.items() if isinstance(each, HostHardware)}
    silent = tuple(each for each in found.values() if isinstance(each, Unreachable))
    seen = query_status_for_cluster(dict.fromkeys(selection.hosts, plugins.executors()), sctx.runner)
    conditions = Conditions(
        status=ClusterStatus(seen.hosts, seen.workloads, (*silent, *seen.unreachable)),
        caps=cluster.memory_caps if cluster else MemoryCaps(),
        platforms={host: platform_memory(each) for host, each in hardware.items()},
        replacing=replacing,
    )
    return chosen.schedule(demand, selection.hosts, hardware, conditions)


def _finder(plugins: Plugins) -> Callable[[str], Scheduler]:
    def find(name: str) -> Scheduler:
        known = {plugin.plugin_name: plugin for plugin in plugins.all("scheduler") if isinstance(plugin, Scheduler)}
        if name not in known:
            raise PluginError(f"no scheduler named '{name}'", hint=did_you_mean(name, known) or f"available: {', '.join(sorted(known))}")
        return known[name]

    return find
