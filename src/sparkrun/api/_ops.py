"""Seeing, reading and stopping what runs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sparkrun.api._context import reach
from sparkrun.api._results import CheckResult, StatusReport, StoppedWorkload, StopResult
from sparkrun.api._workloads import executor_of, find_workload, hosts_to_ask, observe_status
from sparkrun.core.cluster_status import State, Workload
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import HostUnreachableError, StopFailedError, UnknownWorkloadError
from sparkrun.core.facts import Unreachable, WorkloadFacts
from sparkrun.core.hosts import HostOptions
from sparkrun.core.jobs import read_jobs, remove_job
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.executor import LogView
from sparkrun.orchestration.streams import Stream, stream_all

STOP_TIMEOUT_S = 60
READ_TIMEOUT_S = 60


class LogLine(msgspec.Struct, frozen=True):
    """A line of a serve log and the rank it came from."""

    rank: str
    text: str


def status(hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> StatusReport:
    """What runs on the hosts, as they say themselves. A host that does not answer is in ``status.unreachable``. Raises ``HostsError``."""
    sctx = reach(hosts, sctx)
    selection = hosts_to_ask(hosts, sctx)
    seen = observe_status(selection, sctx)
    ids = {workload.cluster_id for workload in seen.workloads}
    jobs = {job.cluster_id: job for job in read_jobs(sctx.config.paths) if job.cluster_id in ids}
    return StatusReport(seen, selection.origin, selection.cluster.name if selection.cluster else None, jobs)


def stop(target: str, hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> StopResult:
    """Stop one workload and confirm on every host that it is gone.

    ``target`` is an id, its first letters, a recipe, a model or a served name. Raises ``UnknownWorkloadError``,
    ``AmbiguousWorkloadError`` or ``StopFailedError``, which names each host that did not confirm.
    """
    sctx = reach(hosts, sctx)
    workload, seen = find_workload(target, hosts, sctx)
    return StopResult((_stop(workload, seen.unreachable, sctx),), seen.unreachable)


def stop_all(hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> StopResult:
    """Stop every workload that lives on the hosts. Raises ``StopFailedError`` when a host could not be asked, after stopping the others."""
    sctx = reach(hosts, sctx)
    selection = hosts_to_ask(hosts, sctx)
    seen = observe_status(selection, sctx)
    stopped = tuple(_stop(workload, (), sctx) for workload in seen.workloads if workload.alive)
    if seen.unreachable:
        raise StopFailedError(
            f"stopped {len(stopped)}; not known whether anything runs on {_named(seen.unreachable)}", hint="try again when the hosts answer"
        )
    return StopResult(stopped)


def logs(
    target: str,
    on_line: Callable[[LogLine], None],
    hosts: HostOptions = HostOptions(),
    *,
    view: LogView = LogView(),
    sctx: SparkrunContext,
) -> Workload:
    """Hand on the serve log of a workload, also of one that has ended; with ``view.follow`` until its engine ends."""
    sctx = reach(hosts, sctx)
    workload, _seen = find_workload(target, hosts, sctx, ended=True)
    ranks = workload.ranks if view.all_ranks else workload.ranks[:1]
    _read_ranks(workload, ranks, view, on_line, sctx)
    return workload


def check_job(target: str, hosts: HostOptions = HostOptions(), *, check_http: bool = False, sctx: SparkrunContext) -> CheckResult:
    """Whether a workload runs, and with ``check_http`` whether it answers. An unknown one is not running; nothing is raised for it."""
    try:
        workload, _seen = find_workload(target, hosts, reach(hosts, sctx), ended=True)
    except UnknownWorkloadError:
        return CheckResult(False, None, None, None, {}, ())
    metadata = next((job for job in read_jobs(sctx.config.paths) if job.cluster_id == workload.cluster_id), None)
    alive = all(rank.alive for rank in workload.ranks)
    healthy = (alive and workload.state is State.READY) if check_http else None
    statuses = {rank.name: rank.alive for rank in workload.ranks}
    return CheckResult(alive, workload.cluster_id, healthy, metadata, statuses, workload.hosts)


def _stop(workload: Workload, silent: tuple[Unreachable, ...], sctx: SparkrunContext) -> StoppedWorkload:
    executor = executor_of(workload, sctx)
    names = {host: tuple(rank.name for rank in workload.ranks if rank.host == host) for host in workload.hosts}
    calls = [(host, executor.stop_call(own)) for host, own in names.items()]
    results = sctx.runner.run_all(calls, timeout_s=STOP_TIMEOUT_S)
    failures = [f"{result.host}: {failure_text(result)}" for result in results if not result.ok]
    job = next((job for job in read_jobs(sctx.config.paths) if job.cluster_id == workload.cluster_id), None)
    silent = tuple(host for host in silent if host.executor in (None, executor.plugin_name))
    failures += [f"{host.host}: {host.reason}" for host in silent if job and host.host in job.hosts]
    if failures:
        raise StopFailedError(
            f"{workload.cluster_id} is not confirmed stopped on\n  " + "\n  ".join(failures),
            hint="try again when the hosts answer: sparkrun status",
        )
    remove_job(workload.cluster_id, sctx.config.paths)
    return StoppedWorkload(workload.cluster_id, workload.recipe, workload.hosts)


def _read_ranks(
    workload: Workload, ranks: tuple[WorkloadFacts, ...], view: LogView, on_line: Callable[[LogLine], None], sctx: SparkrunContext
) -> None:
    executor = executor_of(workload, sctx)

    def taker(rank: WorkloadFacts) -> Callable[[str], None]:
        label = str(rank.labels.get("role") or rank.name)
        return lambda text: on_line(LogLine(label, text))

    streams = [Stream(rank.host, executor.logs_call(rank.name, view), taker(rank)) for rank in ranks]
    for result in stream_all(streams, sctx.runner, timeout_s=None if view.follow else READ_TIMEOUT_S):
        if not result.ok:
            raise HostUnreachableError(f"cannot read the log on {result.host}: {failure_text(result)}", hint=failure_hint(result))


def _named(hosts: tuple[Unreachable, ...]) -> str:
    return ", ".join(f"{host.host} ({host.reason})" for host in hosts)
