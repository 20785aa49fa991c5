"""The models in the caches of hosts: seeing, checking, mending, pinning and removing them."""

from __future__ import annotations

import msgspec

from sparkrun.api._cache_scope import model_users, pinned_by
from sparkrun.api._model_cache_results import ModelCacheChange, ModelCacheReport
from sparkrun.api._model_change import Draft, carry_out, set_pins
from sparkrun.api._model_look import CacheOptions, Told, holding, look_at, report_of
from sparkrun.api._model_verify import verify_caches
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import UsageError
from sparkrun.core.pins import Pin
from sparkrun.models.cache_hosts import SharedCache, pin_call, unpin_call
from sparkrun.models.cache_rules import RemovalPlan, plan_delete, plan_prune, plan_prune_rest, plan_repair
from sparkrun.models.hub_cache import CachedModel, HubCache


def model_cache(options: CacheOptions = CacheOptions(), *, sctx: SparkrunContext) -> ModelCacheReport:
    """Every model in the caches of the hosts. A host that does not answer is in ``unreachable``. Raises ``HostsError``."""
    look = look_at(options, sctx)
    return report_of(look, look.caches)


def inspect_model(model: str, options: CacheOptions = CacheOptions(), *, sctx: SparkrunContext) -> ModelCacheReport:
    """One model in all caches: snapshots, files, what is wrong with it, what runs on it. Raises ``NotCachedError`` when no cache has it."""
    look = look_at(options, sctx)
    chosen = holding(look, model)
    return report_of(look, chosen, Told(users=model_users(look.scope), details=True))


def verify_models(
    model: str | None = None, options: CacheOptions = CacheOptions(), *, quick: bool = False, sctx: SparkrunContext
) -> ModelCacheReport:
    """Read one model, or all, in all caches, each physical cache once, and compare with what the names of the blobs say.

    ``quick`` compares lengths alone: with the heads of safetensors files, and between caches. How much has been read comes as events.
    """
    look = look_at(options, sctx)
    chosen = holding(look, model) if model else look.caches
    verdicts, silent = verify_caches(chosen, look.scope, quick=quick)
    return report_of(look, chosen, Told(verdicts=verdicts, silent=silent))


def repair_model(
    model: str, options: CacheOptions = CacheOptions(), *, quick: bool = False, apply: bool = False, sctx: SparkrunContext
) -> ModelCacheChange:
    """Take out what is damaged of a model, after ``verify_models``, so that the next launch brings that again.

    Refused where it is pinned or used, or where that is unknown. Without ``apply``: tell what would go.
    """
    look = look_at(options, sctx)
    chosen = holding(look, model)
    verdicts, silent = verify_caches(chosen, look.scope, quick=quick)
    wrong = {key: {file.blob for file in verdict.wrong} for key, verdict in verdicts.items()}
    read = tuple(shared for shared in chosen if (shared.hosts[0], shared.cache.models[0].repo) in verdicts)

    def plan(found: CachedModel, shared: SharedCache) -> RemovalPlan:
        names = wrong[shared.hosts[0], found.repo]
        return plan_repair(found, shared.cache, {blob.path for blob in found.blobs if blob.name in names})

    plans = tuple((plan(shared.cache.models[0], shared),) for shared in read)
    return carry_out(Draft("repair", read, plans, silent), look, apply=apply)


def delete_model(model: str, options: CacheOptions = CacheOptions(), *, apply: bool = False, sctx: SparkrunContext) -> ModelCacheChange:
    """Remove a model from all caches. Refused where it is pinned or used, or that is unknown. Without ``apply``: tell what would go."""
    look = look_at(options, sctx)
    chosen = holding(look, model)
    plans = tuple((plan_delete(shared.cache.models[0], shared.cache),) for shared in chosen)
    return carry_out(Draft("delete", chosen, plans), look, apply=apply)


def prune_models(
    options: CacheOptions = CacheOptions(), *, older_than_days: float | None = None, apply: bool = False, sctx: SparkrunContext
) -> ModelCacheChange:
    """Remove what nobody needs: leftovers, snapshots without a ref, blobs without a file; with ``older_than_days`` also models unused for
    longer. What is pinned or used is left alone. Without ``apply``: tell what would go."""
    if older_than_days is not None and older_than_days < 0:
        raise UsageError(f"a model cannot be unused for {older_than_days:g} days")
    look = look_at(options, sctx)

    def plans(cache: HubCache) -> tuple[RemovalPlan, ...]:
        return (*(plan_prune(model, cache, older_than_days=older_than_days) for model in cache.models), plan_prune_rest(cache))

    draft = Draft("prune", look.caches, tuple(plans(shared.cache) for shared in look.caches))
    return carry_out(draft, look, apply=apply)


def pin_model(model: str, options: CacheOptions = CacheOptions(), *, reason: str = "", sctx: SparkrunContext) -> ModelCacheChange:
    """Protect a model in all caches from ``delete_model``, ``prune_models`` and ``repair_model``."""
    by, at = pinned_by(sctx)
    note = msgspec.json.encode(Pin(by=by, at=at, reason=reason)).decode()
    look = look_at(options, sctx)
    return set_pins("pin", holding(look, model), look, lambda cache, found: pin_call(cache, found, note))


def unpin_model(model: str, options: CacheOptions = CacheOptions(), *, sctx: SparkrunContext) -> ModelCacheChange:
    """Lift the protection."""
    look = look_at(options, sctx)
    return set_pins("unpin", holding(look, model), look, unpin_call)
