"""A bound on speed: no token comes faster than the weights it needs are read from memory."""

from __future__ import annotations

import msgspec

from sparkrun.models.vram.dtypes import weight_bytes
from sparkrun.models.vram.estimate import MemoryEstimate

GB = 1e9


class SpeedBound(msgspec.Struct, frozen=True, kw_only=True):
    """The most tokens a second that one request can get without speculation, or ``reason``: why that cannot be told.

    ``active_bytes`` are the weights that one token reads.
    """

    tokens_per_s: float | None = None
    active_bytes: float | None = None
    bandwidth_gb_s: float | None = None
    reason: str = ""


def bound_speed(estimate: MemoryEstimate, bandwidth_gb_s: float | None) -> SpeedBound:
    """Active bytes over the memory bandwidth of all GPUs that read at once: the tensor-parallel ones; stages of a pipeline take turns."""
    active, reason = _active_bytes(estimate)
    if active is None:
        return SpeedBound(bandwidth_gb_s=bandwidth_gb_s, reason=reason)
    if bandwidth_gb_s is None:
        return SpeedBound(active_bytes=active, reason="the memory bandwidth of this accelerator is not known")
    together = bandwidth_gb_s * GB * estimate.wish.tensor_parallel
    return SpeedBound(tokens_per_s=together / active, active_bytes=active, bandwidth_gb_s=bandwidth_gb_s)


def _active_bytes(estimate: MemoryEstimate) -> tuple[float | None, str]:
    weights, shape = estimate.weights, estimate.shape
    if not weights.size_bytes:
        return None, "the size of the weights is not known"
    if shape.mixture is None:
        return None, "whether every token reads all weights is not known (the model's config.json is not at hand)"
    if not shape.mixture:
        return weights.size_bytes, ""
    experts, size = shape.experts, weight_bytes(weights.dtype) if weights.dtype else None
    if experts is None or size is None:
        return None, "which part of the experts a token reads is not known"
    routed = min(experts.params * size, weights.size_bytes)
    return weights.size_bytes - routed * (1 - experts.used / experts.count), ""
