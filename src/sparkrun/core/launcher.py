"""The launch pipeline: six phases over one plan."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec

from sparkrun.core.approval import needs_approval, require_approval
from sparkrun.core.backend_select import resolve_per_host_backends
from sparkrun.core.cluster_status import State, Workload, join_workloads
from sparkrun.core.context import SparkrunContext
from sparkrun.core.distribution import Failed, bring_in_rounds
from sparkrun.core.errors import (
    AlreadyRunningError,
    LaunchFailedError,
    SparkrunError,
    StopFailedError,
)
from sparkrun.core.events import Detail, Done, Note, Phase, Step, Warn
from sparkrun.core.facts import HostFacts, WorkloadFacts
from sparkrun.core.jobs import Job, ensure_cache_writable, job_of, remove_job, write_job
from sparkrun.core.memory_check import known_model
from sparkrun.core.observation import assume_request, observe_request, question_for
from sparkrun.core.plan import LaunchPlan, RankPlan, Stage
from sparkrun.core.planner import check_hosts, check_launchable, check_preparable, refuse_gaps
from sparkrun.core.preparing import build_images, plan_whole
from sparkrun.core.request import NO_BUILDER, Request, refuse_findings, resolve_request, tell_findings
from sparkrun.core.run_options import RunOptions
from sparkrun.core.tuning_plans import sync_tuning
from sparkrun.core.waiting import LaunchWait
from sparkrun.orchestration.apply import Ledger, check_stage, failure_text, undoing
from sparkrun.orchestration.claims import Claims, claiming
from sparkrun.orchestration.failures import keeping_failure
from sparkrun.orchestration.guards import guarding
from sparkrun.orchestration.hooks import hook_output, hook_text, run_local_command
from sparkrun.orchestration.launch_record import LaunchRecord
from sparkrun.orchestration.ready import Outcome

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
    request, facts = _resolve_and_look(options, sctx)
    return plan_whole(request, facts, sctx)


def plan_preparation(options: RunOptions, sctx: SparkrunContext) -> LaunchPlan:
    """What ``prepare_inference`` would do: the same launch, as if nothing ran on the hosts."""
    request, facts = _resolve_and_look(options, sctx)
    return plan_whole(request, _idle(facts), sctx)


def _resolve_and_look(options: RunOptions, sctx: SparkrunContext) -> tuple[Request, dict[str, HostFacts]]:
    request = _resolve(options, sctx, fetch=False)
    for action in needs_approval(request):
        sctx.emit(Note(f"would ask before running {action}"))
    facts = observe_request(request, sctx) if options.probe else assume_request(request, sctx)
    return known_model(request, facts, sctx, ask_hub=False), facts


def _resolve(options: RunOptions, sctx: SparkrunContext, *, fetch: bool) -> Request:
    """The request, with what checking the recipe finds told; an error of it stops here, before a host is contacted."""
    request = resolve_request(options, sctx, fetch=fetch)
    stopping = tell_findings(request, sctx)
    question_for(request)  # a command that cannot be written has an error of its own
    refuse_findings(stopping)
    return request


def prepare_inference(options: RunOptions, sctx: SparkrunContext) -> LaunchPlan:
    """What ``launch_inference`` does before the launch: build the image, bring image, model and tuning configs. Returns what was done.

    Neither claims the hosts nor minds what runs on them, so that it can be done while another model serves.
    """
    with _phase(sctx, 1, "Preparing"):
        ensure_cache_writable(sctx.config.paths)
        request = _resolve(options, sctx, fetch=True)
        require_approval(request, sctx)
        plan = _plan_idle(request, sctx)
        _tell(plan, sctx)
    done = plan
    if not plan.builds:
        sctx.emit(Phase(2, PHASES, "Building image", _nothing_built(request)))
    else:
        with _phase(sctx, 2, "Building image"):
            request = build_images(plan, request, sctx)
            done = _plan_idle(request, sctx)
    arrived = _bring(done, request, sctx)
    _sync_tuning(arrived, request, sctx)
    return msgspec.structs.replace(arrived, builds=plan.builds, transfers=done.transfers)


def _plan_idle(request: Request, sctx: SparkrunContext, failed: Failed | None = None) -> LaunchPlan:
    """The launch as if nothing ran on the hosts, checked as far as that does not matter."""
    facts = _idle(observe_request(request, sctx))
    plan = plan_whole(request, facts, sctx, failed)
    check = check_preparable if failed is None else check_hosts
    check(plan, request, facts)
    return plan


def _idle(facts: dict[str, HostFacts]) -> dict[str, HostFacts]:
    return {host: msgspec.structs.replace(seen, workloads=()) for host, seen in facts.items()}


def _bring(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> LaunchPlan:
    """Bring what is missing; the plan when all of it is there."""
    if not plan.transfers:
        sctx.emit(Phase(3, PHASES, "Distributing resources", "everything is in place"))
        return plan
    with _phase(sctx, 3, "Distributing resources"):
        arrived = bring_in_rounds(plan, _IdleLooking(request, sctx), sctx)
    refuse_gaps(arrived.gaps)
    return arrived


class _IdleLooking(NamedTuple):
    """How hosts on which nothing is to be launched are looked at while things are brought to them."""

    request: Request
    sctx: SparkrunContext

    def missing(self, seen: LaunchPlan) -> LaunchPlan:
        return seen

    def let_go(self) -> None:
        """They are not held."""

    def again(self, failed: Failed) -> LaunchPlan:
        return _plan_idle(self.request, self.sctx, failed)


def launch_inference(options: RunOptions, sctx: SparkrunContext, record: LaunchRecord | None = None) -> Launched:
    """Serve a recipe. Raises the first thing that is wrong, before any side effect where it can be known by then.

    A stage that fails, an engine that dies before it answers, and Ctrl-C all end with what was started undone,
    unless ``options.keep_on_failure``. What is seen on the way is written down in ``record``.
    """
    record = record or LaunchRecord()
    runner = sctx.runner
    sctx = msgspec.structs.replace(sctx, emit=record.listening(sctx.emit), make_runner=lambda: runner)
    with claiming(runner, sctx.emit) as claims:
        return _launch_claimed(options, claims, record, sctx)


class _Look(NamedTuple):
    """The request with what is known of its model, what was seen on the hosts, what that makes of it, and what runs of it already."""

    request: Request
    facts: dict[str, HostFacts]
    plan: LaunchPlan
    running: Workload | None

    def is_wanted(self, request: Request) -> bool:
        """Whether what runs is to be used as it is."""
        return self.running is not None and (request.options.ensure or _unchanged(self.running, self.plan))


def _launch_claimed(options: RunOptions, claims: Claims, record: LaunchRecord, sctx: SparkrunContext) -> Launched:
    with _phase(sctx, 1, "Preparing"):
        ensure_cache_writable(sctx.config.paths)
        request = _resolve(options, sctx, fetch=True)
        require_approval(request, sctx)
        sctx.emit(Step(1, 2, f"look at {', '.join(request.selection.hosts)}"))
        look = _look(request, claims, sctx, planning=Step(2, 2, "plan the launch"))
        request = look.request
        record.facts, record.plan = look.facts, look.plan
    if not look.is_wanted(request):
        check_launchable(look.plan, request, look.facts, look.running)
        _tell(look.plan, sctx)
        look, request = _built(look, request, claims, sctx)
        look = _distributed(look, request, claims, sctx)
    record.facts, record.plan = look.facts, look.plan
    if look.running and look.is_wanted(request):
        claims.release()
        return _use_existing(look.running, look.plan, request, record, sctx)
    _sync_tuning(look.plan, request, sctx)
    if look.running:
        _try_start(look.plan, look.running, request, sctx)
        _take_down(look.running, request, sctx)
    write_job(_job(look, request, sctx), sctx.config.paths)
    return _launch(look.plan, request, claims, record, sctx)


def _job(look: _Look, request: Request, sctx: SparkrunContext) -> Job:
    cluster = request.cluster
    hardware = {host: look.facts[host].believed_hardware for host in look.plan.hosts}
    return job_of(
        look.plan,
        cluster=cluster.name if cluster else None,
        ssh_user=(cluster.user if cluster else None) or sctx.config.text("ssh.user"),
        backends=resolve_per_host_backends(hardware),
    )


def _look(request: Request, claims: Claims, sctx: SparkrunContext, failed: Failed | None = None, planning: Step | None = None) -> _Look:
    """Claim the hosts and see them: what others have started by then is seen too."""
    facts = observe_request(request, sctx, claims)
    if planning:
        sctx.emit(planning)
    request = known_model(request, facts, sctx, ask_hub=True)
    plan = plan_whole(request, facts, sctx, failed)
    return _Look(request, facts, plan, _running_already(plan, facts))


def _built(look: _Look, request: Request, claims: Claims, sctx: SparkrunContext) -> tuple[_Look, Request]:
    """Make what is to be made. That may take hours too, after which the ranks may have another head, which needs the image as well."""
    if not look.plan.builds:
        sctx.emit(Phase(2, PHASES, "Building image", _nothing_built(request)))
        return look, request
    with _phase(sctx, 2, "Building image"):
        while look.plan.builds:
            claims.release()
            request = build_images(look.plan, request, sctx)
            look = _look(request, claims, sctx)
    if not look.is_wanted(request):
        check_launchable(look.plan, request, look.facts, look.running)
    return look, request


def _nothing_built(request: Request) -> str:
    return "no builder" if request.builder.plugin_name == NO_BUILDER else "nothing to build"


def _sync_tuning(plan: LaunchPlan, request: Request, sctx: SparkrunContext) -> None:
    tuning = plan.tuning
    if tuning is None or not tuning.work:
        sctx.emit(Phase(4, PHASES, "Syncing tuning configs", (tuning and tuning.skipped) or "nothing new"))
        return
    with _phase(sctx, 4, "Syncing tuning configs"):
        sync_tuning(request, tuning, sctx)


def _distributed(look: _Look, request: Request, claims: Claims, sctx: SparkrunContext) -> _Look:
    """Bring what is missing. That may take hours, in which others may launch: the hosts are looked at afresh afterwards."""
    if not look.plan.transfers:
        sctx.emit(Phase(3, PHASES, "Distributing resources", "everything is in place"))
        return look
    with _phase(sctx, 3, "Distributing resources"):
        fresh = bring_in_rounds(look, _Looking(request, claims, sctx), sctx)
    if not fresh.is_wanted(request):
        check_launchable(fresh.plan, request, fresh.facts, fresh.running)
    return fresh


class _Looking(NamedTuple):
    """How the hosts of a launch are looked at while things are brought to them."""

    request: Request
    claims: Claims
    sctx: SparkrunContext

    def missing(self, seen: _Look) -> LaunchPlan:
        return seen.plan

    def let_go(self) -> None:
        self.claims.release()

    def again(self, failed: Failed) -> _Look:
        return _look(self.request, self.claims, self.sctx, failed)


def _launch(plan: LaunchPlan, request: Request, claims: Claims, record: LaunchRecord, sctx: SparkrunContext) -> Launched:
    ledger = Ledger()
    completed = False
    try:
        with ExitStack() as last_phase, keeping_failure(record, sctx.config.paths):
            with undoing(ledger, sctx.runner, sctx.emit, keep=request.options.keep_on_failure), guarding(sctx.runner) as guards:
                wait = LaunchWait(plan, request.executor, guards, record, sctx)
                with _phase(sctx, 5, f"Launching {plan.runtime} runtime"):
                    wait.apply(ledger)
                claims.release()
                launched = _wait(plan, wait, request, last_phase, sctx)
            completed = True
            if record.thorough:
                wait.look_at_ranks()
            if request.options.wait:
                _run_post_hooks(plan, request, record, sctx)
    finally:
        if not completed and not request.options.keep_on_failure and not ledger.left:
            remove_job(plan.cluster_id, sctx.config.paths)
    return launched


def _wait(plan: LaunchPlan, wait: LaunchWait, request: Request, last_phase: ExitStack, sctx: SparkrunContext) -> Launched:
    if not request.options.wait:
        sctx.emit(Phase(6, PHASES, "Post-launch hooks", "not waiting"))
        return Launched(plan)
    last_phase.enter_context(_phase(sctx, 6, "Post-launch hooks"))
    assert plan.ready is not None
    sctx.emit(Step(1, _post_steps(plan), plan.ready.title))
    outcome, lines = wait.answer(stream=request.options.stream_log)
    return Launched(plan, outcome, log_lines=lines)


def _post_steps(plan: LaunchPlan) -> int:
    """The wait, and what follows it."""
    return 1 + len(plan.post_exec) + len(plan.post_commands) + int(plan.stop_after_post)


def _run_post_hooks(plan: LaunchPlan, request: Request, record: LaunchRecord, sctx: SparkrunContext) -> None:
    """What the recipe runs once it answers. A failure is told; the workload, which serves already, goes on."""
    if _post_steps(plan) > 1:
        sctx.emit(Note(f"ready: {plan.endpoint}"))
    number = itertools.count(2)
    for action in plan.post_exec:
        sctx.emit(Step(next(number), _post_steps(plan), action.title))
        result = sctx.runner.run(action.host, action.call, timeout_s=HOOK_LIMIT_S)
        if not result.ok:
            record.output = {action.host: hook_text(result.stdout)}
            hint = f"the workload goes on; stop it with: sparkrun stop {plan.cluster_id}"
            raise LaunchFailedError(f"{action.title} failed: {failure_text(result)}{hook_output(result.stdout)}", hint=hint)
    for command in plan.post_commands:
        sctx.emit(Step(next(number), _post_steps(plan), command.title))
        run_local_command(command, lambda line: sctx.emit(Detail(line)))
    if plan.stop_after_post:
        sctx.emit(Step(next(number), _post_steps(plan), "stop, as the recipe says (stop_after_post)"))
        _stop(plan.cluster_id, plan.ranks, request, sctx)
        remove_job(plan.cluster_id, sctx.config.paths)


def _stop(cluster_id: str, ranks: Iterable[RankPlan | WorkloadFacts], request: Request, sctx: SparkrunContext) -> None:
    failed = []
    for group in request.runtime.stop_order(tuple(ranks)):
        stops = [(rank.host, request.executor.stop_call((rank.name,))) for rank in group]
        failed += [
            f"{result.host}: {failure_text(result)}" for result in sctx.runner.run_all(stops, timeout_s=STOP_LIMIT_S) if not result.ok
        ]
    if failed:
        raise StopFailedError(f"{cluster_id} is not confirmed stopped on\n  " + "\n  ".join(failed))


def _try_start(plan: LaunchPlan, running: Workload, request: Request, sctx: SparkrunContext) -> None:
    """Raise ``StageFailedError`` for what hosts would not start, as long as ``running``, which is to be replaced, still runs."""
    actions = [
        msgspec.structs.replace(action, call=trial)
        for stage in plan.stages
        for action in stage.actions
        if (trial := request.executor.trial_call(action.call))
    ]
    try:
        check_stage(Stage(f"start {len(actions)} ranks", tuple(actions)), sctx.runner)
    except SparkrunError as error:
        error.hint = "\n".join(filter(None, (error.hint, f"{running.cluster_id} goes on as it was")))
        raise


def _take_down(running: Workload, request: Request, sctx: SparkrunContext) -> None:
    """End the older launch of a workload whose recipe or settings have changed since; by now the new one has passed every check."""
    sctx.emit(Note(f"replacing {running.cluster_id} on {', '.join(running.hosts)}: it was started with other settings"))
    _stop(running.cluster_id, [rank for rank in running.ranks if rank.alive], request, sctx)


def _unchanged(running: Workload, plan: LaunchPlan) -> bool:
    """Whether what runs is what is planned. Of one that does not say what it was made from, nobody can tell: it is left alone."""
    return running.state is not State.PARTIAL and running.digest in (None, "", plan.digest)


def _running_already(plan: LaunchPlan, facts: dict[str, HostFacts]) -> Workload | None:
    """The same workload (same intent) living on one of the planned hosts."""
    seen = join_workloads(workload for host in plan.hosts for workload in facts[host].workloads)
    return next((workload for workload in seen if workload.alive and f"_{plan.intent_id}_" in workload.cluster_id), None)


def _use_existing(workload: Workload, plan: LaunchPlan, request: Request, record: LaunchRecord, sctx: SparkrunContext) -> Launched:
    where = f"{plan.endpoint} ({workload.cluster_id} on {', '.join(workload.hosts)})"
    if not request.options.ensure:
        raise AlreadyRunningError(
            f"{plan.recipe} runs already: {where}",
            hint=f"use it as it is with --ensure, stop it with: sparkrun stop {workload.cluster_id}, or serve a second one with --port",
        )
    sctx.emit(Note(f"{plan.recipe} runs already: {where}"))
    if not request.options.wait:
        return Launched(plan, existing=workload)
    with guarding(sctx.runner) as guards, _phase(sctx, 6, "Post-launch hooks"):
        assert plan.ready is not None
        sctx.emit(Step(1, 1, plan.ready.title))
        outcome, _lines = LaunchWait(plan, request.executor, guards, record, sctx).answer(stream=False)
    return Launched(plan, outcome, existing=workload)


def _tell(plan: LaunchPlan, sctx: SparkrunContext) -> None:
    if plan.memory:
        for line in (plan.memory.line, *plan.memory.warnings):
            sctx.emit(Note(line))
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
