"""Making ``sctx`` out of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.context import Approve, SparkrunContext
from sparkrun.core.events import EventSink, ignore_events
from sparkrun.core.hub_reader import HubReader
from sparkrun.core.remote import HostRunner

if TYPE_CHECKING:
    from sparkrun.core.cluster_manager import Cluster
    from sparkrun.core.hosts import HostOptions

DEFAULT_TRANSPORT = "ssh"


def make_context(
    *, env: Mapping[str, str], cwd: Path, emit: EventSink = ignore_events, offline: bool | None = None, approve: Approve | None = None
) -> SparkrunContext:
    """The context of a process: its settings, and hosts reached by ssh. ``offline=None`` leaves it to the cluster.

    Raises ``ConfigError`` for a broken ``config.yaml``.
    """
    config = SparkrunConfig.load(env)

    def make_runner() -> HostRunner:
        from sparkrun.orchestration.ssh import make_ssh_runner  # many commands touch no host

        return make_ssh_runner(config, emit)

    def make_hub() -> HubReader:
        from sparkrun.models.vram.http_hub import http_hub  # few commands ask the hub

        return http_hub(config)

    hub = None if _hub_is_off(env) else make_hub
    return SparkrunContext(config, make_runner, cwd, emit, bool(offline), offline is False, approve, hub)


def _hub_is_off(env: Mapping[str, str]) -> bool:
    return env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def reach(options: HostOptions, sctx: SparkrunContext) -> SparkrunContext:
    """The context for the hosts of a command: reached by the transport of their cluster, as its user, and offline where that is.

    Raises ``ClusterError`` for an unknown cluster, ``PluginError`` for an unknown transport.
    """
    cluster = _cluster_of(options, sctx.config)
    runner = _runner_for(cluster, sctx) if cluster else sctx.runner
    offline = sctx.offline or bool(cluster and cluster.offline and not sctx.online)
    if runner is sctx.runner and offline == sctx.offline:
        return sctx
    return msgspec.structs.replace(sctx, make_runner=lambda: runner, offline=offline)


def reach_remembered(options: HostOptions, sctx: SparkrunContext) -> SparkrunContext:
    """The same for what was launched from here: hosts that nobody names now are reached as the user of their last launch."""
    sctx = reach(options, sctx)
    if options.hosts or options.hosts_file or options.cluster:
        return sctx
    from sparkrun.core.jobs import read_jobs, users_of
    from sparkrun.orchestration.ssh import SshRunner

    users = users_of(read_jobs(sctx.config.paths))
    if not users or not isinstance(sctx.runner, SshRunner):
        return sctx
    runner = sctx.runner.with_users(users)
    return msgspec.structs.replace(sctx, make_runner=lambda: runner)


def _cluster_of(options: HostOptions, config: SparkrunConfig) -> Cluster | None:
    """The cluster named, or the default one where hosts are not named outright."""
    from sparkrun.core.cluster_manager import ClusterManager  # recipes and registries have no use for clusters

    clusters = ClusterManager(config.paths)
    if options.cluster:
        return clusters.load(options.cluster)
    return None if options.hosts or options.hosts_file else clusters.default()


def _runner_for(cluster: Cluster, sctx: SparkrunContext) -> HostRunner:
    if cluster.transport != DEFAULT_TRANSPORT:
        from sparkrun.core.bootstrap import Plugins  # hosts behind ssh need no plugin

        return Plugins(sctx.config).transport(cluster.transport).make_runner(sctx.config, cluster, sctx.emit)
    from sparkrun.orchestration.ssh import SshRunner

    if cluster.user and isinstance(sctx.runner, SshRunner):
        return sctx.runner.with_user(cluster.user)
    return sctx.runner
