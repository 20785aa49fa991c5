"""Whether a launch fits: the estimate of its model against the budget of each GPU, and against what its hosts have available now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sparkrun.core.context import SparkrunContext
from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.facts import HostFacts, ModelFacts
from sparkrun.core.hardware import UNIFIED, HostHardware
from sparkrun.core.limits import (
    Cap,
    Fit,
    HostMemory,
    MemoryBudget,
    MemoryCaps,
    MemoryVerdict,
    PlatformMemory,
    excess_text,
    gpu_budgets,
    judge_fit,
    smallest_budget,
)
from sparkrun.core.memory_relief import relief
from sparkrun.core.placement import Placement, Slot
from sparkrun.core.request import Request
from sparkrun.models.vram.details import ModelDetails, details_of_config, details_of_gguf
from sparkrun.models.vram.estimate import DraftModel, MemoryEstimate, MemoryWish, estimate_memory
from sparkrun.models.vram.find import ModelAnswer, ModelQuestion, find_model
from sparkrun.models.vram.weights import GIB
from sparkrun.platforms import resolve_platform
from sparkrun.runtimes.memory_wish import draft_of, memory_share, memory_wish


class MemoryCase(msgspec.Struct, frozen=True):
    """What the memory of a launch depends on. ``command`` is the engine's command as it will run, where it is written already."""

    request: Request
    config: EffectiveConfig
    facts: Mapping[str, HostFacts]
    hardware: Mapping[str, HostHardware]
    command: str | None = None


def known_model(request: Request, facts: Mapping[str, HostFacts], sctx: SparkrunContext, *, ask_hub: bool) -> Request:
    """The request with what this machine, and the hub where it may be asked, know of its model beyond what the hosts tell."""
    if not request.options.auto_detect or request.model_answer is not None:
        return request
    question = ModelQuestion(
        model=request.model,
        revision=request.recipe.revision or None,
        wish=memory_wish(request.runtime, request.recipe, request.configuration()),
        config=sctx.config,
        make_hub=sctx.make_hub if ask_hub and not sctx.offline else None,
        known=_of_hosts(facts),
        known_draft=_draft_of_hosts(draft_of(request.runtime, request.recipe, request.configuration()), facts),
        own_files=False,
    )
    return msgspec.structs.replace(request, model_answer=find_model(question))


def estimate_launch(case: MemoryCase, ranks: int) -> MemoryEstimate:
    """What the model takes, by the recipe, by what the hosts say of its files, and by what else is known of it."""
    request = case.request
    wish = memory_wish(request.runtime, request.recipe, case.config, command=case.command, ranks=ranks)
    if not request.options.auto_detect:
        return estimate_memory(wish, ModelDetails())
    answer = request.model_answer or ModelAnswer()
    draft = _draft_of_hosts(wish.draft, case.facts).completed_by(answer.draft)
    return estimate_memory(with_draft(wish, draft), _of_hosts(case.facts).completed_by(answer.details))


def with_draft(wish: MemoryWish, details: ModelDetails) -> MemoryWish:
    """The wish with what was found out about its draft model."""
    return msgspec.structs.replace(wish, draft=msgspec.structs.replace(wish.draft, details=details)) if wish.draft else wish


def caps_of(case: MemoryCase) -> MemoryCaps:
    """The caps of the cluster."""
    return case.request.cluster.memory_caps if case.request.cluster else MemoryCaps()


def platform_memory(hardware: HostHardware) -> PlatformMemory:
    """What the kind of machine says of its memory."""
    platform = resolve_platform(hardware)
    return PlatformMemory(platform.memory_cap, platform.nominal_memory_gb)


def share_on(case: MemoryCase, host: str, estimate: MemoryEstimate) -> float | None:
    """The share of an accelerator that the launch asks for; an engine that is told its KV cache in bytes looks at none."""
    if estimate.wish.kv_cache_bytes is not None:
        return None
    hardware = case.hardware[host]
    known = [spec.memory_gb for spec in hardware.accelerators if spec.memory_gb]
    capacity = min(known) if known else platform_memory(hardware).nominal_gib
    return memory_share(case.request.runtime, case.request.recipe, case.config, capacity, case.command)


def demanded_gib(case: MemoryCase, estimate: MemoryEstimate) -> float | None:
    """What a scheduler is told that each GPU has to hold.

    Nothing where not all is known; nor where no GPU at all has so much, since that is no matter of placement: the verdict says it.
    """
    total = estimate.need.total_gib
    if total is None or not estimate.complete or case.request.options.force:
        return None
    allowed = [budget.allowed_gib for host in case.hardware for budget in budgets_of(case, host, estimate)]
    return total if any(each is None or each >= total for each in allowed) else None


def budgets_of(case: MemoryCase, host: str, estimate: MemoryEstimate) -> tuple[MemoryBudget, ...]:
    """What each accelerator of a host offers this launch."""
    hardware = case.hardware[host]
    caps = msgspec.structs.replace(caps_of(case), platform=platform_memory(hardware))
    return gpu_budgets(hardware, caps, share_on(case, host, estimate))


def judge_memory(case: MemoryCase, placement: Placement) -> MemoryVerdict:
    """The verdict on a placed launch, by the GPU on which it is tightest."""
    estimate, answer = estimate_launch(case, len(placement.slots)), case.request.model_answer
    offers = [(slot.host, _of_slot(case, slot, estimate)) for slot in placement.slots]
    host, budget = min(offers, key=lambda offer: -1.0 if offer[1].allowed_gib is None else offer[1].allowed_gib)
    verdict = verdict_of(estimate, budget, host=host, problem=answer.problem if answer else None)
    warnings = dict.fromkeys((*verdict.warnings, *(text for _, each in offers for text in each.cap.warnings)))
    return msgspec.structs.replace(verdict, hosts=tuple(_host_memory(case, placement, estimate)), warnings=tuple(warnings))


def verdict_of(estimate: MemoryEstimate, budget: MemoryBudget, *, host: str = "", problem: str | None = None) -> MemoryVerdict:
    """An estimate against one budget. ``problem``: why the hub did not tell more."""
    need, allowed = estimate.need, budget.allowed_gib
    fit, reason = _judged(estimate, budget)
    total = need.total_gib
    return MemoryVerdict(
        fit=fit,
        reason=f"{reason}; {problem}" if problem and fit is Fit.UNKNOWN else reason,
        need=need,
        budget=budget,
        host=host,
        allowed_gib=allowed,
        spare_gib=None if total is None or allowed is None else allowed - total,
        kv_space_gib=estimate.available_kv_gib(allowed),
        overhead_gib=estimate.wish.overhead_gib,
        context=estimate.wish.context,
        max_context_tokens=estimate.max_context_tokens(allowed),
        kv_dtype=estimate.kv_dtype,
        kv_label=estimate.kv.label,
        weights_source=estimate.weights.source,
        relief=relief(estimate, budget) if fit is Fit.EXCEEDS else "",
        warnings=(*estimate.warnings, *budget.cap.warnings),
    )


def _judged(estimate: MemoryEstimate, budget: MemoryBudget) -> tuple[Fit, str]:
    """More than the budget is too much even where a part is not known; within it, it fits only where all is."""
    fit = judge_fit(estimate.need, budget)
    total, allowed = estimate.need.total_gib, budget.allowed_gib
    if fit is Fit.EXCEEDS:
        return fit, excess_text(estimate.need, budget)
    if estimate.missing:
        return Fit.UNKNOWN, estimate.missing
    if total is None or allowed is None:
        return Fit.UNKNOWN, "no accelerator of known memory to measure it against"
    if allowed - total < estimate.wish.overhead_gib:
        return fit, f"tight: {allowed - total:.1f} GiB to spare, the engine itself takes about {estimate.wish.overhead_gib:g}"
    if estimate.wish.context is None and estimate.wish.kv_cache_bytes is None:
        return fit, "weights alone: no max_model_len is given, so the KV cache is not counted"
    return fit, ""


def _of_slot(case: MemoryCase, slot: Slot, estimate: MemoryEstimate) -> MemoryBudget:
    """The tightest accelerator of a rank; a host without any gives its own memory."""
    total = case.facts[slot.host].memory_total_bytes
    if not slot.gpus and total is not None and not case.facts[slot.host].assumed:
        return MemoryBudget(round(total / GIB, 1), Cap(origin="host"))
    budgets = budgets_of(case, slot.host, estimate)
    return smallest_budget(budgets[gpu] for gpu in slot.gpus if gpu < len(budgets))


def _host_memory(case: MemoryCase, placement: Placement, estimate: MemoryEstimate) -> Iterator[HostMemory]:
    """Hosts that were looked at, and whose engines take what is the host's own memory."""
    for host in placement.hosts:
        available = case.facts[host].memory_available_bytes
        hardware, ranks = case.hardware[host], len(placement.on(host))
        if available is None or case.facts[host].assumed or (hardware.accelerators and not hardware.has(UNIFIED)):
            continue
        if (need := _rank_need(case, host, estimate)) is not None:
            yield HostMemory(host=host, need_gib=need[0] * ranks, available_gib=available / GIB, why=need[1])


def _rank_need(case: MemoryCase, host: str, estimate: MemoryEstimate) -> tuple[float, str] | None:
    share, budgets = share_on(case, host, estimate), budgets_of(case, host, estimate)
    capacity = budgets[0].capacity_gib if budgets else None
    if case.request.runtime.claims_memory and share is not None and capacity is not None:
        return share * capacity, f"gpu_memory_utilization {share:g} of {capacity:g} GiB, which {case.request.runtime.family} claims at once"
    total = estimate.need.total_gib
    if total is None:
        return None
    return total + estimate.wish.overhead_gib, f"{estimate.need}, and about {estimate.wish.overhead_gib:g} for the engine"


def _of_hosts(facts: Mapping[str, HostFacts]) -> ModelDetails:
    """What the first host that has the model tells of its files."""
    return _first_of({host: seen.model for host, seen in facts.items()})


def _draft_of_hosts(draft: DraftModel | None, facts: Mapping[str, HostFacts]) -> ModelDetails:
    """The same of the model that drafts for it."""
    return _first_of({host: seen.further[draft.name] for host, seen in facts.items() if draft and draft.name in seen.further})


def _first_of(models: Mapping[str, ModelFacts]) -> ModelDetails:
    found = (_of_files(model, host) for host, model in models.items() if model.path)
    return next((details for details in found if details.sizes_known or details.shape_known), ModelDetails())


def _of_files(model: ModelFacts, host: str) -> ModelDetails:
    source = f"its files on {host}"
    if model.gguf_head:
        return msgspec.structs.replace(details_of_gguf(model.gguf_head, source=source), weight_bytes=model.size_bytes, source=source)
    if not model.config and model.weight_bytes is None:
        return ModelDetails()
    return msgspec.structs.replace(details_of_config(model.config, model.quant_config, source=source), weight_bytes=model.weight_bytes)
