"""Doing to the models in caches what was planned, or telling what would be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sparkrun.api._cache_scope import Users, model_users
from sparkrun.api._model_cache_results import Action, CacheChange, ModelCacheChange, ModelChange, Outcome, RemovalReport
from sparkrun.api._model_look import Look
from sparkrun.core.facts import Unreachable
from sparkrun.core.remote import ScriptCall
from sparkrun.models.cache_hosts import SharedCache, removal_call
from sparkrun.models.cache_rules import RemovalPlan, freed_bytes
from sparkrun.models.hub_cache import CachedModel, HubCache
from sparkrun.orchestration.host_changes import Changed, change_hosts

MakeCall = Callable[[HubCache, CachedModel], ScriptCall]


class Draft(msgspec.Struct, frozen=True):
    """What is to go from caches: the plans of each cache, in the same order."""

    action: Action
    caches: tuple[SharedCache, ...]
    plans: tuple[tuple[RemovalPlan, ...], ...]
    silent: tuple[Unreachable, ...] = ()
    """Hosts that fell silent before there was a plan."""


def carry_out(draft: Draft, look: Look, *, apply: bool) -> ModelCacheChange:
    """Do it with ``apply``, all caches at once; without, tell. What is pinned, used, or not known not to be used, stays."""
    users = model_users(look.scope)
    allowed = [
        tuple(plan for plan in plans if plan.removals and not refusal(plan.repo, shared, users))
        for shared, plans in zip(draft.caches, draft.plans, strict=True)
    ]
    done = _remove(draft, allowed, look) if apply else {}
    return ModelCacheChange(
        action=draft.action,
        applied=apply,
        origin=look.scope.selection.origin,
        cluster=look.scope.cluster,
        caches=tuple(
            _cache_change(shared, plans, users, done.get(shared.hosts[0])) for shared, plans in zip(draft.caches, draft.plans, strict=True)
        ),
        unreachable=(*look.unreachable, *draft.silent),
    )


def set_pins(action: Action, caches: Sequence[SharedCache], look: Look, make_call: MakeCall) -> ModelCacheChange:
    """Pin or unpin the one model of each of these caches."""
    calls = [(shared.cache.host, make_call(shared.cache, shared.cache.models[0])) for shared in caches]
    done = change_hosts(calls, look.scope.sctx.runner)
    return ModelCacheChange(
        action=action,
        applied=True,
        origin=look.scope.selection.origin,
        cluster=look.scope.cluster,
        caches=tuple(_pin_change(action, shared, changed) for shared, changed in zip(caches, done, strict=True)),
        unreachable=look.unreachable,
    )


def refusal(repo: str, shared: SharedCache, users: Users) -> str | None:
    """Why a model must not be touched in a cache; ``None`` when it may."""
    model = shared.cache.model(repo)
    if model and model.linked_to:
        return f"its folder is a link to {model.linked_to}: remove that by hand"
    if model and model.pin:
        return model.pin.text
    return users.refusal(repo, shared.hosts)


def _remove(draft: Draft, allowed: Sequence[Sequence[RemovalPlan]], look: Look) -> Mapping[str, Changed]:
    acting = [(shared, plans) for shared, plans in zip(draft.caches, allowed, strict=True) if plans]
    folders = {model.repo: model.folder for shared, _plans in acting for model in shared.cache.models}
    calls = [(shared.cache.host, removal_call(shared.cache, plans, folders)) for shared, plans in acting]
    done = change_hosts(calls, look.scope.sctx.runner)
    return {shared.hosts[0]: changed for (shared, _plans), changed in zip(acting, done, strict=True)}


def _cache_change(shared: SharedCache, plans: Sequence[RemovalPlan], users: Users, done: Changed | None) -> CacheChange:
    changes = (_model_change(plan, shared, refusal(plan.repo, shared, users), done) for plan in plans if plan.removals)
    return CacheChange(hosts=shared.hosts, hub=shared.cache.hub, models=tuple(changes), failed=done.failed if done else None)


def _model_change(plan: RemovalPlan, shared: SharedCache, refused: str | None, done: Changed | None) -> ModelChange:
    if refused:
        return ModelChange(model=plan.repo, refused=refused)
    removed = set(done.removed) if done else set()
    return ModelChange(
        model=plan.repo,
        frees_bytes=freed_bytes(removed.intersection(each.path for each in plan.removals), shared.cache) if done else plan.frees_bytes,
        removals=tuple(_removal_report(each.path, each.why, each.disk_bytes, done) for each in plan.removals),
        missing=plan.missing,
        commands=tuple(
            f"hf download {plan.repo} --revision {revision}" for revision in dict.fromkeys(file.partition("/")[0] for file in plan.missing)
        ),
    )


def _removal_report(path: str, why: str, disk_bytes: int, done: Changed | None) -> RemovalReport:
    reason = done.reason(path) if done else None
    outcome: Outcome = "planned" if done is None else "removed" if reason is None else "kept"
    return RemovalReport(path=path, why=why, disk_bytes=disk_bytes, outcome=outcome, reason=reason)


def _pin_change(action: Action, shared: SharedCache, changed: Changed) -> CacheChange:
    (model,) = shared.cache.models
    pinned = (model.pin is not None) if changed.failed else action == "pin"
    return CacheChange(
        hosts=shared.hosts, hub=shared.cache.hub, models=(ModelChange(model=model.repo, pinned=pinned),), failed=changed.failed
    )
