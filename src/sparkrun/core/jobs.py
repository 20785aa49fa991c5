"""Job metadata: what was launched from this machine. Hosts tell what runs; these files tell what was meant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from sparkrun import __version__
from sparkrun.core.backend_select import BackendBundle
from sparkrun.core.config import read_settings
from sparkrun.core.errors import ConfigError, StateError
from sparkrun.core.paths import Paths
from sparkrun.core.plan import LaunchPlan, RankPlan
from sparkrun.utils.files import write_atomic


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One launch as its file tells it. A file of an earlier version may lack everything but the id."""

    cluster_id: str
    intent_id: str | None = None
    recipe: str | None = None
    recipe_ref: str | None = None
    model: str | None = None
    runtime: str | None = None
    hosts: tuple[str, ...] = ()
    cluster: str | None = None
    ssh_user: str | None = None
    """As whom its hosts were reached, unless they name somebody themselves."""
    started_at: str | None = None
    port: int | None = None
    served_model_name: str | None = None
    executor: str | None = None
    effective_container_image: str | None = None
    effective_container_images: dict[str, str] = {}
    parallelism: dict[str, int] = {}
    backends: dict[str, dict[str, str | None]] = {}
    """By host, ``vendor`` of its accelerators and ``backend``, its collective library."""
    gpu_allocations: dict[str, list[dict[str, int]]] = {}
    """By host, the accelerators of each rank."""
    recipe_fingerprint: str | None = None
    plan: dict[str, Any] | None = None


def job_of(plan: LaunchPlan, *, cluster: str | None, ssh_user: str | None, backends: Mapping[str, BackendBundle]) -> Job:
    """The metadata of a launch that is about to happen; secrets are masked."""
    return Job(
        cluster_id=plan.cluster_id,
        intent_id=plan.intent_id,
        recipe=plan.recipe,
        recipe_ref=plan.recipe_ref,
        model=plan.model,
        runtime=plan.runtime,
        hosts=plan.hosts,
        cluster=cluster,
        ssh_user=ssh_user,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        port=plan.port,
        served_model_name=plan.served_model_name,
        executor=plan.executor,
        effective_container_image=plan.image,
        effective_container_images={rank.host: rank.image for rank in plan.ranks if rank.image},
        parallelism=plan.parallelism,
        backends={host: {"vendor": bundle.accelerator_vendor, "backend": bundle.collective} for host, bundle in backends.items()},
        gpu_allocations={
            host: [_allocation(rank, gpu) for rank in plan.ranks if rank.host == host for gpu in rank.gpus] for host in plan.hosts
        },
        recipe_fingerprint=plan.digest[:12] or None,
        plan=plan.public(),
    )


def write_job(job: Job, paths: Paths) -> None:
    """Keep a job's file. Raises ``StateError`` when the cache cannot be written."""
    from sparkrun.utils.yamlio import dump_yaml

    path = job_path(job.cluster_id, paths)
    _, _, placement = job.cluster_id.rpartition("_")
    data = {key: value for key, value in msgspec.to_builtins(job).items() if value not in (None, {}, [])}
    data |= {"placement_token": placement, "sparkrun_version": __version__, "distribution": "sparkrun", "resource_namespace": "sparkrun"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, dump_yaml(data))
    except OSError as error:
        raise StateError(f"cannot write job metadata in {path.parent}: {error.strerror}", hint=cache_hint(paths)) from error


def read_jobs(paths: Paths) -> tuple[Job, ...]:
    """Every readable job, newest first; a broken file is passed over, it decides nothing."""
    found = (_read(path) for path in paths.jobs_dir.glob("*.yaml"))
    return tuple(sorted((job for job in found if job), key=lambda job: job.started_at or "", reverse=True))


def remove_job(cluster_id: str, paths: Paths) -> None:
    """Forget a job whose workload is confirmed gone."""
    job_path(cluster_id, paths).unlink(missing_ok=True)


def job_path(cluster_id: str, paths: Paths) -> Path:
    """``jobs/<intent16>_<placement12>.yaml``."""
    return paths.jobs_dir / f"{cluster_id.partition('_')[2] or cluster_id}.yaml"


def ensure_cache_writable(paths: Paths) -> None:
    """Refuse before anything starts when this launch could not be recorded. Raises ``StateError``."""
    try:
        paths.jobs_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(paths.jobs_dir, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise StateError(f"the cache folder {paths.cache_dir} is not writable", hint=cache_hint(paths))


def cache_hint(paths: Paths) -> str:
    """What to do about a cache that cannot be written."""
    return f"make {paths.cache_dir} writable, or name another folder with SPARKRUN_CACHE_DIR"


def users_of(jobs: Iterable[Job]) -> dict[str, str]:
    """By host, the user of the newest launch there that names one; ``jobs`` are newest first."""
    users: dict[str, str] = {}
    for job in jobs:
        for host in job.hosts if job.ssh_user else ():
            users.setdefault(host, job.ssh_user or "")
    return users


def hosts_of(jobs: Iterable[Job]) -> tuple[str, ...]:
    """Every host that some job names, once, in order."""
    return tuple(dict.fromkeys(host for job in jobs for host in job.hosts))


def _allocation(rank: RankPlan, gpu: int) -> dict[str, int]:
    return {"rank": rank.rank, "gpu_index": gpu}


def _read(path: Path) -> Job | None:
    try:
        return msgspec.convert(read_settings(path), Job, strict=False)
    except (ConfigError, msgspec.ValidationError):
        return None
