"""Tuning configs of a recipe's registry on their way into the containers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from sparkrun import api
from sparkrun.cli.plan_text import plan_text
from sparkrun.core.events import Phase, Warn
from sparkrun.testing import FakeCluster
from tests.registry_tree import put_registry

CONFIG = "E=8,N=512,device_name=NVIDIA_GB10.json"
RECIPE = "model: org/m\nruntime: vllm\ncontainer: org/e:1\ndefaults: {port: 8000, tensor_parallel: 1}\n"
FILES = {"recipes/r.yaml": RECIPE, f"tuning/vllm/{CONFIG}": "{}", "tuning/sglang/triton_3_5_0/x.json": "{1}"}


@pytest.fixture
def spark(tmp_path: Path) -> FakeCluster:
    """Two hosts that have all but tuning configs, and a registry that offers some."""
    put_registry(tmp_path, "reg", FILES)
    cluster = FakeCluster("spark-1", "spark-2", root=tmp_path)
    cluster.join()
    for host in cluster.by_name.values():
        host.gpus = 1
        host.models["org/m"] = "/hub/m"
    return cluster


def options(*hosts: str, recipe: str = "@reg/r", **changes: object) -> api.RunOptions:
    return api.RunOptions(recipe=recipe, hosts=api.HostOptions(hosts=hosts or ("spark-1",)), **changes)  # type: ignore[arg-type]


def probed(cluster: FakeCluster, *hosts: str, **changes: object) -> api.LaunchPlan:
    return api.plan(options(*hosts, probe=True, **changes), sctx=cluster.sctx)


def mounted(plan: api.LaunchPlan) -> dict[str, str]:
    """By target, the folders of the host that hold tuning configs."""
    return {mount.target: mount.source for rank in plan.ranks for mount in rank.mounts if "tuning" in mount.target}


def here(tmp_path: Path) -> Path:
    return tmp_path / ".cache/sparkrun/tuning/vllm"


def test_configs_go_from_the_registry_through_this_machine_to_the_host_and_into_the_container(spark: FakeCluster, tmp_path: Path) -> None:
    plan = probed(spark)
    assert not here(tmp_path).exists()
    result = api.run(options(), sctx=spark.sctx)

    assert result.ready
    assert (here(tmp_path) / CONFIG).read_text() == "{}"
    assert spark["spark-1"].tuning == {CONFIG: hashlib.sha256(b"{}").hexdigest()}
    assert mounted(plan) == {"/tuning/vllm": "/home/spark/.cache/sparkrun/tuning/vllm"}
    assert plan.head.env["VLLM_TUNED_CONFIG_FOLDER"] == "/tuning/vllm"
    (container,) = spark["spark-1"].docker.containers.values()
    assert "VLLM_TUNED_CONFIG_FOLDER=/tuning/vllm" in container.words
    assert [call for call in spark["spark-1"].ran if call.name == "tuning_receive"] == [
        action.call for stage in (plan.tuning.sends if plan.tuning else ()) for action in stage.actions
    ]
    assert "Tuning: 1 tuning config of vllm to spark-1" in plan_text(plan)


def test_sglang_has_its_own_configs_folder_and_variable(spark: FakeCluster, tmp_path: Path) -> None:
    put_registry(tmp_path, "reg", {"recipes/s.yaml": RECIPE.replace("vllm", "sglang")})
    plan = probed(spark, recipe="@reg/s")

    assert mounted(plan) == {"/tuning/sglang/configs": "/home/spark/.cache/sparkrun/tuning/sglang"}
    assert plan.head.env["SGLANG_MOE_CONFIG_DIR"] == "/tuning/sglang"
    assert plan.tuning is not None
    assert list(plan.tuning.copies) == ["triton_3_5_0/x.json"]


def test_only_what_has_changed_is_sent_and_only_to_whom_it_lacks(spark: FakeCluster, tmp_path: Path) -> None:
    put_registry(tmp_path, "reg", {"tuning/vllm/second.json": "{2}"})
    spark["spark-1"].tuning = {CONFIG: hashlib.sha256(b"{}").hexdigest(), "own.json": "f" * 64}
    two = ("spark-1", "spark-2")
    settings = {"tensor_parallel": 2}

    plan = probed(spark, *two, settings=settings)

    assert plan.tuning is not None
    sent = {action.host: action.call.feed[6:] for stage in plan.tuning.sends for action in stage.actions}
    assert sent == {"spark-1": ("second.json",), "spark-2": (CONFIG, "second.json")}
    api.run(options(*two, settings=settings), sctx=spark.sctx)
    assert "own.json" in spark["spark-1"].tuning
    assert probed(spark, *two, settings=settings).tuning == msgspec.structs.replace(plan.tuning, sends=(), copies={})


def test_a_second_launch_has_nothing_to_send(spark: FakeCluster) -> None:
    first = api.run(options(), sctx=spark.sctx)
    api.stop(first.cluster_id, api.HostOptions(hosts=("spark-1",)), sctx=spark.sctx)
    spark.events.clear()

    api.run(options(), sctx=spark.sctx)

    phase = next(event for event in spark.events if isinstance(event, Phase) and event.number == 4)
    assert phase.skipped == "nothing new"
    assert [call.name for call in spark["spark-1"].ran].count("tuning_receive") == 1


def test_our_copy_is_refreshed_an_edited_one_kept(spark: FakeCluster, tmp_path: Path) -> None:
    api.build(options(), sctx=spark.sctx)
    put_registry(tmp_path, "reg", {f"tuning/vllm/{CONFIG}": "{new}"})
    api.build(options(), sctx=spark.sctx)
    assert (here(tmp_path) / CONFIG).read_text() == "{new}"
    (here(tmp_path) / CONFIG).write_text("{mine}")
    put_registry(tmp_path, "reg", {f"tuning/vllm/{CONFIG}": "{newer}"})

    plan = probed(spark)
    api.build(options(), sctx=spark.sctx)

    assert (here(tmp_path) / CONFIG).read_text() == "{mine}"
    assert spark["spark-1"].tuning[CONFIG] == hashlib.sha256(b"{mine}").hexdigest()
    assert any(f"tuning configs edited on this machine stay as they are: {CONFIG}" in note for note in plan.notes)


def test_what_left_the_registry_leaves_the_hosts_too(spark: FakeCluster, tmp_path: Path) -> None:
    api.build(options("spark-1"), sctx=spark.sctx)
    api.build(options("spark-2"), sctx=spark.sctx)
    (tmp_path / ".cache/sparkrun/registries/reg/tuning/vllm" / CONFIG).unlink()
    spark["spark-2"].tuning["own.json"] = "f" * 64

    for host in spark.hosts:
        plan = probed(spark, host)
        api.build(options(host), sctx=spark.sctx)
        assert bool(mounted(plan)) == (host == "spark-2"), "its own is left there"

    assert (spark["spark-1"].tuning, list(spark["spark-2"].tuning)) == ({}, ["own.json"])


@pytest.mark.parametrize("runtime", ["llama-cpp", "trtllm"])
def test_other_engines_have_none(spark: FakeCluster, tmp_path: Path, runtime: str) -> None:
    put_registry(tmp_path, "reg", {"recipes/o.yaml": RECIPE.replace("vllm", runtime)})
    plan = probed(spark, recipe="@reg/o")

    assert (mounted(plan), plan.tuning and plan.tuning.skipped) == ({}, "none")


def test_only_the_recipes_own_registry_counts(spark: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RECIPE)
    put_registry(tmp_path, "bare", {"recipes/b.yaml": RECIPE})

    for recipe in ("@bare/b", str(tmp_path / "own.yaml")):
        assert mounted(probed(spark, recipe=recipe)) == {}


def test_what_a_host_has_already_is_mounted_whatever_is_synced(spark: FakeCluster) -> None:
    spark["spark-1"].tuning["own.json"] = "f" * 64

    plan = probed(spark, sync_tuning=False)

    assert "/tuning/vllm" in mounted(plan)
    assert plan.tuning is not None
    assert (plan.tuning.skipped, plan.tuning.sends) == ("--no-sync-tuning", ())


def test_a_cluster_can_switch_it_off(spark: FakeCluster, tmp_path: Path) -> None:
    clusters = tmp_path / ".config/sparkrun/clusters"
    clusters.mkdir(parents=True)
    (clusters / "lab.yaml").write_text("name: lab\nhosts: [spark-1]\ndistribution: {tuning: {enabled: false}}\n")

    plan = api.plan(api.RunOptions(recipe="@reg/r", hosts=api.HostOptions(cluster="lab"), probe=True), sctx=spark.sctx)

    assert (mounted(plan), plan.tuning and plan.tuning.skipped) == ({}, "cluster lab has them switched off")


def test_a_failure_is_a_warning_and_the_launch_goes_on(spark: FakeCluster) -> None:
    spark["spark-1"].refuse("tuning_receive", "/home/spark/.cache/sparkrun/tuning/vllm on spark-1 cannot be written")

    assert api.run(options(), sctx=spark.sctx).ready
    warnings = [event.text for event in spark.events if isinstance(event, Warn)]
    assert any(text.startswith("spark-1: tuning configs have not arrived, the engine may run without them: /home") for text in warnings)


def test_without_a_look_at_the_host_the_configs_are_planned_where_it_keeps_its_cache(spark: FakeCluster) -> None:
    plan = api.plan(options(), sctx=spark.sctx)

    assert mounted(plan) == {"/tuning/vllm": "~/.cache/sparkrun/tuning/vllm"}
    assert plan.tuning is not None
    assert plan.tuning.sends == ()
