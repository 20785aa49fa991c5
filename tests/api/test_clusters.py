"""Saved clusters and scheduling for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.errors import PluginError
from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.testing import FakeCluster


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    """Two hosts with a GPU each, saved as the default cluster ``lab``."""
    fake = FakeCluster("spark-1", "spark-2", root=tmp_path / "home")
    for host in fake.hosts:
        fake[host].gpus = 1
    api.create_cluster("lab", api.ClusterEdit(values={"hosts": [*fake.hosts]}), sctx=fake.sctx)
    api.set_default_cluster("lab", sctx=fake.sctx)
    return fake


def test_clusters_are_made_changed_and_removed(two: FakeCluster) -> None:
    api.create_cluster("home", api.ClusterEdit(values={"hosts": ["a"]}), sctx=two.sctx)
    api.update_cluster("home", api.ClusterEdit(add_hosts=("b",)), sctx=two.sctx)

    good, broken = api.list_clusters(sctx=two.sctx)

    assert ([cluster.name for cluster in good], broken) == (["home", "lab"], ())
    assert api.get_cluster("home", sctx=two.sctx).hosts == ("a", "b")
    assert api.delete_cluster("lab", sctx=two.sctx)
    assert api.default_cluster(sctx=two.sctx) is None


def test_the_default_can_be_taken_away(two: FakeCluster) -> None:
    api.set_default_cluster(None, sctx=two.sctx)

    assert api.default_cluster(sctx=two.sctx) is None


def test_hardware_is_inferred_from_the_hosts_and_saved(two: FakeCluster) -> None:
    found = api.infer_hardware("lab", sctx=two.sctx)

    assert found.unreachable == ()
    assert {host: hardware.models for host, hardware in found.cluster.hardware.items()} == {"spark-1": ("gb10",), "spark-2": ("gb10",)}
    assert api.get_cluster("lab", sctx=two.sctx).hardware == found.cluster.hardware


def test_a_silent_host_keeps_what_was_known_and_is_told(two: FakeCluster) -> None:
    known = HostHardware((AcceleratorSpec("nvidia", "h100", 8, 80.0),))

    def probe(hosts: Sequence[str]) -> Mapping[str, HostHardware | api.Unreachable]:
        return dict.fromkeys(hosts, known)

    api.infer_hardware("lab", sctx=two.sctx, probe=probe)
    two["spark-2"].reachable = False

    found = api.infer_hardware("lab", sctx=two.sctx)

    assert [host.host for host in found.unreachable] == ["spark-2"]
    assert found.cluster.hardware["spark-1"].models == ("gb10",)
    assert found.cluster.hardware["spark-2"].models == ("h100",)


def test_an_inspection_asks_no_host(two: FakeCluster) -> None:
    found = api.inspect_cluster("lab", sctx=two.sctx)

    assert two.round_trips == 0
    assert (found.default, found.transfer_interface) == (True, "cx7")
    assert found.to_json()["scheduler_defaulted"] is True


def test_a_demand_is_placed_on_the_default_cluster(two: FakeCluster) -> None:
    placement = api.schedule(api.Demand(ranks=2), sctx=two.sctx)

    assert placement.slots == (api.Slot(0, "spark-1", (0,)), api.Slot(1, "spark-2", (0,)))
    assert placement.scheduler == "greedy"


def test_a_host_that_does_not_answer_is_passed_over(two: FakeCluster) -> None:
    two["spark-1"].reachable = False

    assert api.schedule(api.Demand(ranks=1), sctx=two.sctx).hosts == ("spark-2",)
    with pytest.raises(api.InsufficientCapacity, match="spark-1: observation_failed"):
        api.schedule(api.Demand(ranks=2), sctx=two.sctx)


def test_the_cluster_names_the_scheduler_and_the_caller_overrules_it(two: FakeCluster) -> None:
    api.update_cluster("lab", api.ClusterEdit(values={"scheduler": "occupancy-dense"}), sctx=two.sctx)

    assert api.schedule(api.Demand(ranks=1), sctx=two.sctx).scheduler == "occupancy-dense"
    assert api.schedule(api.Demand(ranks=1), scheduler="greedy", sctx=two.sctx).scheduler == "greedy"
    with pytest.raises(PluginError, match="no scheduler named 'greeedy'") as refused:
        api.schedule(api.Demand(ranks=1), scheduler="greeedy", sctx=two.sctx)
    assert refused.value.hint == "did you mean 'greedy'?"


def test_the_limits_of_the_cluster_count(two: FakeCluster) -> None:
    """A Spark offers 121 GiB where nobody measured, 0.9 of it by its platform."""
    demand = api.Demand(ranks=1, memory_gib=105.0)
    assert api.schedule(demand, sctx=two.sctx).hosts == ("spark-1",)

    api.update_cluster("lab", api.ClusterEdit(values={"max_gpu_memory_utilization": 0.5}), sctx=two.sctx)

    with pytest.raises(api.InsufficientCapacity, match=r"needs 105\.0 GiB, 60\.5 allowed"):
        api.schedule(demand, sctx=two.sctx)
