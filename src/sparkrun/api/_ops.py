"""Seeing, reading and stopping what runs."""

from __future__ import annotations

from collections.abc import Callable

from sparkrun.api._context import reach_remembered
from sparkrun.api._results import CheckResult, StatusReport, StoppedWorkload, StopResult
from sparkrun.api._workloads import Narrowing, NotFound, executor_of, find_workload, forget_gone, hosts_to_ask, observe_status
from sparkrun.core.bootstrap import Plugins
from sparkrun.core.cluster_status import ClusterStatus, State, Workload
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import HostUnreachableError, PluginError, StopFailedError, UnknownWorkloadError, UsageError
from sparkrun.core.events import Warn
from sparkrun.core.facts import Unreachable, WorkloadFacts
from sparkrun.core.hosts import HostOptions
from sparkrun.core.jobs import read_jobs, remove_job
from sparkrun.core.pending_ops import pending_ops
from sparkrun.core.remote import RemoteResult
from sparkrun.orchestration.apply import failure_text
from sparkrun.orchestration.executor import LogView
from sparkrun.orchestration.logs import LogLine, read_logs

STOP_TIMEOUT_S = 60
NOT_ASKED = "it was launched there too, and nobody asked it"
TRY_AGAIN = "stop it once more when they answer"


def status(hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> StatusReport:
    """What runs on the hosts, as they say themselves. A host that does not answer is in ``status.unreachable``. Raises ``HostsError``."""
    sctx = reach_remembered(hosts, sctx)
    selection = hosts_to_ask(hosts, sctx)
    seen = observe_status(selection, sctx)
    ids = {workload.cluster_id for workload in seen.workloads}
    jobs = {job.cluster_id: job for job in read_jobs(sctx.config.paths) if job.cluster_id in ids}
    cluster = selection.cluster.name if selection.cluster else None
    return StatusReport(seen, selection.origin, cluster, jobs, pending_ops(sctx.config.paths))


def stop(
    target: str, hosts: HostOptions = HostOptions(), *, only: Narrowing = Narrowing(), dry_run: bool = False, sctx: SparkrunContext
) -> StopResult:
    """Stop one workload and confirm on every host that it is gone; of one that has ended, remove what it left.

    ``target`` is an id, its first letters, a recipe, a model, a served name or a container's name; ``only`` tells apart what it may mean.
    With ``dry_run`` it is only found. Raises ``UnknownWorkloadError``,
    ``AmbiguousWorkloadError`` or ``StopFailedError``, which names each host that did not confirm.
    """
    sctx = reach_remembered(hosts, sctx)
    try:
        workload, seen = find_workload(target, hosts, sctx, ended=True, only=only)
    except NotFound as error:
        if not dry_run and not only.narrows and (gone := forget_gone(sctx, error.status, target)):
            return StopResult(tuple(StoppedWorkload(job.cluster_id, job.recipe, job.hosts, had_ended=True) for job in gone))
        raise
    return StopResult((_found(workload) if dry_run else _stop(workload, seen, sctx),), seen.unreachable)


def stop_all(hosts: HostOptions = HostOptions(), *, dry_run: bool = False, sctx: SparkrunContext) -> StopResult:
    """Stop every workload on the hosts, and remove what others left there; with ``dry_run`` only find them.

    Raises ``StopFailedError``, after stopping all that can be, when a host could not be asked or did not confirm.
    """
    sctx = reach_remembered(hosts, sctx)
    selection = hosts_to_ask(hosts, sctx)
    seen = observe_status(selection, sctx)
    if dry_run:
        return StopResult(tuple(map(_found, seen.workloads)), seen.unreachable)
    stopped, failures, hints = [], [], []
    for workload in seen.workloads:
        try:
            stopped.append(_stop(workload, seen, sctx))
        except StopFailedError as error:
            failures.append(error.message)
            hints.append(error.hint)
    forget_gone(sctx, seen)
    if seen.unreachable and not failures:
        failures.append(f"not known whether anything runs on {_named(seen.unreachable)}")
    if failures:
        told = [f"stopped {workload.recipe} ({workload.cluster_id}) on {', '.join(workload.hosts)}" for workload in stopped]
        raise StopFailedError("; ".join([*failures, *told]), hint="\n".join(dict.fromkeys(filter(None, hints))) or TRY_AGAIN)
    return StopResult(tuple(stopped))


def logs(
    target: str,
    on_line: Callable[[LogLine], None],
    hosts: HostOptions = HostOptions(),
    *,
    view: LogView = LogView(),
    sctx: SparkrunContext,
) -> Workload:
    """Hand on the serve log of a workload, also of one that has ended; with ``view.follow`` until its engine ends.

    Raises ``HostUnreachableError`` when the head, or with ``view.all_ranks`` any rank, may be on a host that did not answer; what there
    is of other ranks has been handed on by then.
    """
    sctx = reach_remembered(hosts, sctx)
    workload, seen = find_workload(target, hosts, sctx, ended=True)
    if not (view.all_ranks or workload.head_seen):
        where = f"; {_named(seen.unreachable)} may have it" if seen.unreachable else ""
        raise HostUnreachableError(
            f"the head of {workload.recipe} was not seen{where}", hint="the logs of its other ranks: sparkrun logs -a"
        )
    ranks, executor = workload.ranks if view.all_ranks else workload.ranks[:1], executor_of(workload, sctx)
    if view.since and not executor.dated_logs:
        raise UsageError(f"the log of {workload.recipe} has no times (executor {executor.plugin_name})", hint="-n N shows its last lines")
    lost = _lost_logs(workload, seen) if view.all_ranks else None
    if lost and view.follow:
        sctx.emit(Warn(lost))
    read_logs(ranks, executor, view, on_line, sctx.runner)
    if lost and not view.follow:
        raise HostUnreachableError(lost)
    return workload


def check_job(target: str, hosts: HostOptions = HostOptions(), *, check_http: bool = False, sctx: SparkrunContext) -> CheckResult:
    """Whether a workload runs with all its ranks, and with ``check_http`` whether it answers.

    A rank that was not seen does not count as running, and neither does an unknown workload; nothing is raised for them.
    """
    try:
        workload, seen = find_workload(target, hosts, reach_remembered(hosts, sctx), ended=True)
    except NotFound as error:
        return CheckResult(False, None, None, None, {}, (), unreachable=error.status.unreachable)
    except UnknownWorkloadError:
        return CheckResult(False, None, None, None, {}, ())
    metadata = next((job for job in read_jobs(sctx.config.paths) if job.cluster_id == workload.cluster_id), None)
    alive = not workload.missing and all(rank.alive for rank in workload.ranks)
    healthy = (alive and workload.state is State.READY) if check_http else None
    statuses = {rank.name: rank.alive for rank in workload.ranks}
    return CheckResult(alive, workload.cluster_id, healthy, metadata, statuses, workload.hosts, workload.missing, seen.unreachable)


def _lost_logs(workload: Workload, seen: ClusterStatus) -> str | None:
    """Which ranks have a log that cannot be read now, and where they may be."""
    if not workload.missing:
        return None
    where = f"; {_named(seen.unreachable)} may have it" if seen.unreachable else ""
    return f"{workload.missing} of {len(workload.ranks) + workload.missing} ranks of {workload.recipe} were not seen{where}"


def _stop(workload: Workload, seen: ClusterStatus, sctx: SparkrunContext) -> StoppedWorkload:
    executor, silent, asked = executor_of(workload, sctx), seen.unreachable, seen.hosts
    results: list[RemoteResult] = []
    for group in _stop_groups(workload, sctx):
        names = {host: tuple(rank.name for rank in group if rank.host == host) for host in dict.fromkeys(rank.host for rank in group)}
        results += sctx.runner.run_all([(host, executor.stop_call(own)) for host, own in names.items()], timeout_s=STOP_TIMEOUT_S)
    failures = {result.host: failure_text(result) for result in results if not result.ok}
    failures |= {host.host: host.reason for host in _may_run_on(silent, workload, executor.plugin_name, sctx)}
    failures |= {host: NOT_ASKED for host in workload.lacking if host not in asked}
    name = f"{workload.recipe or 'workload'} ({workload.cluster_id})"
    if failures:
        done = [host for host in workload.hosts if host not in failures]
        begin = f"{name} is stopped on {', '.join(done)}, but not confirmed on" if done else f"{name} is not confirmed stopped on"
        everywhere = f"sparkrun stop {workload.cluster_id} -H {','.join(dict.fromkeys((*workload.placed, *workload.hosts)))}"
        hint = everywhere if NOT_ASKED in failures.values() else TRY_AGAIN
        raise StopFailedError(f"{begin} {', '.join(f'{host} ({reason})' for host, reason in failures.items())}", hint=hint)
    remove_job(workload.cluster_id, sctx.config.paths)
    return _found(workload)


def _found(workload: Workload) -> StoppedWorkload:
    return StoppedWorkload(workload.cluster_id, workload.recipe, workload.hosts, had_ended=not workload.alive)


def _stop_groups(workload: Workload, sctx: SparkrunContext) -> tuple[tuple[WorkloadFacts, ...], ...]:
    """In the order its engine wants, as far as that is known here."""
    try:
        return Plugins(sctx.config).runtime(workload.runtime or "").stop_order(workload.ranks)
    except PluginError:
        return (workload.ranks,)


def _may_run_on(silent: tuple[Unreachable, ...], workload: Workload, executor: str, sctx: SparkrunContext) -> tuple[Unreachable, ...]:
    """Hosts that could not be asked and that a workload may have ranks on: those of its metadata, else any when it lacks ranks."""
    job = next((job for job in read_jobs(sctx.config.paths) if job.cluster_id == workload.cluster_id), None)
    return tuple(host for host in silent if host.executor in (None, executor) and (host.host in job.hosts if job else workload.missing > 0))


def _named(hosts: tuple[Unreachable, ...]) -> str:
    return ", ".join(f"{host.host} ({host.reason})" for host in hosts)
