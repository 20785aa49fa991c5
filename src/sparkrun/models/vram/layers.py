"""Which layers of a model keep what: a growing cache, one that ends at a window, or a state of fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from sparkrun.models.vram.config_keys import ConfigKeys

LayerKind = Literal["full", "sliding", "recurrent", "none", "unknown"]
"""``full``: grows with every token; ``sliding``: grows up to the window; ``recurrent``: a fixed state; ``none``: keeps nothing."""

_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_HYBRID_LETTERS: dict[str, LayerKind] = {"*": "full", "M": "recurrent", "-": "none", "E": "none"}
_LAYER_WORDS: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "local_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "recurrent",
    "linear": "recurrent",
    "kda": "recurrent",
    "gated_deltanet": "recurrent",
    "mamba": "recurrent",
    "mamba2": "recurrent",
    "conv": "recurrent",
    "recurrent": "recurrent",
    "hybrid": "full",
    "mlp": "none",
    "moe": "none",
}
_SLIDING_BY_DEFAULT = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Every how many layers one is full, for model types whose older configs do not say."""
_WINDOW_EVERYWHERE = frozenset({"mistral", "mixtral", "phi3", "starcoder2"})
"""Model types in which a window holds for all layers."""


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """How many layers of each kind there are. ``recurrent_bytes`` is the state of one sequence in all recurrent layers together."""

    full: int | None = None
    sliding: int = 0
    recurrent: int = 0
    window: int | None = None
    recurrent_bytes: int | None = 0
    """``None``: there is a state, and its size is not known."""


MOST_LAYERS = 10_000
"""No model has nearly as many; a larger number in a config is none that could be counted with."""


def read_layers(config: ConfigKeys) -> Layers:
    """The layers of a model by its ``config.json``."""
    kinds = _kinds(config)
    window = config.whole("sliding_window", "sliding_window_size", "attention_chunk_size")
    if not kinds:
        return _alike(config, window)
    if "unknown" in kinds:
        return Layers()
    if shared := config.whole("num_kv_shared_layers"):
        kinds = kinds[:-shared]  # the last layers read what earlier ones keep (Gemma 3n)
    recurrent = kinds.count("recurrent")
    sliding = kinds.count("sliding") if window else 0
    return Layers(
        full=kinds.count("full") + kinds.count("sliding") - sliding,
        sliding=sliding,
        recurrent=recurrent,
        window=window if sliding else None,
        recurrent_bytes=_times(state_bytes(config), recurrent),
    )


def state_bytes(config: ConfigKeys) -> int | None:
    """The state of one sequence in one recurrent layer, in bytes; ``None`` when the config does not tell its shape."""
    shapes = (_gated_delta_net, _kimi_delta, _mamba2, _mamba1, _short_conv, _lightning)
    return next((size for shape in shapes if (size := shape(config)) is not None), None)


def _alike(config: ConfigKeys, window: int | None) -> Layers:
    """A model that does not list its layers: all are of one kind, or each is of two at once."""
    count = layer_count(config)
    kind = config.text("model_type") or ""
    if kind in ("mamba", "mamba2", "falcon_mamba") and count:
        return Layers(full=0, recurrent=count, recurrent_bytes=_times(state_bytes(config), count))
    if config.get("mamba_d_state", "mamba_d_ssm", "ssm_state_size", "linear_num_value_heads") is not None and count:
        return Layers(full=count, recurrent=count, recurrent_bytes=_times(state_bytes(config), count))
    if window and kind in _WINDOW_EVERYWHERE and config.switch("use_sliding_window") is not False and count:
        return Layers(full=0, sliding=count, window=window)
    return Layers(full=count)


def layer_count(config: ConfigKeys) -> int | None:
    """How many layers the model has."""
    count = config.whole("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    return count if count is None or count <= MOST_LAYERS else None


def _kinds(config: ConfigKeys) -> list[LayerKind]:
    """The kind of each layer; empty where the config does not tell them apart."""
    if words := config.texts("layer_types", "layers_block_type"):
        return [_LAYER_WORDS.get(word, "unknown") for word in words]
    if pattern := config.text("hybrid_override_pattern"):
        return [_HYBRID_LETTERS[letter] for letter in pattern if letter in _HYBRID_LETTERS]
    count = layer_count(config) or 0
    if listed := config.numbers("attn_type_list"):
        return ["full" if each else "recurrent" for each in listed]
    if linear := config.part("linear_attn_config"):
        full = len(linear.numbers("full_attn_layers"))
        return [*_repeated("full", full), *_repeated("recurrent", count - full)]
    return list(_periodic(config, count)) or _at_indices(config, count)


def _repeated(kind: LayerKind, count: int) -> list[LayerKind]:
    return [kind] * max(count, 0)


def _periodic(config: ConfigKeys, count: int) -> Iterator[LayerKind]:
    """Every so many layers one with full attention."""
    if every := config.whole("full_attention_interval"):
        yield from ("full" if (index + 1) % every == 0 else "recurrent" for index in range(count))
    elif every := config.whole("attn_layer_period"):
        offset = config.whole("attn_layer_offset") or 0
        yield from ("full" if index % every == offset else "recurrent" for index in range(count))
    elif every := _window_period(config):
        yield from ("full" if (index + 1) % every == 0 else "sliding" for index in range(count))


def _window_period(config: ConfigKeys) -> int | None:
    said = config.whole("sliding_window_pattern", "_sliding_window_pattern")
    return said or _SLIDING_BY_DEFAULT.get(config.text("model_type") or "") if config.whole("sliding_window") else None


def _at_indices(config: ConfigKeys, count: int) -> list[LayerKind]:
    full = {int(index) for index in config.numbers("attn_layer_indices", "attention_layers_idx")}
    return ["full" if index in full else "recurrent" for index in range(count)] if full else []


def _times(size: int | None, count: int) -> int | None:
    return 0 if not count else None if size is None else size * count


def _gated_delta_net(config: ConfigKeys) -> int | None:
    """Qwen3-Next: convolution over keys (twice) and values in the cache's 2 bytes, and a matrix for each value head in 4."""
    kernel, keys, values = (
        config.whole("linear_conv_kernel_dim"),
        config.whole("linear_num_key_heads"),
        config.whole("linear_num_value_heads"),
    )
    key_dim, value_dim = config.whole("linear_key_head_dim"), config.whole("linear_value_head_dim")
    if not (kernel and keys and values and key_dim and value_dim):
        return None
    return (kernel - 1) * (2 * keys * key_dim + values * value_dim) * 2 + values * key_dim * value_dim * 4


def _kimi_delta(config: ConfigKeys) -> int | None:
    """Kimi Linear: three convolutions (query, key, value) and a square matrix a head."""
    linear = config.part("linear_attn_config")
    if linear is None:
        return None
    heads, dim, kernel = linear.whole("num_heads"), linear.whole("head_dim"), linear.whole("short_conv_kernel_size")
    return (kernel - 1) * 3 * heads * dim * 2 + heads * dim * dim * 4 if heads and dim and kernel else None


def _mamba2(config: ConfigKeys) -> int | None:
    heads = config.whole("mamba_num_heads", "mamba_n_heads") or (
        config.whole("num_heads") if config.text("model_type") == "mamba2" else None
    )
    dim = _mamba_head_dim(config, heads)
    state = config.whole("ssm_state_size", "mamba_d_state", "mamba_state_dim", "state_size")
    groups = config.whole("mamba_n_groups", "n_groups", "mamba_ngroups")
    kernel = config.whole("conv_kernel", "mamba_d_conv", "conv_kernel_size")
    if not (heads and dim and state and groups and kernel):
        return None
    width = _STATE_BYTES.get(config.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "", 4)
    return (kernel - 1) * (heads * dim + 2 * groups * state) * 2 + heads * dim * state * width


def _mamba_head_dim(config: ConfigKeys, heads: int | None) -> int | None:
    said = config.whole("mamba_head_dim", "mamba_d_head")
    if said is None and config.text("model_type") == "mamba2":
        said = config.whole("head_dim")
    if said is not None or not heads:
        return said
    hidden, expand = config.whole("hidden_size"), config.number("mamba_expand", "expand")
    return int(hidden * expand) // heads if hidden and expand else None


def _mamba1(config: ConfigKeys) -> int | None:
    hidden, state = config.whole("hidden_size"), config.whole("mamba_d_state", "state_size")
    kernel, expand = config.whole("mamba_d_conv", "conv_kernel"), config.number("mamba_expand", "expand")
    inner = config.whole("intermediate_size") if config.text("model_type") in ("mamba", "falcon_mamba") else None
    inner = inner or (int(hidden * expand) if hidden and expand else None)
    return (kernel - 1) * inner * 2 + inner * state * 4 if inner and state and kernel else None


def _short_conv(config: ConfigKeys) -> int | None:
    """LFM2: nothing but the last inputs of a short convolution."""
    length, hidden = config.whole("conv_L_cache"), config.whole("hidden_size")
    return (length - 1) * hidden * 2 if length and hidden else None


def _lightning(config: ConfigKeys) -> int | None:
    """MiniMax-01: a square matrix a head, in 4 bytes."""
    if not config.numbers("attn_type_list"):
        return None
    heads, dim = config.whole("num_attention_heads"), config.whole("head_dim")
    return heads * dim * dim * 4 if heads and dim else None
