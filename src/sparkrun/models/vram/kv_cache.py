"""How much a KV cache takes: what each token adds, what a window or a state takes once a sequence, and over what it is split."""

from __future__ import annotations

from typing import Literal

import msgspec

from sparkrun.models.vram.architecture import Architecture
from sparkrun.models.vram.dtypes import PACKED_KV, canonical_dtype, kv_bytes

PACKED_LAYER_BYTES = 656
"""A token in a layer of a packed latent cache: 512 values of 1 byte, 16 bytes of scales, 64 rotated ones of 2 (vLLM, FlashMLA)."""
PACKED_LAYER_BYTES_V4 = 584
"""The same of DeepSeek V4."""
INDEX_BLOCK = 128
"""The sparse indexer keeps a scale of 4 bytes for so many of its 1-byte keys (DeepSeek V3.2)."""

KvArch = Literal["dense", "sliding", "mla", "hybrid", "recurrent", "unknown"]


class KvCache(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one sequence. ``None`` is not known; ``floor``: some part of it is not known, so it is at least this."""

    token_bytes: float | None = None
    """What each further token adds, over all layers."""
    window_token_bytes: float = 0.0
    """What each token adds besides, until the window is full."""
    window: int | None = None
    fixed_bytes: int = 0
    """What a sequence takes whatever its length."""
    arch: KvArch = "unknown"
    label: str = "layers and heads not known"
    replicated: bool = False
    """Whether each tensor-parallel rank keeps all of it."""
    kv_heads: int | None = None
    """Over how many heads it can be split at the most; ``None`` is no limit that is known."""
    floor: bool = False

    def total_bytes(self, tokens: int) -> float | None:
        """One sequence of so many tokens."""
        if self.token_bytes is None:
            return None
        in_window = min(tokens, self.window) if self.window else 0
        return self.token_bytes * tokens + self.window_token_bytes * in_window + self.fixed_bytes

    def tokens_in(self, size_bytes: float) -> int | None:
        """How many tokens of one sequence go into so many bytes; ``None`` where a token's size is not known, or nothing."""
        if not self.token_bytes:
            return None
        left = size_bytes - self.fixed_bytes
        both = self.token_bytes + self.window_token_bytes
        if self.window is None or left <= both * self.window:
            return max(int(left / both if self.window else left / self.token_bytes), 0)
        return int((left - self.window_token_bytes * self.window) / self.token_bytes)

    def shards(self, tensor: int, pipeline: int) -> int:
        """Over how many GPUs it is split. Heads that are fewer than the ranks are copied."""
        if self.replicated:
            return pipeline
        return pipeline * (min(tensor, self.kv_heads) if self.kv_heads else tensor)


def size_kv_cache(shape: Architecture, dtype: str, token_gb: float | None = None) -> KvCache:
    """The cache of a model's shape at a dtype. ``token_gb`` (GiB a token) is what a recipe says it is."""
    packed = canonical_dtype(dtype) in PACKED_KV
    latent = shape.latent or packed
    cache = _latent(shape, dtype, packed=packed) if latent else _by_heads(shape, dtype)
    cache = _with_state(cache, shape)
    if token_gb is None:
        return cache
    return msgspec.structs.replace(cache, token_bytes=token_gb * 1024**3, window_token_bytes=0.0, window=None, floor=False)


def _by_heads(shape: Architecture, dtype: str) -> KvCache:
    size, kinds = kv_bytes(dtype), shape.kinds
    if not shape.attends:
        return KvCache(token_bytes=0.0, arch="recurrent", label="recurrent state alone")
    if size is None or kinds.full is None or not shape.kv_heads or not shape.head_dim:
        return KvCache(kv_heads=shape.kv_heads)
    full = 2 * kinds.full * (shape.full_kv_heads or shape.kv_heads) * (shape.full_head_dim or shape.head_dim) * size
    windowed = 2 * kinds.sliding * shape.kv_heads * shape.head_dim * size
    label = f"{kinds.full} layers, {shape.kv_heads} KV heads of {shape.head_dim}"
    if not kinds.sliding:
        return KvCache(token_bytes=full, arch="dense", label=label, kv_heads=shape.kv_heads)
    return KvCache(
        token_bytes=full,
        window_token_bytes=windowed,
        window=kinds.window,
        arch="sliding",
        label=f"{kinds.full} full, {kinds.sliding} sliding layers (window {kinds.window}), {shape.kv_heads} KV heads of {shape.head_dim}",
        kv_heads=min(shape.kv_heads, shape.full_kv_heads or shape.kv_heads),
    )


def _latent(shape: Architecture, dtype: str, *, packed: bool) -> KvCache:
    layer, layers = _latent_layer_bytes(shape, dtype, packed=packed), _latent_layers(shape)
    if layer is None or layers is None:
        return KvCache(arch="mla", label="latent (MLA)", replicated=True)
    layout = f", {canonical_dtype(dtype)} layout" if packed else ""
    return KvCache(
        token_bytes=(layer + _index_bytes(shape)) * layers,
        arch="mla",
        label=f"latent (MLA), {layers:g} layers of {layer:g} bytes a token{layout}",
        replicated=True,
    )


def _latent_layer_bytes(shape: Architecture, dtype: str, *, packed: bool) -> float | None:
    if packed:
        return PACKED_LAYER_BYTES_V4 if shape.model_type.startswith("deepseek_v4") else PACKED_LAYER_BYTES
    size = kv_bytes(dtype)
    width = (shape.kv_lora_rank + (shape.rope_head_dim or 0)) if shape.kv_lora_rank else None
    if width is None and shape.kv_heads == 1:
        width = shape.head_dim  # DeepSeek V4: one head whose key is its value
    return None if width is None or size is None else width * size


def _latent_layers(shape: Architecture) -> float | None:
    """Layers that count in full; one that keeps a vector for every so many tokens counts for that part."""
    if shape.compress_ratios:
        return sum(1 / ratio for ratio in shape.compress_ratios if ratio > 1)
    return shape.kinds.full if shape.kinds.full is not None else shape.layers


def _index_bytes(shape: Architecture) -> int:
    dim = shape.index_head_dim
    return dim + 4 * -(-dim // INDEX_BLOCK) if dim and not shape.compress_ratios else 0


def _with_state(cache: KvCache, shape: Architecture) -> KvCache:
    kinds = shape.kinds
    if not kinds.recurrent:
        return cache
    known = kinds.recurrent_bytes is not None
    arch: KvArch = "hybrid" if shape.attends else "recurrent"
    label = f"{cache.label}, {kinds.recurrent} recurrent layers" if shape.attends else f"{kinds.recurrent} recurrent layers"
    return msgspec.structs.replace(cache, arch=arch, label=label, fixed_bytes=kinds.recurrent_bytes or 0, floor=cache.floor or not known)
