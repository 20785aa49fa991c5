"""Which workload a user means, told from what runs now; metadata of this machine only says where to look."""

from __future__ import annotations

import shlex
from pathlib import PurePath

import msgspec

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.cluster_status import ClusterStatus, Workload
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import AmbiguousWorkloadError, UnknownWorkloadError
from sparkrun.core.hosts import HostOptions, HostSelection, resolve_hosts
from sparkrun.core.identity import matches_id
from sparkrun.core.jobs import Job, hosts_of, read_jobs, remove_job
from sparkrun.orchestration.executor import Executor
from sparkrun.orchestration.status import query_status_for_cluster

THIS_MACHINE = "localhost"
LAUNCHES = "the launches of this machine"
OURSELVES = "this machine"
PLAIN = "local"
"""The executor that needs nothing on a host, so it can always be asked."""


class Narrowing(msgspec.Struct, frozen=True):
    """Which of several workloads with the same recipe or model is meant; what is ``None`` does not matter."""

    tensor_parallel: int | None = None
    port: int | None = None
    served_model_name: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether anything matters."""
        return self != Narrowing()

    def fits(self, workload: Workload) -> bool:
        """Whether a workload has all that matters."""
        wanted = msgspec.structs.asdict(self)
        return all(value is None or getattr(workload, name) == value for name, value in wanted.items())

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(self).items() if value is not None)
        return f" with {said}" if said else ""


def hosts_to_ask(options: HostOptions, sctx: SparkrunContext) -> HostSelection:
    """The hosts named or configured, and those of the launches this machine remembers; with neither, this machine."""
    selection = resolve_hosts(options, sctx.config)
    if options.hosts or options.hosts_file or options.cluster:
        assert selection is not None
        return selection
    remembered = hosts_of(read_jobs(sctx.config.paths))
    if selection:
        extra = tuple(host for host in remembered if host not in selection.hosts)
        return HostSelection(selection.hosts + extra, selection.origin, selection.cluster)
    if remembered:
        return HostSelection(remembered, LAUNCHES)
    return HostSelection((THIS_MACHINE,), OURSELVES)


def observe_status(selection: HostSelection, sctx: SparkrunContext) -> ClusterStatus:
    """What runs on these hosts now: by every executor where the hosts were named, else by those that this machine launched with.

    Without any host named, a docker that was never used must not make a machine's state unknown.
    """
    executors = Plugins(sctx.config).executors()
    if selection.origin not in (LAUNCHES, OURSELVES):
        return query_status_for_cluster(dict.fromkeys(selection.hosts, executors), sctx.runner)
    jobs = read_jobs(sctx.config.paths)
    used = {host: {PLAIN, *(job.executor for job in jobs if host in job.hosts)} for host in selection.hosts}
    return query_status_for_cluster(
        {host: tuple(executor for executor in executors if executor.plugin_name in names) for host, names in used.items()}, sctx.runner
    )


def find_workload(
    target: str, options: HostOptions, sctx: SparkrunContext, *, ended: bool = False, only: Narrowing = Narrowing()
) -> tuple[Workload, ClusterStatus]:
    """The one live workload that answers to ``target``; with ``ended``, one that has ended when none lives.

    Raises ``NotFound`` or ``AmbiguousWorkloadError`` with the candidates.
    """
    selection = hosts_to_ask(options, sctx)
    status = observe_status(selection, sctx)
    found = [workload for workload in matching(target, status) if only.fits(workload)]
    chosen = [workload for workload in found if workload.alive] or (list(found) if ended else [])
    if not chosen:
        raise _unknown(f"'{target}'{only}", status, _status_command(options))
    if len(chosen) > 1:
        ids = ", ".join(workload.cluster_id for workload in chosen)
        raise AmbiguousWorkloadError(f"'{target}' is {len(chosen)} workloads: {ids}", hint="name one of these ids, or its first letters")
    return chosen[0], status


def matching(target: str, status: ClusterStatus) -> tuple[Workload, ...]:
    """Every workload that answers to an id, the beginning of one, a recipe name or file, a model or a served name."""
    found = status.matching(target)
    if found or not target.endswith((".yaml", ".yml")):
        return found
    stem = PurePath(target).stem
    return tuple(workload for workload in status.workloads if workload.recipe == stem)


def executor_of(workload: Workload, sctx: SparkrunContext) -> Executor:
    """The executor that runs a workload, whatever the feature flags say now."""
    name = workload.head.executor
    return next(executor for executor in Plugins(sctx.config).executors() if executor.plugin_name == name)


def forget_gone(sctx: SparkrunContext, status: ClusterStatus, target: str | None = None) -> tuple[Job, ...]:
    """Remove the metadata of launches that all their hosts, which were asked, know nothing of any more; returns them."""
    silent = {host.host for host in status.unreachable}
    asked = set(status.hosts) - silent
    gone = tuple(
        job
        for job in read_jobs(sctx.config.paths)
        if job.hosts
        and asked.issuperset(job.hosts)
        and status.workload(job.cluster_id) is None
        and (target is None or _job_is(job, target))
    )
    for job in gone:
        remove_job(job.cluster_id, sctx.config.paths)
    return gone


def _job_is(job: Job, target: str) -> bool:
    stem = PurePath(target).stem if target.endswith((".yaml", ".yml")) else target
    return (
        job.recipe == stem
        or target in {job.cluster_id, job.recipe_ref, job.model, job.served_model_name}
        or matches_id(target, job.cluster_id)
    )


def _status_command(options: HostOptions) -> str:
    """What shows what runs on the hosts that were asked."""
    named = (("-H", ",".join(options.hosts)), ("--hosts-file", options.hosts_file), ("--cluster", options.cluster))
    return " ".join(["sparkrun status", *(f"{option} {shlex.quote(value)}" for option, value in named if value)])


def _unknown(wanted: str, status: ClusterStatus, look: str) -> NotFound:
    asked = [host for host in status.hosts if host not in {host.host for host in status.unreachable}]
    living = [workload for workload in status.workloads if workload.alive]
    names = ", ".join(f"{workload.recipe} ({workload.cluster_id})" for workload in living)
    told = [f"no such workload {wanted}" + (f" on {', '.join(asked)}" if asked else "")]
    if names or asked:
        told.append(f"running: {names}" if names else "nothing is running")
    told += [f"{host.host} is unknown: {host.reason}" for host in status.unreachable]
    return NotFound("; ".join(told), status, hint=look)


class NotFound(UnknownWorkloadError):
    """With what was seen meanwhile."""

    def __init__(self, message: str, status: ClusterStatus, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status
