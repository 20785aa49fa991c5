"""A workload whose settings have changed is replaced once every host would take the new one, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.events import Note
from sparkrun.testing import FakeCluster
from tests.api.two_hosts import two_hosts

RECIPE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2}\n"


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    return two_hosts(tmp_path, RECIPE)


def launch(two: FakeCluster, **options: object) -> api.RunResult:
    wanted = api.RunOptions(recipe=str(two.root / "r.yaml"), hosts=api.HostOptions(hosts=("a,b",)), **options)  # type: ignore[arg-type]
    return api.run(wanted, sctx=two.sctx)


def ids(two: FakeCluster) -> list[str]:
    return [container.id for host in two.by_name.values() for container in host.docker.containers.values() if container.alive]


def test_what_a_host_would_not_start_replaces_nothing(two: FakeCluster) -> None:
    first = launch(two)
    before = ids(two)
    two["b"].docker.refuses = lambda words: "unknown flag: --nope" if "--nope" in words else None

    with pytest.raises(api.SparkrunError, match=r"^start rank 1 on b failed: docker on b: unknown flag: --nope$") as refused:
        launch(two, executor_args=("--nope",))

    assert ids(two) == before
    assert len(before) == 2
    assert refused.value.hint == f"{first.cluster_id} goes on as it was"
    assert api.status(api.HostOptions(hosts=("a,b",)), sctx=two.sctx).status.workloads[0].state is api.State.READY


def test_what_every_host_would_start_replaces_it(two: FakeCluster) -> None:
    first = launch(two)
    before = ids(two)
    launch(two, env={"A": "b"})

    assert len(ids(two)) == 2
    assert not set(ids(two)) & set(before)
    assert Note(f"replacing {first.cluster_id} on a, b: it was started with other settings") in two.events


def test_a_launch_that_replaces_nothing_tries_nothing(two: FakeCluster) -> None:
    launch(two)

    assert not [call for host in two.by_name.values() for call in host.ran if call.params.get("TRIAL")]
