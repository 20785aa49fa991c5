"""The ``ssh`` transport: OpenSSH, as the cluster's user."""

from __future__ import annotations

from sparkrun.core.cluster_manager import Cluster
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import EventSink, ignore_events
from sparkrun.core.remote import HostRunner
from sparkrun.orchestration.ssh import make_ssh_runner
from sparkrun.transports.base import Transport


class SshTransport(Transport):
    """What every cluster uses that names no other."""

    plugin_name = "ssh"

    def make_runner(self, config: SparkrunConfig, cluster: Cluster, emit: EventSink = ignore_events) -> HostRunner:
        """Shared connections with the ``ssh`` settings of ``config.yaml``."""
        return make_ssh_runner(config, emit, user=cluster.user)
