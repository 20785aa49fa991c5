"""How the ranks of a launch are put together: pure functions from decided ranks to stages.

Ranks that are held at a gate have their containers started at once, then hooks run, and the stages open the gates; any other rank is
started by its stage. Either way a stage ends when its condition holds, never after a fixed time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sparkrun.core.placement import Placement
from sparkrun.core.plan import Guard, HostAction, RankPlan, Stage, Watch
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import Executor, ExecutorConfig, JobLabels
from sparkrun.runtimes.ranks import RankContext

RENDEZVOUS_TIMEOUT_S = 600
"""What an engine may take to import its libraries from a cold disk before it listens for its peers."""
RAY_JOIN_TIMEOUT_S = 420
RPC_TIMEOUT_S = 120
WATCH_SLACK_S = 15
"""What a watch may take beyond its own limit before the control side gives up on it."""


class PlanContext(msgspec.Struct, frozen=True, kw_only=True):
    """What stages are made of: everything is decided, nothing is touched."""

    ranks: tuple[RankPlan, ...]
    placement: Placement
    executor: Executor
    executor_config: ExecutorConfig
    labels: Mapping[int, JobLabels]
    """By rank."""
    contexts: tuple[RankContext, ...] = ()
    """Of each rank, in rank order; not needed for one rank."""
    hooks: tuple[Stage, ...] = ()
    """What runs in the containers before any engine does."""

    @property
    def head(self) -> RankPlan:
        """The rank that answers requests."""
        return self.ranks[0]

    @property
    def workers(self) -> tuple[RankPlan, ...]:
        """All others."""
        return self.ranks[1:]


def plan_solo(ctx: PlanContext) -> tuple[Stage, ...]:
    """One rank: start it."""
    return (*_prepared(ctx), _begun(ctx, (ctx.head,), f"start {ctx.head.name} on {ctx.head.host}"))


def plan_native(ctx: PlanContext, *, workers_wait: bool = False) -> tuple[Stage, ...]:
    """Ranks that find each other. They begin together, since a worker tries again until its head listens; an engine whose workers give
    up at once (``workers_wait``) has its head begin first, until it listens. Replicas of one process each need not find anybody.
    """
    if workers_wait and (listening := _rendezvous(ctx)):
        first = _begun(ctx, (ctx.head,), "start the head", listening)
        return (*_prepared(ctx), first, _begun(ctx, ctx.workers, "start the workers"))
    return (*_prepared(ctx), _begun(ctx, ctx.ranks, f"start {len(ctx.ranks)} ranks"))


def plan_rpc(ctx: PlanContext, port: int) -> tuple[Stage, ...]:
    """llama.cpp: the workers' servers first, until the head reaches each of them, then the head."""
    addresses = " ".join(rank.fast_address for rank in ctx.contexts[1:])
    reached = _wait(ctx.head.host, f"wait until {ctx.head.host} reaches {len(ctx.workers)} rpc servers on port {port}", "wait_port", {
        "HOST": addresses, "PORT": str(port), "TIMEOUT_S": str(RPC_TIMEOUT_S),
    })  # fmt: skip
    return (*_prepared(ctx), _begun(ctx, ctx.workers, "start the rpc servers", reached), _begun(ctx, (ctx.head,), "start the head"))


def plan_ray(ctx: PlanContext) -> tuple[Stage, ...]:
    """Ray: head and workers together, since a worker's command waits for its head, until all nodes have joined; the head's own command
    serves from then on.
    """
    joined = _wait(ctx.head.host, f"wait until {len(ctx.ranks)} Ray nodes have joined", "wait_ray", {
        "NODES": str(len(ctx.ranks)), "TIMEOUT_S": str(RAY_JOIN_TIMEOUT_S), **ctx.executor.watch_params(ctx.head.name),
    })  # fmt: skip
    return (*_prepared(ctx), _begun(ctx, ctx.ranks, f"start {len(ctx.ranks)} Ray nodes", joined))


def plan_mpi(ctx: PlanContext) -> tuple[Stage, ...]:
    """MPI: the head's ``mpirun`` starts the others' processes itself, so their containers have to be there before it."""
    return (*_prepared(ctx), _begun(ctx, ctx.workers, "start the workers"), _begun(ctx, (ctx.head,), "start the head"))


def stop_order(ranks: Sequence[RankPlan], *, independent: bool = False) -> tuple[tuple[RankPlan, ...], ...]:
    """Which ranks stop together, in order: the head first, so that nobody is served by half an engine. Independent replicas all at once."""
    if independent or len(ranks) == 1:
        return (tuple(ranks),)
    return (tuple(ranks[:1]), tuple(ranks[1:]))


def _prepared(ctx: PlanContext) -> tuple[Stage, ...]:
    """Everything before the first engine begins: the containers of ranks that wait at a gate, and the hooks in them."""
    waiting = [rank for rank in ctx.ranks if _gate(ctx, rank)]
    if not waiting:
        return ctx.hooks
    one = waiting[0]
    title = f"start {len(waiting)} containers" if len(waiting) > 1 else f"start the container {one.name} on {one.host}"
    return (Stage(title, tuple(_start(ctx, rank) for rank in waiting)), *ctx.hooks)


def _begun(ctx: PlanContext, ranks: Sequence[RankPlan], title: str, until: Watch | None = None) -> Stage:
    """The stage in which these engines begin."""
    guards = tuple(_guard(ctx, rank) for rank in ranks if rank.rank != ctx.head.rank)
    return Stage(title, tuple(_gate(ctx, rank) or _start(ctx, rank) for rank in ranks), until, guards)


def _guard(ctx: PlanContext, rank: RankPlan) -> Guard:
    """Whoever waits watches the head itself; every other rank has somebody stand by it."""
    call = ScriptCall("guard", {**ctx.executor.watch_params(rank.name), "LIFELINE": "1"})
    return Guard(rank.host, rank.rank, f"stand by rank {rank.rank} on {rank.host}", call)


def _gate(ctx: PlanContext, rank: RankPlan) -> HostAction | None:
    return ctx.executor.gate_action(rank, ctx.labels[rank.rank], ctx.executor_config)


def _start(ctx: PlanContext, rank: RankPlan) -> HostAction:
    return ctx.executor.start_action(rank, ctx.labels[rank.rank], ctx.executor_config)


def _rendezvous(ctx: PlanContext) -> Watch | None:
    """The head's replica has met at its port; ``None`` where a replica is one process."""
    head = ctx.contexts[0] if ctx.contexts else RankContext()
    if head.replica_nodes == 1:
        return None
    where = f"{head.master_address}:{head.master_port}"
    return _wait(ctx.head.host, f"wait until the head listens for its peers on {where}", "wait_port", {
        "HOST": head.master_address, "PORT": str(head.master_port), "TIMEOUT_S": str(RENDEZVOUS_TIMEOUT_S),
        **ctx.executor.watch_params(ctx.head.name),
    })  # fmt: skip


def _wait(host: str, title: str, script: str, params: Mapping[str, str]) -> Watch:
    return Watch(host, title, ScriptCall(script, dict(params)), float(params["TIMEOUT_S"]) + WATCH_SLACK_S)
