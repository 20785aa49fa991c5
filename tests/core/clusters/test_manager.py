"""Cluster files: made, changed, removed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sparkrun.core.cluster_manager import ClusterEdit, ClusterError, ClusterManager
from sparkrun.core.errors import ConfigError, UsageError
from sparkrun.core.paths import Paths
from sparkrun.core.values import ConfigValue
from sparkrun.utils.yamlio import load_yaml


def edit(**values: ConfigValue) -> ClusterEdit:
    return ClusterEdit(values={"hosts": ["a", "b"], **values})


def text_of(manager: ClusterManager, name: str) -> dict[str, object]:
    value = load_yaml(manager.path(name).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def put(manager: ClusterManager, name: str, text: str) -> Path:
    path = manager.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_created_cluster_is_read_back(manager: ClusterManager) -> None:
    manager.create("lab", edit(user="dgx", topology="ring"))

    cluster = manager.load("lab")
    assert (cluster.hosts, cluster.user, cluster.topology) == (("a", "b"), "dgx", "ring")


def test_only_what_is_no_default_is_written(manager: ClusterManager) -> None:
    manager.create("lab", edit(transfer_mode="auto", transfer_interface="auto", offline=False, description="", scheduler="greedy", user=""))

    assert text_of(manager, "lab") == {"name": "lab", "hosts": ["a", "b"], "scheduler": "greedy"}


def test_the_file_is_private_and_nothing_else_lies_beside_it(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    path = manager.path("lab")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [child.name for child in path.parent.iterdir()] == ["lab.yaml"]


@pytest.mark.parametrize("name", ["", "-lab", "a/b", "../x", "a b", ".lab", "lab.manifest"])
def test_a_name_that_is_no_file_name_is_refused(manager: ClusterManager, name: str) -> None:
    with pytest.raises(ClusterError, match="cannot be the name of a cluster") as refused:
        manager.create(name, edit())

    assert refused.value.exit_code == 1


def test_a_taken_name_is_refused_and_the_file_stays(manager: ClusterManager) -> None:
    manager.create("lab", edit(user="dgx"))

    with pytest.raises(ClusterError, match="exists already"):
        manager.create("lab", edit())
    assert manager.load("lab").user == "dgx"


def test_a_cluster_needs_a_host(manager: ClusterManager) -> None:
    with pytest.raises(ClusterError, match="would have no host"):
        manager.create("lab", ClusterEdit(values={"user": "dgx"}))

    assert manager.names() == ()


@pytest.mark.parametrize("hosts", [["a", "a"], ["-x"], ["a;b"]])
def test_bad_hosts_are_refused_before_anything_is_written(manager: ClusterManager, hosts: list[str]) -> None:
    with pytest.raises(UsageError):
        manager.create("lab", ClusterEdit(values={"hosts": [*hosts]}))

    assert manager.names() == ()


def test_an_update_keeps_unknown_keys_and_the_order_of_the_file(manager: ClusterManager) -> None:
    put(manager, "lab", "hosts: [a]\nfuture_key: {x: 1}\nuser: old\n")

    manager.update("lab", ClusterEdit(values={"user": "new", "topology": "ring"}))

    assert text_of(manager, "lab") == {"hosts": ["a"], "future_key": {"x": 1}, "user": "new", "name": "lab", "topology": "ring"}
    assert list(text_of(manager, "lab"))[:3] == ["hosts", "future_key", "user"]


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_value_clears_a_key(manager: ClusterManager, empty: str | None) -> None:
    manager.create("lab", edit(user="dgx", scheduler="greedy"))

    manager.update("lab", ClusterEdit(values={"user": empty, "scheduler": empty}))

    assert text_of(manager, "lab") == {"name": "lab", "hosts": ["a", "b"]}


def test_an_update_without_a_wish_is_refused(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    with pytest.raises(ClusterError, match="nothing to change") as refused:
        manager.update("lab", ClusterEdit())
    assert refused.value.exit_code == 1


def test_hosts_are_added_and_removed(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    saved = manager.update("lab", ClusterEdit(add_hosts=("c", "d"), remove_hosts=("a", "zz")))

    assert saved.cluster.hosts == ("b", "c", "d")
    assert saved.warnings == ("zz is no host of this cluster, so it is not removed",)


def test_a_host_is_removed_by_any_of_its_spellings(manager: ClusterManager) -> None:
    manager.create("lab", ClusterEdit(values={"hosts": ["dgx@a:22", "b"]}))

    assert manager.update("lab", ClusterEdit(remove_hosts=("A",))).cluster.hosts == ("b",)


def test_a_host_that_is_there_is_not_added_again(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    with pytest.raises(UsageError, match="host given twice: a and dgx@a"):
        manager.update("lab", ClusterEdit(add_hosts=("dgx@a",)))


def test_the_last_host_is_not_removed(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    with pytest.raises(ClusterError, match="would have no host"):
        manager.update("lab", ClusterEdit(remove_hosts=("a", "b")))
    assert manager.load("lab").hosts == ("a", "b")


def test_a_removed_host_takes_its_hardware_along(manager: ClusterManager) -> None:
    manager.create("lab", edit(hosts_hardware={"a": {"accelerators": []}, "b": {"accelerators": []}}))

    manager.update("lab", ClusterEdit(remove_hosts=("a",)))

    assert text_of(manager, "lab")["hosts_hardware"] == {"b": {"accelerators": []}}


def test_entries_are_merged_into_a_mapping_and_taken_out_of_it(manager: ClusterManager) -> None:
    manager.create("lab", edit(executor_config={"shm_size": "32gb", "ipc": "host"}))

    manager.update("lab", ClusterEdit(merge={"executor_config": {"ipc": None, "memory": "8g"}}))

    assert manager.load("lab").executor_config == {"shm_size": "32gb", "memory": "8g"}


def test_a_mapping_that_becomes_empty_is_not_written(manager: ClusterManager) -> None:
    manager.create("lab", edit(env={"A": "1"}))

    manager.update("lab", ClusterEdit(merge={"env": {"A": None}}))

    assert "env" not in text_of(manager, "lab")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"transfer_mode": "puush"}, "transfer_mode must be one of"),
        ({"topology": "star"}, "topology must be one of direct, switch, ring"),
        ({"max_gpu_memory_utilization": 90.0}, "above 0 and at most 1"),
        ({"transfer_mod": "push"}, "a cluster has no key 'transfer_mod'"),
    ],
)
def test_a_value_that_cannot_be_is_refused(manager: ClusterManager, values: dict[str, ConfigValue], told: str) -> None:
    manager.create("lab", edit())

    with pytest.raises(ClusterError, match=told):
        manager.update("lab", ClusterEdit(values=values))


def test_a_share_in_percent_is_told_as_a_fraction(manager: ClusterManager) -> None:
    with pytest.raises(ClusterError) as refused:
        manager.create("lab", edit(max_gpu_memory_utilization=90))

    assert refused.value.hint == "90 % is 0.9"


def test_a_limit_for_a_model_that_no_host_has_is_warned_about(manager: ClusterManager) -> None:
    spec = "{accelerators: [{vendor: nvidia, model: gb10}]}"
    put(manager, "lab", f"name: lab\nhosts: [a]\naccelerator_memory_limits: {{gb10: 0.8, gb-10: 0.7}}\nhosts_hardware: {{a: {spec}}}\n")

    warnings = manager.load("lab").warnings

    assert len(warnings) == 1
    assert "accelerator_memory_limits.gb-10 holds for no accelerator here (gb10); did you mean 'gb10'?" in warnings[0]


def test_a_secret_in_the_open_is_warned_about(manager: ClusterManager) -> None:
    manager.create("lab", edit())

    saved = manager.update("lab", ClusterEdit(merge={"env": {"HF_TOKEN": "hf_x", "GH_TOKEN": "${GH}", "A": "1"}}))

    assert len(saved.warnings) == 1
    assert "HF_TOKEN" in saved.warnings[0]
    assert "hf_x" not in saved.warnings[0]


def test_an_unknown_cluster_is_answered_with_the_nearest_and_all_names(manager: ClusterManager) -> None:
    manager.create("lab", edit())
    manager.create("home", edit())

    with pytest.raises(ClusterError, match="cluster 'labb' not found") as refused:
        manager.load("labb")
    assert refused.value.hint == "did you mean 'lab'? available clusters: home, lab"


def test_a_broken_file_is_named_by_line_and_hides_no_other(manager: ClusterManager) -> None:
    manager.create("good", edit())
    put(manager, "bad", "hosts: [a\nuser: x\n")

    good, broken = manager.load_all()

    assert [cluster.name for cluster in good] == ["good"]
    assert [bad.name for bad in broken] == ["bad"]
    assert "bad.yaml:2:" in broken[0].reason


def test_manifests_and_other_files_are_no_clusters(manager: ClusterManager) -> None:
    manager.create("lab", edit())
    put(manager, "lab.manifest", "version: 1")

    assert manager.names() == ("lab",)


def test_the_default_is_set_and_unset(manager: ClusterManager) -> None:
    manager.create("lab", edit())
    manager.set_default("lab")

    found = manager.default()
    assert found is not None
    assert found.name == "lab"
    assert manager.unset_default() == "lab"
    assert manager.default() is None
    assert manager.unset_default() is None


def test_an_unknown_cluster_cannot_be_the_default(manager: ClusterManager) -> None:
    with pytest.raises(ClusterError, match="'lab' not found"):
        manager.set_default("lab")


def test_a_default_whose_file_is_gone_is_forgotten_with_a_warning(manager: ClusterManager, paths: Paths) -> None:
    manager.create("lab", edit())
    manager.set_default("lab")
    manager.path("lab").unlink()

    assert manager.default() is None
    assert manager.warnings == ["the default cluster 'lab' does not exist any more; there is no default now"]
    assert ClusterManager(paths).default() is None
    assert ClusterManager(paths).warnings == []


@pytest.mark.parametrize("text", ["", "\n", "../../etc/passwd"])
def test_a_default_file_that_names_nothing_is_no_default(manager: ClusterManager, paths: Paths, text: str) -> None:
    paths.clusters_dir.mkdir(parents=True)
    (paths.clusters_dir / ".default").write_text(text)

    assert manager.default_name() is None


def test_deleting_the_default_leaves_none(manager: ClusterManager) -> None:
    manager.create("lab", edit())
    manager.create("home", edit())
    manager.set_default("lab")

    assert manager.delete("lab")
    assert manager.names() == ("home",)
    assert manager.default_name() is None
    assert not manager.delete("home")


def test_a_broken_file_can_be_deleted(manager: ClusterManager) -> None:
    put(manager, "bad", "hosts: [")

    manager.delete("bad")

    assert manager.names() == ()


def test_deleting_keeps_what_setup_recorded(manager: ClusterManager) -> None:
    manager.create("lab", edit())
    record = put(manager, "lab.manifest", "version: 1")

    manager.delete("lab")

    assert record.exists()


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(paths: Paths) -> None:
    paths.config_dir.parent.mkdir(parents=True, exist_ok=True)
    paths.config_dir.write_text("in the way")

    with pytest.raises(ConfigError, match="cannot write"):
        ClusterManager(paths).create("lab", edit())


def test_a_preview_writes_nothing(manager: ClusterManager) -> None:
    assert manager.preview("lab", edit()).cluster.hosts == ("a", "b")
    assert manager.names() == ()
