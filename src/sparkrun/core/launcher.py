"""The launch pipeline: six phases over one plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from sparkrun.core.approval import needs_approval, require_approval
from sparkrun.core.cluster_status import Workload, join_workloads
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import (
    AlreadyRunningError,
    EngineDiedError,
    HostUnreachableError,
    LaunchFailedError,
    NotReadyError,
    StopFailedError,
)
from sparkrun.core.events import Detail, Done, EngineLine, Note, Phase, Step, Warn
from sparkrun.core.facts import HostFacts
from sparkrun.core.jobs import ensure_cache_writable, job_of, remove_job, write_job
from sparkrun.core.observation import assume_request, observe_request
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.planner import check_launchable, make_plan
from sparkrun.core.request import Request, resolve_request, tell_findings
from sparkrun.core.run_options import RunOptions
from sparkrun.orchestration.apply import Ledger, apply_stage, failure_text, undoing
from sparkrun.orchestration.executor import Executor, LogView
from sparkrun.orchestration.hooks import run_local_command
from sparkrun.orchestration.ready import EVIDENCE_TIMEOUT_S, Outcome, evidence_of, read_evidence, watch_ready

PHASES = 6
HOOK_LIMIT_S = 24 * 3600
"""A hook has its own limit on the host; this one only bounds a host that went silent."""
STOP_LIMIT_S = 60


class Launched(msgspec.Struct, frozen=True):
    """A workload that runs as planned, or already ran (``existing``). ``outcome`` is ``None`` when nobody waited."""

    plan: LaunchPlan
    outcome: Outcome | None = None
    existing: Workload | None = None
    log_lines: int = 0


def plan_inference(options: RunOptions, sctx: SparkrunContext) -> LaunchPlan:
    """What ``launch_inference`` would do. Looks at this machine only, unless ``options.probe``; changes nothing."""
    request = resolve_request(options, sctx, fetch=False)
    for action in needs_approval(request):
        sctx.emit(Note(f"would ask before running {action}"))
    facts = observe_request(request, sctx) if options.probe else assume_request(request, sctx)
    plan = make_plan(request, facts, sctx)
    tell_findings(request, sctx)
    return plan


def launch_inference(options: RunOptions, sctx: SparkrunContext) -> Launched:
    """Serve a recipe. Raises the first thing that is wrong, before any side effect where it can be known by then.

    A stage that fails, an engine that dies before it answers, and Ctrl-C all end with what was started undone,
    unless ``options.keep_on_failure``.
    """
    with _phase(sctx, 1, "Preparing"):
        request, facts, plan = _prepare(options, sctx)
        existing = _running_already(plan, facts)
    if existing:
        return _use_existing(existing, plan, request, sctx)
    check_launchable(plan, request, facts)
    _tell(plan, sctx)
    sctx.emit(Phase(2, PHASES, "Building image", "no builder"))
    sctx.emit(Phase(3, PHASES, "Distributing resources", "everything is in place"))
    sctx.emit(Phase(4, PHASES, "Syncing tuning configs", "none"))
    write_job(job_of(plan, cluster=request.cluster.name if request.cluster else None), sctx.config.paths)
    return _launch(plan, request, sctx)


def _prepare(options: RunOptions, sctx: SparkrunContext) -> tuple[Request, dict[str, HostFacts], LaunchPlan]:
    ensure_cache_writable(sctx.config.paths)
    request = resolve_request(options, sctx, fetch=True)
    require_approval(request, sctx)
    sctx.emit(Step(1, 2, f"look at {', '.join(request.selection.hosts)}"))
    facts = observe_request(request, sctx)
    sctx.emit(Step(2, 2, "plan the launch"))
    return request, facts, make_plan(request, facts, sctx)


def _launch(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> Launched:
    ledger = Ledger()
    completed = False
    try:
        with undoing(ledger, sctx.runner, sctx.emit, keep=request.options.keep_on_failure):
            with _phase(sctx, 5, f"Launching {plan.runtime} runtime"):
                _apply(plan, request.executor, ledger, sctx)
            launched = _wait(plan, request, sctx)
        completed = True
    finally:
        if not completed and not request.options.keep_on_failure:
            remove_job(plan.cluster_id, sctx.config.paths)
    if request.options.wait:
        _run_post_hooks(plan, request, sctx)
    return launched


def _apply(plan: LaunchPlan, executor: Executor, ledger: Ledger, sctx: SparkrunContext) -> None:
    for number, stage in enumerate(plan.stages, start=1):
        try:
            apply_stage(stage, Step(number, len(plan.stages), stage.title), ledger, sctx.runner, sctx.emit)
        except LaunchFailedError as error:
            raise LaunchFailedError(error.message + _last_words(plan, executor, sctx), hint=error.hint) from error


def _last_words(plan: LaunchPlan, executor: Executor, sctx: SparkrunContext) -> str:
    """The last lines of every rank that has said something."""
    results = sctx.runner.run_all([(rank.host, executor.evidence_call(rank.name)) for rank in plan.ranks], timeout_s=EVIDENCE_TIMEOUT_S)
    told = []
    for rank, result in zip(plan.ranks, results, strict=True):
        evidence = evidence_of(result)
        if result.ok and evidence.lines:
            code = f" (exit code {evidence.exit_code})" if evidence.exit_code is not None else ""
            told.append(f"\n  rank {rank.rank} on {rank.host}{code}:" + "".join(f"\n  | {line}" for line in evidence.lines))
    return "".join(told)


def _wait(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> Launched:
    if not request.options.wait:
        sctx.emit(Phase(6, PHASES, "Post-launch hooks", "not waiting"))
        return Launched(plan)
    with _phase(sctx, 6, "Post-launch hooks"):
        return _await_ready(plan, request.executor, sctx, stream=request.options.stream_log)


def _run_post_hooks(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> None:
    """What the recipe runs once it answers. A failure is told; the workload, which serves already, goes on."""
    for action in plan.post_exec:
        sctx.emit(Detail(action.title))
        result = sctx.runner.run(action.host, action.call, timeout_s=HOOK_LIMIT_S)
        if not result.ok:
            hint = f"the workload goes on; stop it with: sparkrun stop {plan.cluster_id}"
            raise LaunchFailedError(f"{action.title} failed: {failure_text(result)}", hint=hint)
    for command in plan.post_commands:
        sctx.emit(Detail(command.title))
        run_local_command(command, lambda line: sctx.emit(Detail(line)))
    if plan.stop_after_post:
        sctx.emit(Note("stopping, as the recipe says (stop_after_post)"))
        stops = [(rank.host, request.executor.stop_call((rank.name,))) for rank in plan.ranks]
        failed = [
            f"{result.host}: {failure_text(result)}" for result in sctx.runner.run_all(stops, timeout_s=STOP_LIMIT_S) if not result.ok
        ]
        if failed:
            raise StopFailedError(f"{plan.cluster_id} is not confirmed stopped on\n  " + "\n  ".join(failed))
        remove_job(plan.cluster_id, sctx.config.paths)


def _await_ready(plan: LaunchPlan, executor: Executor, sctx: SparkrunContext, *, stream: bool) -> Launched:
    assert plan.ready is not None
    sctx.emit(Step(1, 1, plan.ready.title))
    with _engine_log(plan, executor, sctx, wanted=stream) as seen:
        outcome = watch_ready(plan.ready, sctx.runner)
    if not outcome.ready:
        raise _not_ready(plan, outcome, executor, sctx)
    return Launched(plan, outcome, log_lines=seen[0])


def _not_ready(plan: LaunchPlan, outcome: Outcome, executor: Executor, sctx: SparkrunContext) -> LaunchFailedError | HostUnreachableError:
    rank = plan.head
    if outcome.unreachable:
        return HostUnreachableError(f"{rank.host} does not answer any more: {outcome.reason}")
    evidence = read_evidence(rank.host, executor.evidence_call(rank.name), sctx.runner)
    lines = "".join(f"\n  | {line}" for line in evidence.lines)
    if outcome.died:
        code = f" with exit code {evidence.exit_code}" if evidence.exit_code is not None else ""
        return EngineDiedError(
            f"the engine of rank {rank.rank} on {rank.host} ended{code} before it answered; its last lines:{lines}", hint=evidence.hint
        )
    return NotReadyError(f"{plan.endpoint} is not ready: {outcome.explain()}; the engine's last lines:{lines}", hint=outcome.hint())


def _running_already(plan: LaunchPlan, facts: dict[str, HostFacts]) -> Workload | None:
    """The same workload (same intent) living on one of the planned hosts."""
    seen = join_workloads(workload for host in plan.hosts for workload in facts[host].workloads)
    return next((workload for workload in seen if workload.alive and f"_{plan.intent_id}_" in workload.cluster_id), None)


def _use_existing(workload: Workload, plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> Launched:
    where = f"{plan.endpoint} ({workload.cluster_id} on {', '.join(workload.hosts)})"
    if not request.options.ensure:
        raise AlreadyRunningError(
            f"{plan.recipe} runs already: {where}",
            hint=f"use it as it is with --ensure, stop it with: sparkrun stop {workload.cluster_id}, or serve a second one with --port",
        )
    sctx.emit(Note(f"{plan.recipe} runs already: {where}"))
    if not request.options.wait:
        return Launched(plan, existing=workload)
    launched = _await_ready(plan, request.executor, sctx, stream=False)
    return msgspec.structs.replace(launched, existing=workload)


def _tell(plan: LaunchPlan, sctx: SparkrunContext) -> None:
    for note in plan.notes:
        sctx.emit(Note(note))
    for warning in plan.warnings:
        sctx.emit(Warn(warning))


@contextmanager
def _phase(sctx: SparkrunContext, number: int, title: str) -> Iterator[None]:
    sctx.emit(Phase(number, PHASES, title))
    started = time.monotonic()
    yield
    sctx.emit(Done(time.monotonic() - started))


@contextmanager
def _engine_log(plan: LaunchPlan, executor: Executor, sctx: SparkrunContext, *, wanted: bool) -> Iterator[list[int]]:
    """Emit the head's log lines meanwhile; the yielded list holds how many there were."""
    seen = [0]
    if not wanted:
        yield seen
        return
    stop = threading.Event()

    def show(text: str) -> None:
        seen[0] += 1
        sctx.emit(EngineLine(text))

    call = executor.logs_call(plan.head.name, LogView(follow=True))
    reader = threading.Thread(
        target=sctx.runner.stream, args=(plan.head.host, call, show), kwargs={"timeout_s": None, "stop": stop}, daemon=True
    )
    reader.start()
    try:
        yield seen
    finally:
        stop.set()
        reader.join(timeout=5)
