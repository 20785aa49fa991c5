from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.placement import Placement
from sparkrun.core.plan import HostAction, RankPlan, Stage
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import Executor, ExecutorConfig, JobLabels
from sparkrun.runtimes.ranks import Peer, RankContext
from sparkrun.runtimes.strategies import PlanContext, plan_mpi, plan_native, plan_ray, plan_rpc, plan_solo, stop_order

HOOK = Stage("run the hooks")


class Recorder(Executor):
    """Names what it would do."""

    plugin_name = "recorder"

    def start_action(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> HostAction:
        return HostAction(rank.host, f"start {labels.rank}", ScriptCall("start"), ScriptCall("stop"))

    def gate_action(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> HostAction | None:
        return HostAction(rank.host, f"open {labels.rank}", ScriptCall("open")) if rank.gated else None

    def watch_params(self, name: str) -> Mapping[str, str]:
        return {"WATCH_CONTAINER": name}


def context(count: int, *, gated: bool = False, hooks: tuple[Stage, ...] = (), nodes: int | None = None) -> PlanContext:
    """So many ranks, one a host, of replicas of ``nodes`` processes."""
    labels = {
        rank: JobLabels(
            cluster_id="job", intent_id="i", launch="l", recipe="r", recipe_ref="r", runtime="x", model="m", served_model_name="m",
            rank=rank, role="", host="",
        )
        for rank in range(count)
    }  # fmt: skip
    ranks = tuple(RankPlan(rank=n, host=f"h{n}", role="", name=f"job_{n}", command="c", gated=gated) for n in range(count))
    contexts = tuple(
        RankContext(
            rank=n, node_count=count, replica_nodes=nodes or count, address=f"10.0.0.{n}", master_address="10.0.0.0", master_port=25000,
            peers=tuple(Peer(address=f"10.0.0.{n}") for n in range(count)),
        )
        for n in range(count)
    )  # fmt: skip
    return PlanContext(
        ranks=ranks,
        placement=Placement((), "greedy"),
        executor=Recorder(),
        executor_config={},
        labels=labels,
        contexts=contexts,
        hooks=hooks,
    )


def told(stages: tuple[Stage, ...]) -> list[str]:
    """Each stage as its actions, each with all that runs in its session."""
    return [", ".join(_told(action) for action in stage.actions) or stage.title for stage in stages]


def _told(action: HostAction) -> str:
    names = [call.name for call in action.call.chain]
    return action.title + (f" by {' then '.join(names)}" if len(names) > 1 else "")


def test_one_rank_is_started() -> None:
    assert told(plan_solo(context(1))) == ["start 0"]


def test_one_rank_at_a_gate_has_its_hooks_between() -> None:
    assert told(plan_solo(context(1, gated=True, hooks=(HOOK,)))) == ["start 0", "run the hooks", "open 0"]


def test_native_ranks_begin_together() -> None:
    assert told(plan_native(context(3))) == ["start 0, start 1, start 2"]
    gated = plan_native(context(2, gated=True, hooks=(HOOK,)))
    assert told(gated) == ["start 0, start 1", "run the hooks", "open 0, open 1"]


def test_the_rendezvous_is_watched_on_the_head_s_host_and_notices_its_death() -> None:
    (start,) = plan_native(context(2), workers_wait=True)[0].actions
    assert (start.host, start.call.name, start.undo) == ("h0", "start", ScriptCall("stop"))
    assert start.call.then == ScriptCall("wait_port", {"HOST": "10.0.0.0", "PORT": "25000", "TIMEOUT_S": "600", "WATCH_CONTAINER": "job_0"})
    assert start.timeout_s > 600


def test_replicas_of_one_process_wait_for_nobody() -> None:
    assert told(plan_native(context(3, nodes=1), workers_wait=True)) == ["start 0, start 1, start 2"]


def test_workers_that_give_up_at_once_begin_after_their_head() -> None:
    assert told(plan_native(context(3), workers_wait=True)) == ["start 0 by start then wait_port", "start 1, start 2"]


def test_rpc_servers_are_reached_before_the_head_begins() -> None:
    stages = plan_rpc(context(3), 50052)
    assert told(stages) == ["start 1, start 2", "start 0 by wait_port then start"]
    (start,) = stages[1].actions
    assert (start.host, start.call.params["HOST"], start.call.params["PORT"]) == ("h0", "10.0.0.1 10.0.0.2", "50052")


def test_ray_nodes_begin_together() -> None:
    assert told(plan_ray(context(3))) == ["start 0, start 1, start 2"]


def test_mpi_finds_its_workers_there() -> None:
    assert told(plan_mpi(context(2))) == ["start 1", "start 0"]


def test_the_head_stops_first_and_independent_servers_together() -> None:
    ranks = context(3).ranks
    assert [[rank.rank for rank in group] for group in stop_order(ranks)] == [[0], [1, 2]]
    assert [[rank.rank for rank in group] for group in stop_order(ranks, independent=True)] == [[0, 1, 2]]
    assert stop_order(ranks[:1]) == (ranks[:1],)


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ("vllm-distributed", ["start 0, start 1"]),
        ("sglang", ["start 0, start 1"]),
        ("atlas", ["start 0 by start then wait_port", "start 1"]),
        ("tokenary", ["start 0 by start then wait_port", "start 1"]),
        ("vllm-ray", ["start 0, start 1"]),
        ("llama-cpp", ["start 1", "start 0 by wait_port then start"]),
        ("trtllm", ["start 1", "start 0"]),
    ],
)
def test_each_runtime_uses_its_strategy(plugins: Plugins, runtime: str, expected: list[str]) -> None:
    assert told(plugins.runtime(runtime).plan(context(2))) == expected
    assert told(plugins.runtime(runtime).plan(context(1))) == ["start 0"]


def test_names_of_containers(plugins: Plugins) -> None:
    ranks = context(2).contexts
    names = {
        name: [plugins.runtime(name).rank_name(Recorder(), "job", rank) for rank in ranks] for name in ("sglang", "vllm-ray", "llama-cpp")
    }
    assert names == {
        "sglang": ["job_node_0", "job_node_1"],
        "vllm-ray": ["job_head", "job_worker_1"],
        "llama-cpp": ["job_head", "job_worker_1"],
    }
    solo = msgspec.structs.replace(ranks[0], node_count=1)
    assert {plugins.runtime(name).rank_name(Recorder(), "job", solo) for name in names} == {"job_solo"}
