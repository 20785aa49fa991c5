"""What a model is made of, as far as memory depends on it: from ``config.json``, from a GGUF header, from a recipe's metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from sparkrun.core.recipe.schema import Values
from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.config_keys import ConfigKeys, finite
from sparkrun.models.vram.layers import Layers, layer_count, read_layers

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_ROPE_KEEPS = frozenset({"su", "longrope", "llama3", "default", "mrope"})
"""Kinds of rope scaling whose longer context stands in the config already."""
_MLA_TYPES = ("deepseek_v", "deepseek2", "kimik")
_PLAIN_MLP = frozenset({"relu2"})


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """Experts of a mixture: ``params`` of all of them together, of which a token reads ``used`` of ``count``."""

    count: int
    used: int
    params: float


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A model's shape; ``None`` is not known. ``layers`` counts all of them, ``kinds`` those that keep something."""

    model_type: str = ""
    layers: int | None = None
    kinds: Layers = Layers()
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    full_kv_heads: int | None = None
    full_head_dim: int | None = None
    """Of layers with full attention, where they differ from those with a window."""
    max_len: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    index_head_dim: int | None = None
    compress_ratios: tuple[float, ...] = ()
    attends: bool = True
    """Whether there is attention at all that keeps keys and values."""
    mixture: bool | None = None
    """Whether it has experts, as far as its own files tell; ``experts`` are those whose size is known."""
    experts: Experts | None = None

    @property
    def latent(self) -> bool:
        """Whether keys and values are one compressed vector a token (multi-head latent attention)."""
        return self.kv_lora_rank is not None or self.rope_head_dim is not None or self.model_type.startswith(_MLA_TYPES)


def read_architecture(values: Values) -> Architecture:
    """The shape that a ``config.json`` tells. Never fails: what is not told stays unknown."""
    config = ConfigKeys(values)
    heads = config.whole("num_attention_heads", "n_head")
    kinds = read_layers(config)
    return Architecture(
        model_type=config.text("model_type") or "",
        layers=layer_count(config) or None,
        kinds=kinds,
        heads=heads,
        kv_heads=config.whole("num_key_value_heads", "num_kv_heads") or heads,
        head_dim=_head_dim(config, heads),
        full_kv_heads=config.whole("num_global_key_value_heads"),
        full_head_dim=config.whole("global_head_dim"),
        max_len=_max_len(config),
        kv_lora_rank=config.whole("kv_lora_rank"),
        rope_head_dim=config.whole("qk_rope_head_dim") or None,
        index_head_dim=config.whole("index_head_dim") or None,
        compress_ratios=config.numbers("compress_ratios"),
        attends=kinds.full != 0 or kinds.sliding > 0,
        mixture=_expert_count(config) > 1,
        experts=_experts(config),
    )


def with_metadata(found: Architecture, metadata: Values) -> Architecture:
    """The shape with what a recipe's metadata says over it."""

    def whole(key: str) -> int | None:
        number = finite(metadata.get(key))
        return int(number) if number is not None and number > 0 else None

    said: dict[str, object] = {
        "layers": whole("num_layers"),
        "kv_heads": whole("num_kv_heads"),
        "head_dim": whole("head_dim"),
        "max_len": whole("model_max_len"),
        "kv_lora_rank": whole("kv_lora_rank"),
        "rope_head_dim": whole("qk_rope_head_dim"),
        "index_head_dim": whole("index_head_dim"),
        "compress_ratios": _ratios(metadata.get("compress_ratios")),
        "model_type": metadata.get("model_type") if isinstance(metadata.get("model_type"), str) else None,
    }
    kinds = _kinds_said(found.kinds, metadata, whole("num_layers"), whole("attention_layers"))
    changed = msgspec.structs.replace(found, kinds=kinds, **{key: value for key, value in said.items() if value})
    # One number for all layers: those of particular layers no longer hold.
    return msgspec.structs.replace(
        changed,
        attends=found.attends or bool(kinds.full),
        full_kv_heads=None if said["kv_heads"] else found.full_kv_heads,
        full_head_dim=None if said["head_dim"] else found.full_head_dim,
    )


def _kinds_said(found: Layers, metadata: Values, layers: int | None, attention: int | None) -> Layers:
    if words := metadata.get("layer_types"):
        found = read_layers(ConfigKeys({"layer_types": words, "sliding_window": metadata.get("sliding_window") or found.window}))
        found = msgspec.structs.replace(found, recurrent_bytes=found.recurrent_bytes if not found.recurrent else None)
    elif attention:
        found = msgspec.structs.replace(found, full=attention, sliding=0, window=None)
        rest = (layers or 0) - attention
        if rest > 0 and not found.recurrent:
            found = msgspec.structs.replace(found, recurrent=rest, recurrent_bytes=None)
    elif layers and not found.recurrent and not found.sliding:
        found = msgspec.structs.replace(found, full=layers)
    state = finite(metadata.get("recurrent_state_bytes"))
    return found if state is None or state < 0 else msgspec.structs.replace(found, recurrent_bytes=int(state))


def _ratios(value: ConfigValue) -> tuple[float, ...]:
    found = [finite(each) for each in value] if isinstance(value, list) else []
    return tuple(each for each in found if each is not None)


def _head_dim(config: ConfigKeys, heads: int | None) -> int | None:
    said, hidden = config.whole("head_dim"), config.whole("hidden_size", "n_embd")
    return said or (hidden // heads if hidden and heads else None)


def _max_len(config: ConfigKeys) -> int | None:
    lengths = [length for key in _LENGTHS if (length := config.whole(key))]
    if not lengths:
        return None
    longest, rope = min(lengths), config.part("rope_scaling", "rope_parameters")
    if rope is None or (rope.text("rope_type", "type") or "default") in _ROPE_KEEPS:
        return longest
    factor = rope.number("factor") or 1.0
    if rope.text("rope_type", "type") == "yarn":
        longest = rope.whole("original_max_position_embeddings") or longest
    return int(longest * factor)


def _expert_count(config: ConfigKeys) -> int:
    return config.whole("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts") or 0


def _experts(config: ConfigKeys) -> Experts | None:
    """Routed experts alone: shared ones are read by every token."""
    count = _expert_count(config)
    used = config.whole("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_top_k", "moe_topk", "experts_per_token")
    inner = config.whole("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size") or _inner_of_all(config)
    hidden, layers = config.whole("hidden_size"), _expert_layers(config)
    if count < 2 or not (used and inner and hidden and layers):
        return None
    matrices = 2 if config.text("mlp_hidden_act") in _PLAIN_MLP else 3
    return Experts(count=count, used=min(used, count), params=float(count * layers * matrices * hidden * inner))


def _inner_of_all(config: ConfigKeys) -> int | None:
    """Mixtral and its like have no other layers than those with experts, and name the size once."""
    return None if _dense_layers_named(config) else config.whole("intermediate_size")


def _dense_layers_named(config: ConfigKeys) -> bool:
    return config.get("first_k_dense_replace", "mlp_only_layers", "decoder_sparse_step") is not None


def _expert_layers(config: ConfigKeys) -> int:
    if pattern := config.text("hybrid_override_pattern"):
        return pattern.count("E")
    count, step = layer_count(config) or 0, config.whole("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step") or 1
    dense = (config.whole("first_k_dense_replace") or 0) + len(config.numbers("mlp_only_layers"))
    return max(math.ceil((count - dense) / max(step, 1)), 0)


def gguf_architecture(header: Mapping[str, ConfigValue]) -> Architecture:
    """The shape that the head of a GGUF file tells (ggml's docs, "GGUF": keys below the architecture's name)."""
    name = str(header.get("general.architecture") or "")
    head = {key.removeprefix(f"{name}."): value for key, value in header.items() if key.startswith(f"{name}.")}
    latent = head.get("attention.kv_lora_rank")
    values: Values = {
        "model_type": name.replace("-", "_"),
        "num_hidden_layers": head.get("block_count"),
        "num_attention_heads": head.get("attention.head_count"),
        "num_key_value_heads": head.get("attention.head_count_kv"),
        "hidden_size": head.get("embedding_length"),
        "head_dim": head.get("attention.key_length"),
        "max_position_embeddings": head.get("context_length"),
        "kv_lora_rank": latent,
        "qk_rope_head_dim": head.get("rope.dimension_count") if latent else None,
        "num_experts": head.get("expert_count"),
        "num_experts_per_tok": head.get("expert_used_count"),
        "moe_intermediate_size": head.get("expert_feed_forward_length"),
        "first_k_dense_replace": head.get("leading_dense_block_count"),
        "sliding_window": head.get("attention.sliding_window"),
        "full_attention_interval": head.get("full_attention_interval"),
    }
    found = read_architecture({key: value for key, value in values.items() if value is not None})
    return msgspec.structs.replace(found, kinds=_gguf_kinds(found, head))


def _gguf_kinds(found: Architecture, head: Mapping[str, ConfigValue]) -> Layers:
    """Layers without KV heads are recurrent ones; llama.cpp keeps their state in 4 bytes (``llama_hparams::n_embd_r``, ``n_embd_s``)."""
    kinds, listed = found.kinds, head.get("attention.head_count_kv")
    if isinstance(listed, list):
        full = sum(1 for heads in listed if finite(heads))
        kinds = Layers(full=full, recurrent=len(listed) - full if "ssm.state_size" in head else 0)
    kernel, inner, state, groups = (_head_number(head, f"ssm.{key}") for key in ("conv_kernel", "inner_size", "state_size", "group_count"))
    if not inner or not state:
        return kinds
    recurrent = kinds.recurrent or found.layers or 0
    size = (max(kernel - 1, 0) * (inner + 2 * groups * state) + inner * state) * 4
    return msgspec.structs.replace(kinds, recurrent=recurrent, recurrent_bytes=recurrent * size)


def _head_number(head: Mapping[str, ConfigValue], key: str) -> int:
    return int(finite(head.get(key)) or 0)
