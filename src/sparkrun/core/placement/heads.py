"""Whether a model's attention can be split over a number of tensor-parallel ranks."""

from __future__ import annotations

from sparkrun.core.placement.errors import TensorParallelError

USUAL_RANKS = 16
"""Choices are told up to this many ranks, or up to what was asked for."""


def check_tensor_parallel(size: int, *, attention_heads: int | None = None, kv_heads: int | None = None) -> None:
    """Raises ``TensorParallelError`` with both numbers and the legal choices. What is ``None`` is not known and not judged.

    Query heads are split evenly. KV heads are too, or each of them is copied to the same number of ranks when there are more ranks
    than heads (vLLM ``ModelConfig.verify_with_parallel_config`` and ``QKVParallelLinear``; SGLang and TensorRT-LLM do likewise).
    """
    if splits(size, attention_heads, kv_heads):
        return
    if attention_heads is not None and attention_heads % size:
        wrong = f"tensor_parallel {size} does not divide {attention_heads} attention heads"
    else:
        wrong = f"tensor_parallel {size} neither divides {kv_heads} KV heads nor is a multiple of them"
    raise TensorParallelError(wrong, legal_sizes(size, attention_heads, kv_heads))


def splits(size: int, attention_heads: int | None, kv_heads: int | None) -> bool:
    """Whether the known heads can be split over ``size`` ranks."""
    if attention_heads is not None and attention_heads % size:
        return False
    return kv_heads is None or not kv_heads % size or not size % kv_heads


def legal_sizes(size: int, attention_heads: int | None, kv_heads: int | None) -> tuple[int, ...]:
    """The sizes that would do, 1 first."""
    return tuple(choice for choice in range(1, max(size, USUAL_RANKS) + 1) if splits(choice, attention_heads, kv_heads))
