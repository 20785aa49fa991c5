"""Launches on two hosts: a worker that ends while the head still loads, and a model that cannot be shared out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.errors import EngineDiedError
from sparkrun.testing import FakeCluster
from tests.api.two_hosts import two_hosts

RECIPE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2}\n"


def run(two: FakeCluster, tmp_path: Path) -> api.RunResult:
    return api.run(api.RunOptions(recipe=str(tmp_path / "r.yaml"), hosts=api.HostOptions(hosts=("a,b",))), sctx=two.sctx)


def test_a_worker_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    two = two_hosts(tmp_path, RECIPE)
    two["b"].dies_with = 7
    two["b"].engine_log = ["boom"]
    with pytest.raises(EngineDiedError, match="rank 1 on b ended with exit code 7") as caught:
        run(two, tmp_path)
    assert "| boom" in caught.value.message
    assert not [container for host in two.by_name.values() for container in host.docker.containers.values() if container.alive]


def test_heads_that_the_ranks_cannot_share_are_refused_with_the_choices(tmp_path: Path) -> None:
    two = two_hosts(tmp_path, RECIPE)
    two["a"].attention_heads = 9
    with pytest.raises(api.PlacementError, match="tensor_parallel 2 does not divide 9 attention heads") as caught:
        run(two, tmp_path)
    assert "1, 3" in f"{caught.value.message} {caught.value.hint}"


def test_a_name_that_only_ssh_knows_is_answered_by_its_address(tmp_path: Path) -> None:
    two = two_hosts(tmp_path, RECIPE)
    two.only_ssh_knows.add("a")
    assert run(two, tmp_path).endpoint == "http://10.0.0.1:8000/v1"


def test_a_name_that_is_known_stays(tmp_path: Path) -> None:
    assert run(two_hosts(tmp_path, RECIPE), tmp_path).endpoint == "http://a:8000/v1"


def test_the_head_stops_before_its_workers(tmp_path: Path) -> None:
    two = two_hosts(tmp_path, RECIPE)
    job = run(two, tmp_path).cluster_id
    alive = []
    two["a"].on(
        "docker_stop", lambda: alive.append("b still runs" if any(each.alive for each in two["b"].docker.containers.values()) else "")
    )
    api.stop(job, api.HostOptions(("a,b",)), sctx=two.sctx)
    assert alive == ["b still runs"]
    assert not two["b"].docker.containers
