"""The seam behind which hosts are reached. What is above it sees a ``HostRunner`` and nothing else."""

from __future__ import annotations

from sparkrun.core.cluster_manager import Cluster
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import EventSink, ignore_events
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.core.remote import HostRunner

EXT_TRANSPORT = "sparkrun.transport"


class Transport(SparkrunPlugin):
    """How the hosts of a cluster are reached and made ready. ``plugin_name`` is what a cluster's ``transport:`` says."""

    extension_point = EXT_TRANSPORT

    def make_runner(self, config: SparkrunConfig, cluster: Cluster, emit: EventSink = ignore_events) -> HostRunner:
        """The way to the hosts of ``cluster``, made ready (a tunnel, a login): once a command. It emits a ``Script`` for each one it sends.

        Contacts no host by itself; ``cluster.provider_ref`` and ``cluster.plugins`` are the plugin's own settings. Raises
        ``SparkrunError`` for settings that cannot work.
        """
        raise NotImplementedError
