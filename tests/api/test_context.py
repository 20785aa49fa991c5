from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkrun.api._context import make_context, reach, reach_remembered
from sparkrun.core.cluster_manager import ClusterEdit, ClusterManager
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import PluginError, SparkrunError
from sparkrun.core.hosts import HostOptions
from sparkrun.core.jobs import Job, write_job
from sparkrun.orchestration.ssh import SshRunner
from sparkrun.testing import FakeCluster

PLUGIN = """
from sparkrun.core.remote import RemoteResult
from sparkrun.transports import Transport


class Tunnel:
    def __init__(self, cluster):
        self.cluster = cluster


class TunnelTransport(Transport):
    plugin_name = "tunnel"

    def make_runner(self, config, cluster, emit=None):
        return Tunnel(cluster.name)
"""


def context(env: dict[str, str]) -> SparkrunContext:
    return make_context(env=env, cwd=Path("/"))


def save(sctx: SparkrunContext, name: str = "lab", **values: object) -> None:
    ClusterManager(sctx.config.paths).create(name, ClusterEdit(values={"hosts": ["spark-1"], **values}))  # type: ignore[dict-item]


def user_of(sctx: SparkrunContext) -> str | None:
    assert isinstance(sctx.runner, SshRunner)
    return sctx.runner.settings.user


def test_making_a_context_makes_no_file_and_starts_no_plugin(env: dict[str, str], tmp_path: Path) -> None:
    made = (
        "import os, sys\nfrom pathlib import Path\nfrom sparkrun.api._context import make_context, reach\n"
        "from sparkrun.core.hosts import HostOptions\n"
        "reach(HostOptions(hosts=('spark-1',)), make_context(env=dict(os.environ), cwd=Path('/')))\n"
        "print([name for name in sys.modules if name.startswith(('sparkrun.transports', 'scitrera', 'rich', 'concurrent'))])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", made],
        env={**env, "XDG_RUNTIME_DIR": str(tmp_path / "home"), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "[]\n", ended.stderr
    assert list((tmp_path / "home").iterdir()) == []


def test_the_user_of_a_named_cluster_is_used(env: dict[str, str]) -> None:
    sctx = context(env)
    save(sctx, user="dgx")
    assert user_of(reach(HostOptions(cluster="lab"), sctx)) == "dgx"


def test_the_user_of_the_default_cluster_is_used_unless_hosts_are_named(env: dict[str, str]) -> None:
    sctx = context(env)
    save(sctx, user="dgx")
    ClusterManager(sctx.config.paths).set_default("lab")
    assert user_of(reach(HostOptions(), sctx)) == "dgx"
    assert user_of(reach(HostOptions(hosts=("spark-9",)), sctx)) is None
    assert user_of(reach(HostOptions(hosts=("spark-9",), cluster="lab"), sctx)) == "dgx"


def test_a_cluster_that_says_nothing_changes_nothing(env: dict[str, str]) -> None:
    sctx = context(env)
    save(sctx)
    assert reach(HostOptions(cluster="lab"), sctx) is sctx
    assert reach(HostOptions(), sctx) is sctx


def test_hosts_in_memory_stay_in_memory(cluster: FakeCluster) -> None:
    sctx = cluster.sctx
    save(sctx, user="dgx")
    assert reach(HostOptions(cluster="lab"), sctx).runner is cluster


def test_an_unknown_cluster_is_an_error(env: dict[str, str]) -> None:
    with pytest.raises(SparkrunError, match="nope"):
        reach(HostOptions(cluster="nope"), context(env))


def test_an_unknown_transport_is_named(env: dict[str, str]) -> None:
    sctx = context(env)
    save(sctx, transport="carrier-pigeon")
    with pytest.raises(PluginError, match="no transport named 'carrier-pigeon'"):
        reach(HostOptions(cluster="lab"), sctx)


def test_a_cluster_is_reached_by_the_transport_it_names(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tunnel.py").write_text(PLUGIN)
    config = Path(env["HOME"]) / ".config/sparkrun/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"features: {{core.external_plugins: true}}\nplugins: {{paths: [{tmp_path}/tunnel.py]}}\n")
    sctx = context(env)
    save(sctx, transport="tunnel")
    runner = reach(HostOptions(cluster="lab"), sctx).runner
    assert (type(runner).__name__, vars(runner)) == ("Tunnel", {"cluster": "lab"})


def test_hosts_that_nobody_names_are_reached_as_the_user_of_their_last_launch(env: dict[str, str]) -> None:
    sctx = context(env)
    for number, (user, hosts) in enumerate((("old", ("a", "b")), ("new", ("b",)), (None, ("c",)))):
        job = Job(cluster_id=f"sparkrun_{number}_x", hosts=hosts, ssh_user=user, started_at=f"2026-01-0{number + 1}")
        write_job(job, sctx.config.paths)
    runner = reach_remembered(HostOptions(), sctx).runner
    assert isinstance(runner, SshRunner)
    assert {host: runner.settings.user_of(host) for host in "abc"} == {"a": "old", "b": "new", "c": None}
    named = reach_remembered(HostOptions(hosts=("a",)), sctx).runner
    assert isinstance(named, SshRunner)
    assert named.settings.user_of("a") is None
