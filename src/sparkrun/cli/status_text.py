"""A status report as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.api import CheckResult, PendingOp, StatusReport, Workload, endpoint_of, label_of
from sparkrun.utils.text import counted, size_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def status_text(report: StatusReport) -> str:
    """The hosts, each workload with what to type next, and what is unknown."""
    return "\n".join(_lines(report))


def _lines(report: StatusReport) -> Iterator[str]:
    seen = report.status
    name = f"Cluster: {report.cluster}" if report.cluster else f"Hosts from {report.origin}"
    yield f"{name} — {counted(len(seen.hosts), 'host')}"
    for workload in seen.workloads:
        yield ""
        yield from _workload_lines(workload)
    yield ""
    yield from (_pending_line(op) for op in report.pending)
    if seen.idle_hosts:
        yield f"Idle: {', '.join(seen.idle_hosts)}"
    for host in seen.unreachable:
        yield f"Unknown: {host.host} ({host.reason})"
        yield from (f"  hint: {line}" for line in (host.hint or "").splitlines())
    living = sum(workload.alive for workload in seen.workloads)
    yield f"Total: {counted(living, 'workload')} running" + (
        f", {counted(len(seen.unreachable), 'host')} unknown" if seen.unreachable else ""
    )


def _pending_line(op: PendingOp) -> str:
    """``Pending: image x to spark-2, 1.2 of 4.2 GB``."""
    done = size_text(op.done_bytes) if op.done_bytes is not None else ""
    far = f", {done} of {size_text(op.total_bytes)}" if done and op.total_bytes else f", {done}" if done else ""
    where = ", ".join(host or "this machine" for host in op.hosts)
    return f"Pending: {'image' if op.image else 'model'} {op.what} to {where}{far} (since {op.started_at})"


def _workload_lines(workload: Workload) -> Iterator[str]:
    yield f"Job: {label_of(workload)}  {workload.state.value}"
    if workload.alive and (endpoint := endpoint_of(workload)):
        yield f"  endpoint: {endpoint}   model: {workload.served_model_name}"
    for rank in workload.ranks:
        since = f", up {duration(rank.uptime_s)}" if rank.alive and rank.uptime_s is not None else ""
        code = f", exit code {rank.exit_code}" if rank.exit_code is not None else ""
        memory = f", {rank.memory_bytes / 1024**3:.1f} GiB" if rank.memory_bytes else ""
        yield f"  {rank.labels.get('role') or 'rank'}  {rank.host}  {rank.state}{since}{code}{memory}"
    if workload.missing:
        where = f" (launched on {', '.join(workload.lacking)})" if workload.lacking else ""
        yield f"  not seen: {workload.missing} of {len(workload.ranks) + workload.missing} ranks{where}"
    hosts = (*workload.hosts, *workload.lacking)
    where = f" -H {','.join(hosts)}" if hosts != ("localhost",) else ""
    yield f"  logs: sparkrun logs {workload.cluster_id}{where}"
    yield f"  stop: sparkrun stop {workload.cluster_id}{where}"


def check_text(target: str, result: CheckResult) -> str:
    """Whether a workload runs, in one line; what is not known stands in it."""
    told = [_check_line(target, result)]
    told += [f"{host.host} is unknown: {host.reason}" for host in result.unreachable]
    return "; ".join(told)


def _check_line(target: str, result: CheckResult) -> str:
    if result.cluster_id is None:
        return f"{target}: {'not seen' if result.unreachable else 'not running'}"
    living = any(result.container_statuses.values())
    state = "running" if result.running else "partly running" if living else "not running"
    health = {None: "", True: ", healthy", False: ", not healthy"}[result.healthy]
    lacking = f"; {result.missing} of {len(result.container_statuses) + result.missing} ranks not seen" if result.missing else ""
    return f"{result.cluster_id}: {state}{health} on {', '.join(result.hosts)}{lacking}"


def duration(seconds: float) -> str:
    """A time span with its two largest units."""
    whole = int(seconds)
    if whole >= _DAY:
        return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"
    if whole >= _HOUR:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE}m"
    return f"{whole // _MINUTE}m {whole % _MINUTE}s" if whole >= _MINUTE else f"{whole}s"
