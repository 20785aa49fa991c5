"""Memory as text for people: the block of a plan, and the report on a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkrun.api import VramReport
    from sparkrun.core.limits import MemoryVerdict
    from sparkrun.models.vram.speed import SpeedBound

_LABEL, _VALUE = 9, 11
Row = tuple[str, str, str]


def memory_lines(verdict: MemoryVerdict, *, assumed: bool = False) -> Iterator[str]:
    """The block ``Memory per GPU``. ``assumed``: nobody looked at a host."""
    yield "Memory per GPU:"
    yield from (f"  {line}" for line in _aligned([*_per_gpu(verdict), *_fit(verdict, " (hosts as assumed)" if assumed else "")]))
    yield from (f"  {'warning: ' if host.short else ''}{host}" for host in verdict.hosts)
    yield from (f"  warning: {warning}" for warning in verdict.warnings)


def report_lines(report: VramReport) -> Iterator[str]:
    """What the whole model takes, what each GPU holds and may hold, whether that fits, and what speed memory allows."""
    verdict = report.verdict
    yield from _aligned([*_whole(report), *_budget(report), *_fit(verdict, ""), *_context(report), *_speed(report.speed)])
    yield f"Against: {report.against}"
    yield from (f"warning: {warning}" for warning in report.warnings)


def gib(size: float | None, digits: int = 1) -> str:
    """``14.9 GiB``, or ``?``."""
    return "?" if size is None else f"{size:.{digits}f} GiB"


def _aligned(rows: list[Row]) -> Iterator[str]:
    yield from (f"{label:<{_LABEL}}{value:>{_VALUE}}  {why}".rstrip() for label, value, why in rows)


def _per_gpu(verdict: MemoryVerdict) -> Iterator[Row]:
    yield "Weights", gib(verdict.need.weights_gib), verdict.weights_source
    sized = verdict.context is not None
    words = (
        f"one sequence of {verdict.context:,} tokens, {verdict.kv_dtype}, {verdict.kv_label}" if sized else "no max_model_len: not sized"
    )
    yield "KV", gib(verdict.need.kv_cache_gib), words
    yield "Budget", gib(verdict.allowed_gib), "no accelerator of known memory" if verdict.allowed_gib is None else verdict.budget.why
    yield "Spare", gib(verdict.spare_gib), _room(verdict)


def _room(verdict: MemoryVerdict) -> str:
    tokens = "" if verdict.max_context_tokens is None else f", {verdict.max_context_tokens:,} tokens"
    return "" if verdict.kv_space_gib is None else f"room for a KV cache of {gib(verdict.kv_space_gib)}{tokens}"


def _fit(verdict: MemoryVerdict, besides: str) -> Iterator[Row]:
    yield "Fit", verdict.word, f"{verdict.reason}{besides}".strip()
    if verdict.relief:
        yield "", "", verdict.relief


def _whole(report: VramReport) -> Iterator[Row]:
    estimate = report.estimate
    yield "Weights", gib(estimate.weights_gib, 2), _weight_words(report)
    context, token = estimate.wish.context, estimate.kv.token_bytes
    if estimate.wish.kv_cache_bytes is not None:
        yield "KV cache", gib(estimate.kv_per_gpu_gib, 2), "on each GPU, as kv_cache_memory_bytes says"
    elif context is None:
        per_token = "" if token is None else f"; {token:,.0f} bytes a token, {estimate.kv_dtype}"
        yield "KV cache", "?", f"no max_model_len: not sized{per_token}"
    else:
        words = estimate.kv.label if token is None else f"{token:,.0f} bytes a token, {estimate.kv_dtype}; {estimate.kv.label}"
        yield (
            "KV cache",
            gib(estimate.kv_total_gib, 2),
            f"{context:,} tokens, {words}" + (" (at least)" if estimate.kv_is_floor and estimate.kv_total_gib is not None else ""),
        )


def _weight_words(report: VramReport) -> str:
    weights = report.estimate.weights
    params = "" if weights.params is None else f"{weights.params / 1e9:.3g}B parameters, "
    dtype = f"{weights.dtype}; " if weights.dtype else ""
    return f"{params}{dtype}{weights.source}"


def _budget(report: VramReport) -> Iterator[Row]:
    wish, verdict = report.estimate.wish, report.verdict
    split = f"tensor parallel {wish.tensor_parallel}" + (
        f", pipeline parallel {wish.pipeline_parallel}" if wish.pipeline_parallel > 1 else ""
    )
    parts = f"weights {gib(verdict.need.weights_gib, 2)}, KV cache {gib(verdict.need.kv_cache_gib, 2)}"
    yield "Per GPU", gib(verdict.need.total_gib, 2), f"{parts}; {split}"
    yield "Budget", gib(verdict.allowed_gib, 2), verdict.budget.why
    yield "Engine", f"~{gib(verdict.overhead_gib)}", "what the engine takes besides, a rule of thumb"


def _context(report: VramReport) -> Iterator[Row]:
    tokens, context, limit = report.verdict.max_context_tokens, report.estimate.wish.context, report.estimate.shape.max_len
    if tokens is None:
        return
    times = f", {tokens / context:.1f} times max_model_len" if context else ""
    bound = f"; one sequence has at most {limit:,}, the model's own limit" if limit and tokens > limit else ""
    yield "Context", f"{tokens:,}", f"tokens go into what is left beside the weights{times}{bound}"


def _speed(speed: SpeedBound) -> Iterator[Row]:
    if speed.tokens_per_s is None or speed.active_bytes is None:
        yield "Speed", "?", speed.reason
        return
    read = f"{speed.active_bytes / 1e9:.3g} GB of weights a token at {speed.bandwidth_gb_s:g} GB/s a GPU"
    yield "Speed", f"< {speed.tokens_per_s:.0f} tok/s", f"an upper bound for one request, not a promise: {read}, nothing else counted"
