"""What would make a model fit, in the words of the command line and with numbers that do."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from sparkrun.core.limits import Fit, MemoryBudget, judge_fit
from sparkrun.models.vram.estimate import MemoryEstimate

MOST_TENSOR_PARALLEL = 16
"""More GPUs than this are not proposed."""
_ROUND_TOKENS = 1024


def relief(estimate: MemoryEstimate, budget: MemoryBudget) -> str:
    """The ways that lead out, the one that costs least first."""
    return ", or ".join((*_ways(estimate, budget), "start it anyway with --force"))


def _ways(estimate: MemoryEstimate, budget: MemoryBudget) -> Iterator[str]:
    if share := _larger_share(estimate, budget):
        yield f"raise --gpu-mem to {share:g}"
    if tokens := _shorter_context(estimate, budget):
        yield f"lower --max-model-len to {tokens}"
    size = _more_gpus(estimate, budget)
    yield f"spread it over more GPUs with --tp {size}" if size else "take a smaller quantization"


def _larger_share(estimate: MemoryEstimate, budget: MemoryBudget) -> float | None:
    """A utilization that is enough, where the launch itself asks for less than it may have."""
    total, capacity = estimate.need.total_gib, budget.capacity_gib
    if budget.utilization is None or total is None or not capacity:
        return None
    share = math.ceil(total / capacity * 100) / 100
    return share if budget.utilization < share <= budget.cap.fraction else None


def _shorter_context(estimate: MemoryEstimate, budget: MemoryBudget) -> int | None:
    wanted, tokens = estimate.wish.context, estimate.max_context_tokens(budget.allowed_gib)
    if wanted is None or tokens is None or estimate.wish.kv_cache_bytes is not None:
        return None
    rounded = tokens // _ROUND_TOKENS * _ROUND_TOKENS
    return rounded if 0 < rounded < wanted else None


def _more_gpus(estimate: MemoryEstimate, budget: MemoryBudget) -> int | None:
    size = estimate.wish.tensor_parallel
    while (size := size * 2) <= MOST_TENSOR_PARALLEL:
        wish = msgspec.structs.replace(estimate.wish, tensor_parallel=size)
        if judge_fit(msgspec.structs.replace(estimate, wish=wish).need, budget) is Fit.FITS:
            return size
    return None
