from __future__ import annotations

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.cluster_manager import Cluster
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.orchestration.ssh import SshRunner
from sparkrun.transports import EXT_TRANSPORT, Transport


def test_ssh_is_found_as_a_plugin(config: SparkrunConfig) -> None:
    transport = Plugins(config).transport("ssh")
    assert isinstance(transport, Transport)
    assert isinstance(transport, SparkrunPlugin)
    assert transport.extension_point == EXT_TRANSPORT == "sparkrun.transport"


def test_ssh_reaches_hosts_as_the_user_of_the_cluster(config: SparkrunConfig) -> None:
    runner = Plugins(config).transport("ssh").make_runner(config, Cluster("lab", user="dgx"))
    assert isinstance(runner, SshRunner)
    assert runner.settings.user == "dgx"
    assert not runner.is_local("localhost")
