"""What a model takes on each GPU: weights and KV cache, split over ranks. Pure: from a recipe's wishes and what is known of the model."""

from __future__ import annotations

import msgspec

from sparkrun.core.limits import MemoryNeed
from sparkrun.core.recipe.schema import Values
from sparkrun.models.vram.architecture import Architecture, with_metadata
from sparkrun.models.vram.config_keys import finite
from sparkrun.models.vram.details import ModelDetails
from sparkrun.models.vram.dtypes import PACKED_KV, canonical_dtype, kv_bytes
from sparkrun.models.vram.kv_cache import KvCache, size_kv_cache
from sparkrun.models.vram.weights import GIB, Weights, size_weights

DEFAULT_KV_DTYPE = "bfloat16"
AUTO = "auto"


class DraftModel(msgspec.Struct, frozen=True):
    """A second, smaller model that guesses tokens ahead, and what is known of it."""

    name: str
    details: ModelDetails = ModelDetails()
    revision: str | None = None


class MemoryWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe and its configuration say about memory."""

    metadata: Values = {}
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context: int | None = None
    """Tokens of one sequence (``max_model_len``); ``None``: not sized."""
    kv_dtype: str | None = None
    """What the command line asks for."""
    kv_dtype_default: str | None = None
    """What the recipe's configuration asks for."""
    kv_dtype_in_command: str | None = None
    """What only the text of the command says."""
    quantization: str | None = None
    quant_name: str | None = None
    kv_cache_bytes: int | None = None
    """The KV cache of each GPU, where somebody fixes it."""
    draft: DraftModel | None = None
    overhead_gib: float = 0.0
    """What the engine itself takes on each GPU, about."""
    unsplit: str | None = None
    """Why the split over GPUs cannot be told (expert parallelism)."""


class MemoryEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; sizes are bytes of the whole model unless they say otherwise, ``None`` is not known."""

    wish: MemoryWish
    shape: Architecture
    weights: Weights
    kv: KvCache
    kv_dtype: str
    draft_weights: Weights | None = None
    draft_kv: KvCache | None = None
    warnings: tuple[str, ...] = ()

    @property
    def weights_gib(self) -> float | None:
        """The weights, a draft model's among them where they are known."""
        if self.weights.size_bytes is None:
            return None
        draft = self.draft_weights.size_bytes if self.draft_weights else 0
        return (self.weights.size_bytes + (draft or 0)) / GIB

    @property
    def weights_per_gpu_gib(self) -> float | None:
        """The weights that each GPU holds."""
        if self.weights_gib is None or self.wish.unsplit:
            return None
        return self.weights_gib / (self.wish.tensor_parallel * self.wish.pipeline_parallel)

    @property
    def kv_shards(self) -> int:
        """Over how many GPUs one KV cache is split."""
        return self.kv.shards(self.wish.tensor_parallel, self.wish.pipeline_parallel)

    @property
    def kv_total_gib(self) -> float | None:
        """The KV cache of one sequence of the wanted length."""
        if self.wish.context is None:
            return None
        caches = [self.kv, *([self.draft_kv] if self.draft_kv else [])]
        sizes = [cache.total_bytes(self.wish.context) for cache in caches]
        return None if sizes[0] is None else sum(size or 0.0 for size in sizes) / GIB

    @property
    def kv_per_gpu_gib(self) -> float | None:
        """The KV cache on each GPU: of one sequence, or as large as somebody fixed it."""
        if self.wish.kv_cache_bytes is not None:
            return self.wish.kv_cache_bytes / GIB
        return None if self.kv_total_gib is None else self.kv_total_gib / self.kv_shards

    @property
    def need(self) -> MemoryNeed:
        """What each GPU has to hold."""
        return MemoryNeed(self.weights_per_gpu_gib, self.kv_per_gpu_gib)

    @property
    def missing(self) -> str | None:
        """What of it is not known, in words; ``None`` when all is."""
        if self.wish.unsplit:
            return self.wish.unsplit
        if self.weights.size_bytes is None:
            return "the size of the weights is not known"
        if self.wish.kv_cache_bytes is None and self.wish.context is not None and self.kv.token_bytes is None:
            return f"the KV cache of {self.wish.context} tokens is not known (the model's layers and heads are not)"
        if self.kv.floor:
            return "the state of the recurrent layers is not known"
        if self.wish.draft and (self.draft_weights is None or self.draft_weights.size_bytes is None):
            return f"the draft model {self.wish.draft.name} is not known"
        return None

    @property
    def complete(self) -> bool:
        """Whether every part of it is known."""
        return self.missing is None

    @property
    def kv_is_floor(self) -> bool:
        """Whether the KV cache is at least this, since some part of it is not known."""
        unknown_draft = self.wish.draft is not None and (self.draft_kv is None or self.draft_kv.token_bytes is None)
        return self.kv.floor or unknown_draft

    def available_kv_gib(self, allowed_gib: float | None) -> float | None:
        """What is left for the KV cache of each GPU within an allowance."""
        if self.wish.kv_cache_bytes is not None:
            return self.wish.kv_cache_bytes / GIB
        if allowed_gib is None or self.weights_per_gpu_gib is None:
            return None
        return max(allowed_gib - self.weights_per_gpu_gib, 0.0)

    def max_context_tokens(self, allowed_gib: float | None) -> int | None:
        """How many tokens of one sequence go into an allowance."""
        room = self.available_kv_gib(allowed_gib)
        return None if room is None else self.kv.tokens_in(room * GIB * self.kv_shards)


def estimate_memory(wish: MemoryWish, details: ModelDetails = ModelDetails()) -> MemoryEstimate:
    """What a model takes by what is known of it. The recipe's metadata beats the model's own files."""
    warnings: list[str] = []
    shape = with_metadata(details.shape, wish.metadata)
    weights = size_weights(wish.metadata, wish.quantization, details, wish.quant_name)
    kv_dtype = _kv_dtype(wish, details, warnings)
    kv = size_kv_cache(shape, kv_dtype, _token_gb(wish.metadata))
    draft_weights, draft_kv = _draft(wish.draft, kv_dtype)
    estimate = MemoryEstimate(
        wish=wish, shape=shape, weights=weights, kv=kv, kv_dtype=kv_dtype, draft_weights=draft_weights, draft_kv=draft_kv
    )
    told = (*weights.warnings, *warnings, *_remarks(estimate))
    return msgspec.structs.replace(estimate, warnings=tuple(dict.fromkeys(told)))


def _kv_dtype(wish: MemoryWish, details: ModelDetails, warnings: list[str]) -> str:
    """The first of its sources that names a dtype which is known; ``auto`` names none."""
    said = wish.metadata.get("kv_dtype")
    sources = (
        (wish.kv_dtype, "kv_cache_dtype of the command line"),
        (said if isinstance(said, str) else None, "metadata.kv_dtype"),
        (details.kv_dtype, "the checkpoint's KV cache dtype"),
        (wish.kv_dtype_default, "kv_cache_dtype"),
        (wish.kv_dtype_in_command, "the KV cache dtype in the command"),
    )
    for value, name in sources:
        if not value or value.strip().lower() == AUTO:
            continue
        dtype = canonical_dtype(value)
        if kv_bytes(dtype) is None and dtype not in PACKED_KV:
            warnings.append(f"{name} '{value}' is not a known dtype; it is passed over")
            continue
        if value == wish.kv_dtype_in_command and name.startswith("the KV"):
            warnings.append(f"the KV cache dtype {value} stands in the command alone; write it under defaults: kv_cache_dtype: {value}")
        return dtype
    return DEFAULT_KV_DTYPE


def _token_gb(metadata: Values) -> float | None:
    number = finite(metadata.get("kv_vram_per_token"))
    return number if number is not None and number > 0 else None


def _draft(draft: DraftModel | None, kv_dtype: str) -> tuple[Weights | None, KvCache | None]:
    if draft is None:
        return None, None
    return size_weights({}, None, draft.details), size_kv_cache(draft.details.shape, kv_dtype)


def _remarks(estimate: MemoryEstimate) -> tuple[str, ...]:
    """What people should know of the numbers."""
    found = []
    tensor, heads = estimate.wish.tensor_parallel, estimate.kv.kv_heads
    if not estimate.kv.replicated and heads and tensor > heads:
        found.append(f"{heads} KV heads on {tensor} tensor-parallel ranks: each is kept {-(-tensor // heads)} times")
    limit, context = estimate.shape.max_len, estimate.wish.context
    if limit and context and context > limit:
        found.append(f"max_model_len {context} is more than the model's own {limit}")
    return tuple(found)
