"""The order in which the hosts of a command are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.cluster_manager import ClusterEdit, ClusterError, ClusterManager
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import HostsError, UsageError
from sparkrun.core.hosts import HostOptions, HostSelection, require_hosts, resolve_hosts
from sparkrun.utils.files import write_atomic


@pytest.fixture
def clusters(config: SparkrunConfig) -> ClusterManager:
    """A default cluster ``lab`` and another, ``home``."""
    manager = ClusterManager(config.paths)
    wiring = {"topology": "ring", "transfer_mode": "push", "cache_dir": "/mnt/hf"}
    manager.create("lab", ClusterEdit(values={"hosts": ["lab-1", "lab-2"], "user": "dgx", **wiring}))
    manager.create("home", ClusterEdit(values={"hosts": ["home-1"]}))
    manager.set_default("lab")
    return manager


def resolve(config: SparkrunConfig, *hosts: str, hosts_file: str | None = None, cluster: str | None = None) -> HostSelection:
    return require_hosts(HostOptions(hosts, hosts_file, cluster), config)


@pytest.mark.parametrize("hosts", [("a,b",), ("a, b",), ("a,b,",), ("a", "b")])
def test_named_hosts_win_and_take_nothing_from_the_default_cluster(
    config: SparkrunConfig, clusters: ClusterManager, hosts: tuple[str, ...]
) -> None:
    assert resolve(config, *hosts) == HostSelection(("a", "b"), "--hosts", None)


def test_a_cluster_beside_named_hosts_gives_its_user_and_not_its_wiring(config: SparkrunConfig, clusters: ClusterManager) -> None:
    found = resolve(config, "a", cluster="lab")

    assert found.hosts == ("a",)
    assert found.cluster is not None
    assert (found.cluster.user, found.cluster.topology, found.cluster.transfer_mode, found.cluster.cache_dir) == ("dgx", None, "auto", None)


def test_a_hosts_file_is_read_with_comments_and_lists(config: SparkrunConfig, clusters: ClusterManager, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("\ufeff# mine\na\nb, dgx@c:2222  # two\n\n", encoding="utf-8")

    assert resolve(config, hosts_file=str(file)).hosts == ("a", "b", "dgx@c:2222")


def test_a_bad_host_in_a_file_is_named_by_line(config: SparkrunConfig, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\n-b\n")

    with pytest.raises(UsageError, match=r"hosts:2: '-b' is not a host"):
        resolve(config, hosts_file=str(file))


def test_a_host_twice_in_a_file_is_refused(config: SparkrunConfig, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\nb\na\n")

    with pytest.raises(UsageError, match="hosts: host given twice: a"):
        resolve(config, hosts_file=str(file))


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_a_file_without_hosts_is_refused(config: SparkrunConfig, tmp_path: Path, text: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(text)

    with pytest.raises(HostsError, match="names no host"):
        resolve(config, hosts_file=str(file))


def test_a_file_that_is_not_there_is_refused(config: SparkrunConfig) -> None:
    with pytest.raises(HostsError, match="cannot read the hosts file /nowhere: No such file"):
        resolve(config, hosts_file="/nowhere")


def test_hosts_win_over_a_hosts_file_and_it_is_said(config: SparkrunConfig) -> None:
    assert resolve(config, "a", hosts_file="/nowhere").hosts == ("a",)
    assert config.warnings == ["--hosts-file /nowhere is not read: --hosts names the hosts"]


def test_a_named_cluster_wins_over_the_default(config: SparkrunConfig, clusters: ClusterManager) -> None:
    found = resolve(config, cluster="home")

    assert (found.hosts, found.origin) == (("home-1",), "cluster 'home'")


def test_the_default_cluster_is_used_whole(config: SparkrunConfig, clusters: ClusterManager) -> None:
    found = resolve(config)

    assert found.hosts == ("lab-1", "lab-2")
    assert found.cluster is not None
    assert found.cluster.topology == "ring"


def test_the_hosts_of_the_settings_come_last(config: SparkrunConfig) -> None:
    config.set("cluster.hosts", ["x", "y"])

    assert resolve(config).hosts == ("x", "y")


def test_nothing_is_an_error_that_says_how(config: SparkrunConfig) -> None:
    assert resolve_hosts(HostOptions(), config) is None
    with pytest.raises(HostsError, match="no hosts specified") as refused:
        resolve(config)
    assert refused.value.exit_code == 1
    assert "sparkrun cluster create" in (refused.value.hint or "")


@pytest.mark.parametrize("hosts", [("",), (",",), ("", " ")])
def test_a_host_list_without_a_host_is_refused(config: SparkrunConfig, clusters: ClusterManager, hosts: tuple[str, ...]) -> None:
    with pytest.raises(HostsError, match="--hosts names no host"):
        resolve(config, *hosts)


def test_an_unknown_cluster_is_refused_also_beside_hosts(config: SparkrunConfig, clusters: ClusterManager) -> None:
    with pytest.raises(ClusterError, match="'labb' not found"):
        resolve(config, "a", cluster="labb")


def test_a_stale_default_is_warned_about_and_passed_over(config: SparkrunConfig, clusters: ClusterManager) -> None:
    clusters.path("lab").unlink()
    config.set("cluster.hosts", ["x"])

    assert resolve(config).hosts == ("x",)
    assert config.warnings == ["the default cluster 'lab' does not exist any more; there is no default now"]


@pytest.mark.parametrize("hosts", ["[a, a]", "['-oX']"])
def test_bad_hosts_in_a_cluster_file_name_the_cluster(config: SparkrunConfig, hosts: str) -> None:
    write_atomic(config.paths.clusters_dir / "old.yaml", f"hosts: {hosts}\n")

    with pytest.raises(HostsError, match="cluster 'old': ") as refused:
        resolve(config, cluster="old")
    assert "sparkrun cluster update old" in (refused.value.hint or "")
