"""How much of an accelerator's memory a launch may use: one chain of caps and one budget, whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from sparkrun.core.errors import PlacementError
from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.utils.text import did_you_mean

CapOrigin = Literal["accelerator", "model", "cluster", "platform", "host", "none"]


class PlatformMemory(msgspec.Struct, frozen=True):
    """What a kind of machine says of one of its accelerators: its cap, and its memory where nobody measured it."""

    cap: float | None = None
    nominal_gib: float | None = None


class MemoryCaps(msgspec.Struct, frozen=True, kw_only=True):
    """Caps that hold for more than one accelerator, as shares of its memory.

    ``models`` is ``accelerator_memory_limits`` of the cluster by accelerator model, ``cluster`` its ``max_gpu_memory_utilization``.
    """

    models: Mapping[str, float] = {}
    cluster: float | None = None
    platform: PlatformMemory = PlatformMemory()


class Cap(msgspec.Struct, frozen=True):
    """The share in force, who gave it, and what was passed over because it is no share."""

    fraction: float = 1.0
    origin: CapOrigin = "none"
    warnings: tuple[str, ...] = ()


class MemoryBudget(msgspec.Struct, frozen=True):
    """What one accelerator offers. ``utilization`` is what the launch itself asks for (``gpu_memory_utilization``), if it does."""

    capacity_gib: float | None = None
    cap: Cap = Cap()
    utilization: float | None = None

    @property
    def fraction(self) -> float:
        """The smaller of cap and utilization."""
        return self.cap.fraction if self.utilization is None else min(self.cap.fraction, self.utilization)

    @property
    def allowed_gib(self) -> float | None:
        """How much a launch may take; ``None`` where the capacity is unknown."""
        return None if self.capacity_gib is None else self.capacity_gib * self.fraction

    @property
    def why(self) -> str:
        """``0.87 of 121 GiB, gpu_memory_utilization``: how the allowance comes about."""
        asked = self.utilization is not None and self.utilization < self.cap.fraction
        source = "gpu_memory_utilization" if asked else _ORIGIN_WORDS[self.cap.origin]
        of = "an unknown capacity" if self.capacity_gib is None else f"{self.capacity_gib:g} GiB"
        return f"{self.fraction:g} of {of}, {source}"


class MemoryNeed(msgspec.Struct, frozen=True):
    """What one rank takes on each of its accelerators, in GiB; ``None`` is not known."""

    weights_gib: float | None = None
    kv_cache_gib: float | None = None

    @property
    def total_gib(self) -> float | None:
        """Weights and KV cache together; without known weights nothing can be said."""
        return None if self.weights_gib is None else self.weights_gib + (self.kv_cache_gib or 0.0)

    def __str__(self) -> str:
        if self.weights_gib is None:
            return "an unknown amount"
        if not self.kv_cache_gib:
            return f"weights {self.weights_gib:.1f} GiB"
        return f"weights {self.weights_gib:.1f} + KV cache {self.kv_cache_gib:.1f} = {self.total_gib:.1f} GiB"


class Fit(StrEnum):
    """Whether a need goes into a budget."""

    FITS = "fits"
    EXCEEDS = "exceeds"
    UNKNOWN = "unknown"


class MemoryExceededError(PlacementError):
    """A rank needs more memory than its accelerator may give. ``need`` and ``budget`` hold the numbers."""

    def __init__(self, need: MemoryNeed, budget: MemoryBudget, *, hint: str | None = None) -> None:
        super().__init__(excess_text(need, budget), hint=hint or _relief(need, budget))
        self.need, self.budget = need, budget


class HostMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a host whose accelerators share it, in GiB: what its ranks take together, and what is available there now."""

    host: str
    need_gib: float
    available_gib: float
    why: str = ""

    @property
    def short(self) -> bool:
        """Whether it has less than it needs."""
        return self.available_gib < self.need_gib

    def __str__(self) -> str:
        return f"{self.host}: needs {self.need_gib:.1f} GiB ({self.why}), {self.available_gib:.1f} available now"


class HostMemoryError(PlacementError):
    """A host has less memory available than its ranks take. ``hosts`` hold the numbers."""

    def __init__(self, hosts: tuple[HostMemory, ...]) -> None:
        hint = "stop what else runs there (sparkrun status), lower --gpu-mem or --max-model-len, or start it anyway with --force"
        super().__init__("\n".join(map(str, hosts)), hint=hint)
        self.hosts = hosts


class MemoryVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch takes of each GPU against what it may take, on the GPU where that is tightest. Sizes are GiB, ``None`` is not known."""

    fit: Fit
    reason: str
    need: MemoryNeed
    budget: MemoryBudget
    host: str = ""
    allowed_gib: float | None = None
    spare_gib: float | None = None
    kv_space_gib: float | None = None
    """What is left for the KV cache beside the weights."""
    overhead_gib: float = 0.0
    """What the engine itself takes besides, about."""
    context: int | None = None
    max_context_tokens: int | None = None
    kv_dtype: str = ""
    kv_label: str = ""
    weights_source: str = ""
    relief: str = ""
    """What would make it fit."""
    hosts: tuple[HostMemory, ...] = ()
    """Hosts whose accelerators share the host's memory, as far as they were looked at."""
    warnings: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """``FITS``, ``EXCEEDS`` or ``UNVERIFIED``."""
        return "UNVERIFIED" if self.fit is Fit.UNKNOWN else self.fit.upper()

    @property
    def line(self) -> str:
        """All of it in one line."""
        if self.fit is Fit.EXCEEDS:
            return f"{self.word}: {self.reason}"
        allowed = "" if self.allowed_gib is None else f" of {self.allowed_gib:.1f} allowed ({self.budget.why})"
        return f"memory per GPU: {self.need}{allowed}: {self.word}" + (f", {self.reason}" if self.reason else "")

    @property
    def refused(self) -> bool:
        """Whether a launch stops here, unless it is forced."""
        return self.fit is Fit.EXCEEDS or any(host.short for host in self.hosts)

    def refuse(self, *, spared: Iterable[str] = ()) -> None:
        """Raise ``MemoryExceededError`` or ``HostMemoryError`` with both numbers. ``spared``: hosts on which memory becomes free first."""
        refuse_excess(self.need, self.budget, hint=self.relief or None)
        if short := tuple(host for host in self.hosts if host.short and host.host not in set(spared)):
            raise HostMemoryError(short)


class _Candidate(NamedTuple):
    value: float | None
    origin: CapOrigin
    name: str


def choose_cap(accelerator: AcceleratorSpec, caps: MemoryCaps) -> Cap:
    """The first that is given: the accelerator's own cap, the cluster's for its model, the cluster's for all, the platform's, 1.0.

    A value outside (0, 1] is passed over with a warning.
    """
    warnings: list[str] = []
    for candidate in _candidates(accelerator, caps):
        if candidate.value is None:
            continue
        if 0 < candidate.value <= 1:
            return Cap(candidate.value, candidate.origin, tuple(warnings))
        warnings.append(f"{candidate.name} is {candidate.value:g}, not above 0 and at most 1; it is ignored")
    return Cap(warnings=tuple(warnings))


def memory_budget(accelerator: AcceleratorSpec, caps: MemoryCaps, utilization: float | None = None) -> MemoryBudget:
    """What one accelerator of this kind offers.

    Leave ``utilization`` out where the launch sizes its KV cache in bytes: the engine then ignores the share.
    """
    capacity = caps.platform.nominal_gib if accelerator.memory_gb is None else accelerator.memory_gb
    return MemoryBudget(capacity, choose_cap(accelerator, caps), utilization)


def gpu_budgets(hardware: HostHardware, caps: MemoryCaps, utilization: float | None = None) -> tuple[MemoryBudget, ...]:
    """The budget of each accelerator of a host, in the order of their index."""
    return tuple(memory_budget(spec, caps, utilization) for spec in hardware.accelerators for _ in range(spec.count))


def smallest_budget(budgets: Iterable[MemoryBudget]) -> MemoryBudget:
    """The budget that decides for a rank on several accelerators; unknown when one capacity is, or when there is no accelerator."""
    found = list(budgets)
    unknown = next((budget for budget in found if budget.allowed_gib is None), None)
    return unknown or min(found, key=lambda budget: budget.allowed_gib or 0.0, default=MemoryBudget())


def judge_fit(need: MemoryNeed, budget: MemoryBudget) -> Fit:
    """Whether ``need`` goes into ``budget``; unknown is never a refusal."""
    total, allowed = need.total_gib, budget.allowed_gib
    if total is None or allowed is None:
        return Fit.UNKNOWN
    return Fit.FITS if total <= allowed else Fit.EXCEEDS


def refuse_excess(need: MemoryNeed, budget: MemoryBudget, *, hint: str | None = None) -> None:
    """Raises ``MemoryExceededError`` with both numbers when the need is known to exceed the budget. ``hint`` is a better way out."""
    if judge_fit(need, budget) is Fit.EXCEEDS:
        raise MemoryExceededError(need, budget, hint=hint)


def excess_text(need: MemoryNeed, budget: MemoryBudget) -> str:
    """``weights 109.4 GiB per GPU, allowed 105.3 (0.87 of 121 GiB, gpu_memory_utilization)``."""
    allowed = budget.allowed_gib
    return f"{need} per GPU, allowed {'an unknown amount' if allowed is None else f'{allowed:.1f}'} ({budget.why})"


def unmatched_limits(models: Mapping[str, float], hardware: Iterable[HostHardware]) -> tuple[str, ...]:
    """Warnings about ``accelerator_memory_limits`` for models that no host has; none while no hardware is known."""
    present = {spec.model.casefold() for host in hardware for spec in host.accelerators}
    there = ", ".join(sorted(present))
    missing = [model for model in models if present and model.casefold() not in present]
    return tuple(f"accelerator_memory_limits.{model} holds for no accelerator here ({there})" + _meant(model, present) for model in missing)


_ORIGIN_WORDS: Mapping[CapOrigin, str] = {
    "accelerator": "the accelerator's own cap",
    "model": "accelerator_memory_limits of the cluster",
    "cluster": "max_gpu_memory_utilization of the cluster",
    "platform": "the platform's cap",
    "host": "the memory of the host, which has no accelerator",
    "none": "no cap",
}


def _candidates(accelerator: AcceleratorSpec, caps: MemoryCaps) -> Iterator[_Candidate]:
    wanted = accelerator.model.casefold()
    for_model = next((share for model, share in caps.models.items() if model.casefold() == wanted), None)
    yield _Candidate(accelerator.max_gpu_memory_utilization, "accelerator", f"max_gpu_memory_utilization of {accelerator.model}")
    yield _Candidate(for_model, "model", f"accelerator_memory_limits.{accelerator.model}")
    yield _Candidate(caps.cluster, "cluster", "max_gpu_memory_utilization of the cluster")
    yield _Candidate(caps.platform.cap, "platform", "the platform's memory cap")


def _meant(model: str, present: Iterable[str]) -> str:
    hint = did_you_mean(model, sorted(present))
    return f"; {hint}" if hint else ""


def _relief(need: MemoryNeed, budget: MemoryBudget) -> str:
    weights_alone = MemoryNeed(need.weights_gib)
    if judge_fit(weights_alone, budget) is Fit.EXCEEDS:
        return "spread the model over more GPUs (--tp), take a smaller quantization, or start it anyway with --force"
    return "lower the context (--max-model-len), spread the model over more GPUs (--tp), or start it anyway with --force"
