"""What the entry points of ``sparkrun.api`` return. ``to_json`` is the documented, versioned shape of ``--json``."""

from __future__ import annotations

from typing import Any

import msgspec

from sparkrun.api._plain import PlainData
from sparkrun.core.cluster_status import ClusterStatus, Workload
from sparkrun.core.facts import Unreachable
from sparkrun.core.jobs import Job
from sparkrun.core.pending_ops import PendingOp
from sparkrun.core.timings import Timing


class RunResult(PlainData, frozen=True, kw_only=True):
    """A workload that was asked for and now runs. Times are milliseconds since the engine was started; ``None`` where nobody waited."""

    schema: str = "sparkrun.run/1"
    cluster_id: str
    recipe: str
    runtime: str
    model: str
    served_model_name: str
    endpoint: str
    """Base address of the OpenAI-compatible API, ``http://host:port/v1``."""
    port: int
    hosts: tuple[str, ...]
    ready: bool
    already_running: bool = False
    port_open_ms: int | None = None
    healthy_ms: int | None = None
    first_token_ms: int | None = None
    log_lines: int = 0
    """Lines of the engine's log that were emitted while waiting."""
    timings: tuple[Timing, ...] = ()
    """Each of the six phases with its steps, and the stages of the wait."""


class BuiltImage(msgspec.Struct, frozen=True):
    """An image that was built or pulled anew, where, and what asked for that."""

    image: str
    builder: str
    hosts: tuple[str, ...]
    why: str


class Brought(msgspec.Struct, frozen=True):
    """An image or a model that hosts lacked; ``way`` as in ``plan.Transfer``."""

    kind: str
    what: str
    way: str
    hosts: tuple[str, ...]


class TuningResult(msgspec.Struct, frozen=True):
    """Tuning configs of an engine: how many there are, and which hosts were sent some. ``registry`` is ``None`` without one."""

    runtime: str
    registry: str | None
    files: int
    sent_to: tuple[str, ...]


class BuildResult(PlainData, frozen=True, kw_only=True):
    """Hosts on which a recipe can be launched at once. ``tuning`` is ``None`` where none are used or synced."""

    schema: str = "sparkrun.build/1"
    recipe: str
    hosts: tuple[str, ...]
    images: dict[str, str]
    """By host, the image it will run."""
    built: tuple[BuiltImage, ...] = ()
    brought: tuple[Brought, ...] = ()
    tuning: TuningResult | None = None


class StatusReport(msgspec.Struct, frozen=True):
    """What runs on which hosts, and who named those hosts."""

    status: ClusterStatus
    origin: str
    cluster: str | None
    jobs: dict[str, Job] = {}
    """Metadata of this machine for the workloads seen, by id."""
    pending: tuple[PendingOp, ...] = ()
    """What this machine is bringing to hosts right now."""

    def to_json(self) -> dict[str, Any]:
        """The shape of ``status --json``: several-rank workloads in ``groups``, single ones in ``solo_entries``."""
        several = [workload for workload in self.status.workloads if len(workload.ranks) > 1]
        single = [workload for workload in self.status.workloads if len(workload.ranks) == 1]
        return {
            "schema": "sparkrun.status/1",
            "groups": {workload.cluster_id: _group(workload) for workload in several},
            "solo_entries": [_solo(workload) for workload in single],
            "idle_hosts": list(self.status.idle_hosts),
            "preparing_hosts": [],
            "pending_ops": [pending_json(op) for op in self.pending],
            "errors": {host.host: host.reason for host in self.status.unreachable},
            "total_containers": sum(len(workload.ranks) for workload in self.status.workloads),
            "host_count": len(self.status.hosts),
        }


class StoppedWorkload(msgspec.Struct, frozen=True):
    """A workload that every one of its hosts confirmed gone. ``had_ended``: none of its engines ran any more."""

    cluster_id: str
    recipe: str | None
    hosts: tuple[str, ...]
    had_ended: bool = False


class StopResult(PlainData, frozen=True):
    """What was stopped, and the hosts that could not be asked."""

    stopped: tuple[StoppedWorkload, ...]
    unreachable: tuple[Unreachable, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"schema": "sparkrun.stop/1", **super().to_json()}


class CheckResult(PlainData, frozen=True):
    """Whether all of a workload runs, and answers where that was asked (``healthy`` is ``None`` otherwise)."""

    running: bool
    cluster_id: str | None
    healthy: bool | None
    metadata: Job | None
    container_statuses: dict[str, bool]
    hosts: tuple[str, ...]
    missing: int = 0
    """How many of its ranks were not seen."""
    unreachable: tuple[Unreachable, ...] = ()
    """Hosts that did not answer, so that it, or more of it, may run there."""

    def to_json(self) -> dict[str, Any]:
        """The shape of ``cluster check-job --json``."""
        data = super().to_json()
        data["unreachable"] = [{"host": host.host, "reason": host.reason} for host in self.unreachable]
        if data["metadata"]:
            data["metadata"].pop("plan", None)
        return data


def workload_json(workload: Workload) -> dict[str, Any]:
    """The stable part of a workload that people and programs ask for."""
    head = workload.head
    return {
        "cluster_id": workload.cluster_id,
        "state": workload.state.value,
        "recipe": workload.recipe,
        "recipe_ref": workload.recipe_ref,
        "runtime": workload.runtime,
        "model": workload.model,
        "served_model_name": workload.served_model_name,
        "port": workload.port,
        "endpoint": endpoint_of(workload),
        "health": head.health,
        "started_at": head.started_at,
        "uptime_s": head.uptime_s,
        "tensor_parallel": workload.tensor_parallel,
    }


def endpoint_of(workload: Workload) -> str | None:
    """Where clients reach a workload."""
    said = workload.head.labels.get("endpoint")
    return str(said) if said else None


def label_of(workload: Workload) -> str:
    """How a workload is called in one line."""
    short = workload.cluster_id.partition("_")[2]
    return f"{workload.recipe or 'unknown recipe'}  (tp={workload.tensor_parallel})  [{short}]"


def _solo(workload: Workload) -> dict[str, Any]:
    head = workload.head
    return {
        "workload_id": workload.cluster_id,
        "meta": workload_json(workload),
        "host": head.host,
        "status": head.state,
        "image": head.labels.get("image"),
        "label": label_of(workload),
    }


def pending_json(op: PendingOp) -> dict[str, Any]:
    """A transfer as ``status --json`` tells it."""
    return {
        "operation": op.operation,
        "what": op.what,
        "hosts": list(op.hosts),
        "done_bytes": op.done_bytes,
        "total_bytes": op.total_bytes,
        "started_at": op.started_at,
        "pid": op.pid,
        "host": op.host,
    }


def _group(workload: Workload) -> dict[str, Any]:
    return {
        "meta": workload_json(workload),
        "containers": [
            {"host": rank.host, "role": rank.labels.get("role"), "status": rank.state, "image": rank.labels.get("image")}
            for rank in workload.ranks
        ],
        "label": label_of(workload),
    }
