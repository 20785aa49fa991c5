"""What a recipe takes of memory, told without looking at a host: against a cluster as it is saved, or against a DGX Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.context import SparkrunContext
from sparkrun.core.effective import EffectiveConfig, Tiers, parse_overrides
from sparkrun.core.errors import RecipeError, UsageError
from sparkrun.core.hardware import AcceleratorSpec, HostHardware, known_hardware
from sparkrun.core.hosts import HostOptions, HostSelection, resolve_hosts
from sparkrun.core.limits import Fit, MemoryBudget, MemoryCaps, MemoryVerdict, memory_budget, smallest_budget
from sparkrun.core.memory_check import platform_memory, verdict_of, with_draft
from sparkrun.core.model_source import parse_model
from sparkrun.core.recipe import Recipe, runtime_in_force
from sparkrun.core.recipe.memory import SHARES, fraction_problem, takes_gib
from sparkrun.core.recipe.validate import PLAIN_SURROUNDINGS
from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.estimate import MemoryEstimate, MemoryWish, estimate_memory
from sparkrun.models.vram.find import ModelAnswer, ModelQuestion, find_model
from sparkrun.models.vram.speed import SpeedBound, bound_speed
from sparkrun.platforms import resolve_platform
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.memory_wish import memory_share, memory_wish

VRAM_SCHEMA = "sparkrun.vram/1"
_DIGITS = 4


class VramOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to estimate, and against which hosts."""

    hosts: HostOptions = HostOptions()
    overrides: tuple[str, ...] = ()
    """``key=value`` texts."""
    settings: dict[str, ConfigValue] = {}
    """Values of dedicated options (``tensor_parallel``, ``max_model_len`` …); they win over ``overrides``."""
    auto_detect: bool = True
    """Read the model's own files; without, only the recipe's metadata counts."""
    ask_hub: bool = True
    """Whether the hub may be asked for what is not known here."""


class VramReport(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate of a recipe, what it is measured against, and the speed that memory allows. ``to_json`` is the shape of ``--json``."""

    recipe: str
    model: str
    runtime: str
    estimate: MemoryEstimate
    verdict: MemoryVerdict
    speed: SpeedBound
    hosts: tuple[str, ...] = ()
    against: str = ""
    """In words, whose memory it is measured against."""
    assumed: bool = False
    """Whether that memory is assumed, since nobody saved what the hosts have."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; sizes that end in ``_gb`` are GiB."""
        estimate, verdict, tokens = self.estimate, self.verdict, self.verdict.max_context_tokens
        context, params = estimate.wish.context, estimate.weights.params
        return {
            "schema": VRAM_SCHEMA,
            "recipe": self.recipe,
            "model": self.model,
            "runtime": self.runtime,
            "model_weights_gb": _rounded(estimate.weights_gib),
            "kv_cache_per_token_bytes": None if estimate.kv.token_bytes is None else math.ceil(estimate.kv.token_bytes),
            "kv_cache_total_gb": _rounded(estimate.kv_total_gib),
            "total_per_gpu_gb": _rounded(estimate.need.total_gib),
            "max_model_len": context,
            "tensor_parallel": estimate.wish.tensor_parallel,
            "pipeline_parallel": estimate.wish.pipeline_parallel,
            "warnings": [*([f"not complete: {estimate.missing}"] if estimate.missing else []), *self.warnings],
            "model_params": None if params is None else round(params),
            "model_dtype": estimate.weights.dtype,
            "kv_dtype": estimate.kv_dtype,
            "num_layers": estimate.shape.layers,
            "num_kv_heads": estimate.shape.kv_heads,
            "head_dim": estimate.shape.head_dim,
            "kv_arch": estimate.kv.arch,
            "kv_arch_label": estimate.kv.label,
            "kv_cache_replicated": estimate.kv.replicated,
            "kv_estimate_is_floor": estimate.kv_is_floor,
            "gpu_memory_utilization": verdict.budget.utilization,
            "total_gpu_memory_gb": _rounded(verdict.budget.capacity_gib),
            "usable_gpu_memory_gb": _rounded(verdict.allowed_gib),
            "available_kv_gb": _rounded(verdict.kv_space_gib),
            "max_context_tokens": tokens,
            "context_multiplier": None if tokens is None or not context else round(tokens / context, 2),
            "model_max_len": estimate.shape.max_len,
            "kv_cache_memory_bytes": estimate.wish.kv_cache_bytes,
            "kv_cache_per_gpu_gb": _rounded(estimate.kv_per_gpu_gib),
            "memory_estimate_complete": estimate.complete,
            "weights_per_gpu_gb": _rounded(estimate.weights_per_gpu_gib),
            "weights_source": estimate.weights.source,
            "runtime_overhead_gb": estimate.wish.overhead_gib,
            "fit": verdict.fit.value,
            "fit_reason": verdict.reason,
            "relief": verdict.relief,
            "budget": verdict.budget.why,
            "hosts": list(self.hosts),
            "against": self.against,
            "assumed": self.assumed,
            "speed": {
                "tokens_per_s_at_most": _rounded(self.speed.tokens_per_s),
                "active_bytes": None if self.speed.active_bytes is None else round(self.speed.active_bytes),
                "memory_bandwidth_gb_s": self.speed.bandwidth_gb_s,
                "reason": self.speed.reason,
            },
        }


class _Ground(msgspec.Struct, frozen=True):
    """The accelerators that a recipe is measured against, and who has them."""

    hardware: dict[str, HostHardware]
    caps: MemoryCaps
    against: str
    assumed: bool

    @property
    def first(self) -> HostHardware:
        return next(iter(self.hardware.values()))


def report_vram(recipe: Recipe, options: VramOptions, sctx: SparkrunContext) -> VramReport:
    """The report on a recipe. Contacts no host; asks the hub only where that is allowed. Raises ``UsageError`` or ``RecipeError``."""
    runtime = Plugins(sctx.config).runtime(runtime_in_force(recipe, parse_overrides(options.overrides)))
    selection = resolve_hosts(options.hosts, sctx.config)
    ground = _ground(selection)
    config = _configuration(recipe, runtime, options, ground, sctx)
    refuse_sizes(recipe, config)
    wish = memory_wish(runtime, recipe, config, ranks=_ranks(recipe, selection))
    answer, estimate = _estimate(recipe, wish, options, _where_allowed(selection, sctx))
    share = None if estimate.wish.kv_cache_bytes is not None else memory_share(runtime, recipe, config, _capacity(ground))
    budget, bandwidth = _budget(ground, share, estimate)
    verdict = verdict_of(estimate, budget, problem=answer.problem)
    return VramReport(
        recipe=recipe.name,
        model=recipe.model,
        runtime=runtime.plugin_name,
        estimate=estimate,
        verdict=verdict,
        speed=bound_speed(estimate, bandwidth),
        hosts=selection.hosts if selection else (),
        against=ground.against,
        assumed=ground.assumed,
        warnings=tuple(
            dict.fromkeys((*_warnings(recipe, selection), *_too_few(ground, estimate), *_unasked(answer, verdict), *verdict.warnings))
        ),
    )


def refuse_sizes(recipe: Recipe, config: EffectiveConfig) -> None:
    """A share of memory that is none, whoever gave it. Raises ``UsageError`` for an option, else ``RecipeError``."""
    for key in SHARES:
        if config.is_off(key) or key not in config or takes_gib(recipe.command, key):
            continue
        if problem := fraction_problem(key, config.get(key), PLAIN_SURROUNDINGS.memory_gib):
            kind = UsageError if config.origin(key) == "override" else RecipeError
            raise kind(problem, hint="give a fraction between 0 and 1")


def _ground(selection: HostSelection | None) -> _Ground:
    if selection is None:
        return _Ground({"": known_hardware(None)}, MemoryCaps(), "a DGX Spark with 121 GiB: no cluster is known", True)
    cluster = selection.cluster
    saved = cluster.hardware if cluster else {}
    unseen = [host for host in selection.hosts if host not in saved]
    hardware = {host: known_hardware(saved.get(host)) for host in selection.hosts}
    against = f"{', '.join(selection.hosts)} ({selection.origin})"
    if unseen:
        against += f"; taken for DGX Sparks with 121 GiB: {', '.join(unseen)}"
    return _Ground(hardware, cluster.memory_caps if cluster else MemoryCaps(), against, bool(unseen))


def _configuration(recipe: Recipe, runtime: RuntimePlugin, options: VramOptions, ground: _Ground, sctx: SparkrunContext) -> EffectiveConfig:
    user = sctx.config.mapping("defaults.runtimes").get(runtime.plugin_name)
    tiers = Tiers(
        overrides={**parse_overrides(options.overrides), **options.settings},
        user=user if isinstance(user, dict) else {},
        platform=resolve_platform(ground.first).config_defaults(runtime.plugin_name),
        runtime=runtime.defaults,
    )
    return runtime.configuration(recipe, tiers)


def _where_allowed(selection: HostSelection | None, sctx: SparkrunContext) -> SparkrunContext:
    """The context, offline where the cluster is."""
    cluster = selection.cluster if selection else None
    return msgspec.structs.replace(sctx, offline=True) if cluster and cluster.offline and not sctx.online else sctx


def _ranks(recipe: Recipe, selection: HostSelection | None) -> int:
    """How many hosts an engine shares the model over that takes every host it gets."""
    given = len(selection.hosts) if selection else 1
    return max(min(given, recipe.max_nodes or given), recipe.min_nodes)


def _estimate(recipe: Recipe, wish: MemoryWish, options: VramOptions, sctx: SparkrunContext) -> tuple[ModelAnswer, MemoryEstimate]:
    if not options.auto_detect:
        return ModelAnswer(), estimate_memory(wish)
    question = ModelQuestion(
        model=parse_model(recipe.model),
        revision=recipe.revision or None,
        wish=wish,
        config=sctx.config,
        make_hub=sctx.make_hub if options.ask_hub and not sctx.offline else None,
        thorough=options.ask_hub,
    )
    answer = find_model(question)
    return answer, estimate_memory(with_draft(wish, answer.draft), answer.details)


def _capacity(ground: _Ground) -> float | None:
    return min((spec.memory_gb for hardware in ground.hardware.values() for spec in hardware.accelerators if spec.memory_gb), default=None)


def _budget(ground: _Ground, share: float | None, estimate: MemoryEstimate) -> tuple[MemoryBudget, float | None]:
    """The tightest of the roomiest GPUs, as many of them as the model is split over; and the bandwidth of the slowest of these."""
    offers = [offer for hardware in ground.hardware.values() for offer in _offers(hardware, ground.caps, share)]
    offers.sort(key=lambda offer: -(offer[0].allowed_gib or 0.0))
    chosen = offers[: estimate.wish.tensor_parallel * estimate.wish.pipeline_parallel]
    speeds = [speed for _, speed in chosen]
    return smallest_budget(budget for budget, _ in chosen), _slowest(speeds)


def _offers(hardware: HostHardware, caps: MemoryCaps, share: float | None) -> Iterable[tuple[MemoryBudget, float | None]]:
    of_host = msgspec.structs.replace(caps, platform=platform_memory(hardware))
    for spec in hardware.accelerators:
        offer = memory_budget(spec, of_host, share), _bandwidth(hardware, spec)
        yield from (offer for _ in range(spec.count))


def _bandwidth(hardware: HostHardware, spec: AcceleratorSpec) -> float | None:
    return resolve_platform(hardware).memory_bandwidth_gb_s(spec.model)


def _slowest(speeds: list[float | None]) -> float | None:
    known = [speed for speed in speeds if speed is not None]
    return min(known) if known and len(known) == len(speeds) else None


def _unasked(answer: ModelAnswer, verdict: MemoryVerdict) -> Iterable[str]:
    """What the hub did not tell, where the verdict does not say so itself."""
    return [answer.problem] if answer.problem and verdict.fit is not Fit.UNKNOWN else []


def _warnings(recipe: Recipe, selection: HostSelection | None) -> Iterable[str]:
    if recipe.overrides:
        yield "the recipe's conditional overrides are not counted: which of them hold is known at launch"
    yield from selection.cluster.warnings if selection and selection.cluster else ()


def _too_few(ground: _Ground, estimate: MemoryEstimate) -> Iterable[str]:
    """That the hosts have fewer GPUs than the model is split over. Of a machine that is assumed there may be as many as wanted."""
    wanted, wish = estimate.wish.tensor_parallel * estimate.wish.pipeline_parallel, estimate.wish
    found = sum(hardware.gpu_count for hardware in ground.hardware.values())
    if "" not in ground.hardware and found < wanted:
        split = f"tensor_parallel {wish.tensor_parallel} × pipeline_parallel {wish.pipeline_parallel}"
        yield f"{split} needs {wanted} GPUs, the hosts have {found}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
