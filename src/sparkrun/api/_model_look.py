"""Looking at the model caches of hosts, and what was seen as a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sparkrun.api._cache_scope import Scope, Users, cache_scope, moment
from sparkrun.api._model_cache_results import CacheReport, ModelCacheReport, ModelReport, Verification
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import NotCachedError
from sparkrun.core.facts import Unreachable
from sparkrun.core.hosts import HostOptions
from sparkrun.models.cache_hosts import SharedCache, look_at_caches
from sparkrun.models.cache_rules import problems_of
from sparkrun.models.hub_cache import CachedModel, disk_bytes_of
from sparkrun.utils.text import did_you_mean

Verdicts = Mapping[tuple[str, str], Verification]
"""By the first host of a cache and the model."""


class CacheOptions(msgspec.Struct, frozen=True):
    """Whose caches. ``cache_dir`` is a Hugging Face home on the hosts, instead of what the cluster or the host itself says."""

    hosts: HostOptions = HostOptions()
    cache_dir: str | None = None


class Told(msgspec.Struct, frozen=True):
    """What a report tells besides what is in the caches."""

    users: Users = Users()
    details: bool = False
    verdicts: Verdicts = {}
    silent: tuple[Unreachable, ...] = ()
    """Hosts that fell silent after the look."""


class Look(msgspec.Struct, frozen=True):
    """What one look at the hosts of a command has seen."""

    scope: Scope
    caches: tuple[SharedCache, ...]
    unreachable: tuple[Unreachable, ...]


def look_at(options: CacheOptions, sctx: SparkrunContext) -> Look:
    """All caches of the hosts. Raises ``HostsError``."""
    scope = cache_scope(options.hosts, sctx)
    cluster = scope.selection.cluster
    home = options.cache_dir or (cluster.cache_dir if cluster else None) or ""
    return Look(scope, *look_at_caches(scope.hosts, home, scope.sctx.runner))


def holding(look: Look, model: str) -> tuple[SharedCache, ...]:
    """The caches that have a model, with nothing else in them. Raises ``NotCachedError`` when none has."""
    repo = model.removeprefix("models--").replace("--", "/") if model.startswith("models--") else model.partition(":")[0]
    chosen = tuple(_narrowed(shared, found) for shared in look.caches if (found := shared.cache.model(repo)))
    if not chosen:
        names = {found.repo for shared in look.caches for found in shared.cache.models}
        asked = ", ".join(host for shared in look.caches for host in shared.hosts) or "any host that answered"
        silent = "".join(f"; {host.host} is unknown: {host.reason}" for host in look.unreachable)
        raise NotCachedError(
            f"no model '{repo}' in the cache of {asked}{silent}",
            hint=did_you_mean(repo, names) or "see them all: sparkrun model-cache list",
        )
    return chosen


def _narrowed(shared: SharedCache, model: CachedModel) -> SharedCache:
    return SharedCache(shared.hosts, msgspec.structs.replace(shared.cache, models=(model,)))


def report_of(look: Look, caches: Iterable[SharedCache], told: Told = Told()) -> ModelCacheReport:
    """These caches as a report."""
    return ModelCacheReport(
        origin=look.scope.selection.origin,
        cluster=look.scope.cluster,
        caches=tuple(_cache_report(shared, [_model_report(model, shared, told) for model in shared.cache.models]) for shared in caches),
        unreachable=(*look.unreachable, *told.silent),
    )


def _cache_report(shared: SharedCache, models: Sequence[ModelReport]) -> CacheReport:
    cache = shared.cache
    content = [entry for entry in cache.entries.values() if entry.kind == "f"]
    return CacheReport(
        hosts=shared.hosts,
        hub=cache.hub,
        shared=len(shared.hosts) > 1,
        here=cache.here,
        writable=cache.writable,
        free_bytes=cache.free_bytes,
        total_bytes=cache.total_bytes,
        disk_bytes=disk_bytes_of(content),
        models=tuple(models),
    )


def _model_report(model: CachedModel, shared: SharedCache, told: Told) -> ModelReport:
    problems = problems_of(model, shared.cache)
    users = (told.users.by_host.get(host, {}).get(model.repo, ()) for host in shared.hosts)
    damaged = any(problem.damage for problem in problems)
    return ModelReport(
        model=model.repo,
        state="unknown" if model.unreadable else "damaged" if damaged else "whole",
        size_bytes=model.size_bytes,
        disk_bytes=model.disk_bytes,
        revisions=tuple(snapshot.revision for snapshot in model.snapshots),
        refs=model.refs,
        last_used_at=moment(model.last_used_at),
        pin=model.pin,
        problems=problems,
        folder=model.folder,
        linked_to=model.linked_to,
        used_by=tuple(dict.fromkeys(one for ids in users for one in ids)),
        snapshots=model.snapshots if told.details else (),
        verification=told.verdicts.get((shared.hosts[0], model.repo)),
    )
