"""Reading a cluster file."""

from __future__ import annotations

import pytest

from sparkrun.core.cluster_manager import Cluster
from sparkrun.core.cluster_manager.keys import KEYS
from sparkrun.core.cluster_manager.model import read_cluster
from sparkrun.core.config import Settings
from sparkrun.core.errors import ConfigError
from sparkrun.core.hardware import AcceleratorSpec
from sparkrun.core.limits import MemoryCaps
from sparkrun.utils.yamlio import load_yaml

EVERY_KEY = """
name: mylab
hosts: [10.0.0.1, 10.0.0.2]
description: two sparks
user: dgx
cache_dir: /mnt/hf
sparkrun_cache_dir: /mnt/sr
transfer_mode: push
transfer_interface: mgmt
topology: ring
fabric_interfaces: ["*np1"]
mgmt_interface: enP7s7
env: {HF_ENDPOINT: "https://x", WORKERS: 4, FAST: true, TOKEN: "${MY_TOKEN}"}
env_file: ~/secrets.env
scheduler: occupancy-sparse
executor: docker
executor_config: {shm_size: 64gb}
runtime_cache: {enabled: true}
offline: true
max_gpu_memory_utilization: 0.9
accelerator_memory_limits: {gb10: 0.85}
distribution: {model: {enabled: true}}
hosts_hardware:
  10.0.0.1:
    accelerators: [{vendor: nvidia, model: gb10, count: 1, memory_gb: 119.7, max_gpu_memory_utilization: 0.8}]
    source: probed
sync_source: eugr-env
transport: fleet
provider_ref: {zone: 3}
plugins: {coldsnap: {on: true}}
"""


def read(text: str) -> Cluster:
    settings = load_yaml(text)
    assert isinstance(settings, dict)
    return read_cluster("mylab", settings, "mylab.yaml")


def test_every_documented_key_is_read() -> None:
    cluster = read(EVERY_KEY)

    assert cluster.warnings == ()
    assert cluster.hosts == ("10.0.0.1", "10.0.0.2")
    assert (cluster.user, cluster.cache_dir, cluster.sparkrun_cache_dir) == ("dgx", "/mnt/hf", "/mnt/sr")
    assert (cluster.transfer_mode, cluster.transfer_interface, cluster.topology) == ("push", "mgmt", "ring")
    assert (cluster.fabric_interfaces, cluster.mgmt_interface) == (("*np1",), "enP7s7")
    assert cluster.env == {"HF_ENDPOINT": "https://x", "WORKERS": "4", "FAST": "true", "TOKEN": "${MY_TOKEN}"}
    assert cluster.hardware["10.0.0.1"].accelerators == (AcceleratorSpec("nvidia", "gb10", 1, 119.7, max_gpu_memory_utilization=0.8),)
    assert cluster.memory_caps == MemoryCaps(models={"gb10": 0.85}, cluster=0.9)
    assert (cluster.offline, cluster.runtime_cache, cluster.transport, cluster.provider_ref) == (
        True,
        {"enabled": True},
        "fleet",
        {"zone": 3},
    )


def test_every_key_of_the_rules_is_a_field_of_a_cluster() -> None:
    assert set(KEYS) - {"hosts_hardware"} <= set(Cluster.__struct_fields__)


def test_a_file_with_hosts_alone_has_the_defaults() -> None:
    cluster = read("hosts: [a]")

    assert (cluster.transfer_mode, cluster.transfer_interface, cluster.transport, cluster.offline) == ("auto", "auto", "ssh", False)
    assert cluster.warnings == ()


@pytest.mark.parametrize("hosts", ["a, b", "a b"])
def test_hosts_as_one_text_are_read(hosts: str) -> None:
    assert read_cluster("x", {"hosts": hosts}, "x.yaml").hosts == ("a", "b")


@pytest.mark.parametrize("hosts", [3, [1, 2], {"a": 1}])
def test_hosts_that_are_no_list_are_refused(hosts: int | list[int] | dict[str, int]) -> None:
    settings: Settings = {"hosts": hosts}  # type: ignore[dict-item]

    with pytest.raises(ConfigError, match=r"x\.yaml: hosts must be a list"):
        read_cluster("x", settings, "x.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("transfer_mode: puush", "transfer_mode must be one of auto, local"),
        ("offline: maybe", "offline must be true or false"),
        ("max_gpu_memory_utilization: 90", "max_gpu_memory_utilization must be above 0 and at most 1"),
        ("accelerator_memory_limits: {gb10: 2}", "gb10 has 2"),
        ("env: [A]", "env must be a mapping of variables"),
        ("fabric_interfaces: [1]", "fabric_interfaces must be a list of texts"),
        ("executor_config: x", "executor_config must be a mapping"),
        ("hosts_hardware: {a: {accelerators: 3}}", "hosts_hardware.a.accelerators must be a list"),
        ("transfer_mod: push", "unknown key 'transfer_mod'; did you mean 'transfer_mode'?"),
        ("colour: red", "unknown key 'colour'; it is kept"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_is_read(text: str, told: str) -> None:
    cluster = read(f"hosts: [a]\nuser: dgx\n{text}")

    assert cluster.user == "dgx"
    assert len(cluster.warnings) == 1
    assert told in cluster.warnings[0]


def test_one_broken_host_of_the_hardware_hides_no_other() -> None:
    cluster = read("hosts: [a, b]\nhosts_hardware: {a: 3, b: {accelerators: [{vendor: amd, model: mi300x}]}}")

    assert list(cluster.hardware) == ["b"]


def test_a_cluster_without_a_scheduler_is_greedy_and_says_so() -> None:
    cluster = read("hosts: [a]")

    assert cluster.effective_scheduler == "greedy"
    assert "sparkrun cluster update mylab --scheduler occupancy-sparse" in (cluster.scheduler_hint or "")


def test_a_cluster_with_a_scheduler_needs_no_hint() -> None:
    cluster = read("hosts: [a]\nscheduler: greedy")

    assert (cluster.effective_scheduler, cluster.scheduler_hint) == ("greedy", None)


def test_beside_named_hosts_the_user_holds_and_the_wiring_does_not() -> None:
    cluster = read(EVERY_KEY).beside_named_hosts()

    assert (cluster.user, cluster.executor, cluster.scheduler, list(cluster.hardware)) == (
        "dgx",
        "docker",
        "occupancy-sparse",
        ["10.0.0.1"],
    )
    assert (cluster.transfer_mode, cluster.cache_dir, cluster.sparkrun_cache_dir, cluster.topology) == ("auto", None, None, None)
