"""How the ranks of a launch are put together: pure functions from decided ranks to stages.

Ranks that are held at a gate have their containers started at once, then hooks run, and the stages open the gates; any other rank is
started by its stage. What has to come before or after a start is waited for in the same session on the same host, never for a fixed time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from sparkrun.core.placement import Placement
from sparkrun.core.plan import Guard, HostAction, RankPlan, Stage
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import Executor, ExecutorConfig, JobLabels
from sparkrun.runtimes.ranks import RankContext

R = TypeVar("R")
"""A rank, as planned or as found."""
RENDEZVOUS_TIMEOUT_S = 600
"""What an engine may take to import its libraries from a cold disk before it listens for its peers."""
RPC_TIMEOUT_S = 120


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
    head = ctx.contexts[0] if ctx.contexts else RankContext()
    if not workers_wait or head.replica_nodes == 1:
        return (*_prepared(ctx), _begun(ctx, ctx.ranks, f"start {len(ctx.ranks)} ranks"))
    listening = {"HOST": head.master_address, "PORT": str(head.master_port), "TIMEOUT_S": str(RENDEZVOUS_TIMEOUT_S)}
    wait = ScriptCall("wait_port", {**listening, **ctx.executor.watch_params(ctx.head.name)})
    first = _begun(ctx, (ctx.head,), f"start the head, until it listens for its peers on {head.master_address}:{head.master_port}")
    (start,) = first.actions
    first = msgspec.structs.replace(first, actions=(_followed(start, wait, RENDEZVOUS_TIMEOUT_S),))
    return (*_prepared(ctx), first, _begun(ctx, ctx.workers, "start the workers"))


def plan_rpc(ctx: PlanContext, port: int) -> tuple[Stage, ...]:
    """llama.cpp: the workers' servers first; the head begins once its host reaches each of them."""
    addresses = " ".join(rank.fast_address for rank in ctx.contexts[1:])
    wait = ScriptCall("wait_port", {"HOST": addresses, "PORT": str(port), "TIMEOUT_S": str(RPC_TIMEOUT_S)})
    last = _begun(ctx, (ctx.head,), f"start the head, once it reaches {len(ctx.workers)} rpc servers on port {port}")
    (start,) = last.actions
    last = msgspec.structs.replace(last, actions=(_preceded(wait, start, RPC_TIMEOUT_S),))
    return (*_prepared(ctx), _begun(ctx, ctx.workers, "start the rpc servers"), last)


def plan_ray(ctx: PlanContext) -> tuple[Stage, ...]:
    """Ray: head and workers together, since a worker's command waits for its head, and the head's for all nodes before it serves."""
    return (*_prepared(ctx), _begun(ctx, ctx.ranks, f"start {len(ctx.ranks)} Ray nodes"))


def plan_mpi(ctx: PlanContext) -> tuple[Stage, ...]:
    """MPI: the head's ``mpirun`` starts the others' processes itself, so their containers have to be there before it."""
    return (*_prepared(ctx), _begun(ctx, ctx.workers, "start the workers"), _begun(ctx, (ctx.head,), "start the head"))


def stop_order(ranks: Sequence[R], *, independent: bool = False) -> tuple[tuple[R, ...], ...]:
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


def _begun(ctx: PlanContext, ranks: Sequence[RankPlan], title: str) -> Stage:
    """The stage in which these engines begin."""
    guards = tuple(_guard(ctx, rank) for rank in ranks if rank.rank != ctx.head.rank)
    return Stage(title, tuple(_gate(ctx, rank) or _start(ctx, rank) for rank in ranks), guards)


def _guard(ctx: PlanContext, rank: RankPlan) -> Guard:
    """Whoever waits watches the head itself; every other rank has somebody stand by it."""
    call = ScriptCall("guard", {**ctx.executor.watch_params(rank.name), "LIFELINE": "1"})
    return Guard(rank.host, rank.rank, f"stand by rank {rank.rank} on {rank.host}", call)


def _gate(ctx: PlanContext, rank: RankPlan) -> HostAction | None:
    return ctx.executor.gate_action(rank, ctx.labels[rank.rank], ctx.executor_config)


def _start(ctx: PlanContext, rank: RankPlan) -> HostAction:
    return ctx.executor.start_action(rank, ctx.labels[rank.rank], ctx.executor_config)


def _followed(action: HostAction, wait: ScriptCall, limit_s: float) -> HostAction:
    """The same action, which ends only when the wait after it has."""
    return msgspec.structs.replace(action, call=msgspec.structs.replace(action.call, then=wait), timeout_s=action.timeout_s + limit_s)


def _preceded(wait: ScriptCall, action: HostAction, limit_s: float) -> HostAction:
    """The same action, which begins only when the wait before it has ended."""
    return msgspec.structs.replace(action, call=msgspec.structs.replace(wait, then=action.call), timeout_s=action.timeout_s + limit_s)
