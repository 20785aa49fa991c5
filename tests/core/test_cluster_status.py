"""Ranks of several hosts as workloads: one that is not seen is missing, and nothing is whole without it."""

from __future__ import annotations

import pytest

from sparkrun.core.cluster_status import State, Workload, join_workloads
from sparkrun.core.facts import WorkloadFacts

CLUSTER = "sparkrun_0123456789abcdef_0123456789ab"


def rank(number: int, *, state: str = "running", of: int | None = 2) -> WorkloadFacts:
    labels: dict[str, str | int | float | bool | None] = {"rank": number, "recipe": "tiny"}
    if of is not None:
        labels["ranks"] = of
    return WorkloadFacts(
        host=f"spark-{number + 1}",
        name=f"{CLUSTER}_node_{number}",
        cluster_id=CLUSTER,
        state=state,
        executor="docker",
        labels=labels,
        port_open=True if number == 0 else None,
        health=200 if number == 0 else None,
    )


def joined(*ranks: WorkloadFacts) -> Workload:
    (workload,) = join_workloads(ranks)
    return workload


def test_all_ranks_are_seen() -> None:
    workload = joined(rank(1), rank(0))
    assert (workload.state, workload.missing, workload.head_seen) == (State.READY, 0, True)


@pytest.mark.parametrize("seen", [0, 1])
def test_a_rank_that_is_not_seen_is_missing(seen: int) -> None:
    workload = joined(rank(seen))
    assert (workload.state, workload.missing, workload.head_seen) == (State.PARTIAL, 1, seen == 0)


def test_what_has_ended_has_ended_whatever_is_missing() -> None:
    assert joined(rank(1, state="exited")).state is State.EXITED


def test_an_earlier_version_says_not_how_many_there_are() -> None:
    workload = joined(rank(0, of=None))
    assert (workload.state, workload.missing) == (State.READY, 0)


def test_a_container_that_docker_is_about_to_start_anew_lives() -> None:
    assert joined(rank(0, state="restarting", of=1)).alive
