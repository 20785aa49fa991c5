"""What a recipe wants of memory, read from its configuration and from what its command spells out."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sparkrun.core.effective import EffectiveConfig
from sparkrun.core.errors import RecipeError
from sparkrun.core.flags import FlagKind, FlagMap, flag
from sparkrun.core.placement import node_rule
from sparkrun.core.recipe import Recipe
from sparkrun.core.recipe.memory import SHARES, takes_gib
from sparkrun.core.values import ConfigValue, is_off, number_of
from sparkrun.models.vram.dtypes import kv_bytes, parse_size
from sparkrun.models.vram.estimate import DraftModel, MemoryWish
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.runtimes.engine_calls import engine_call, literals

UTILIZATION = "gpu_memory_utilization"
_CONTEXT = ("ctx_size", "max_model_len")
_DRAFTS = ("speculative_draft_model_path", "speculative_draft_model", "draft_model")
_DRAFT_REVISIONS = ("speculative_draft_model_revision", "draft_model_revision")
_SPELT = frozenset({*_CONTEXT, *_DRAFTS, *_DRAFT_REVISIONS, "kv_cache_memory_bytes", "quantization", "speculative_config"})
_CACHE_TYPES = ("cache_type_k", "cache_type_v")
_BESIDE = FlagMap(
    (
        flag("enable_expert_parallel", kind=FlagKind.PRESENCE, also="-ep"),
        flag("cache_type_k", also="-ctk"),
        flag("cache_type_v", also="-ctv"),
    )
)
"""Flags that memory depends on and that no configuration key stands for: of vLLM, and of llama.cpp."""
_LLAMA_CACHE = "f16"
"""What llama.cpp keeps keys and values in unless it is told otherwise."""


class _Said:
    """The value of a key: what was given for this run, else what the command spells out, else the rest of the chain."""

    def __init__(self, config: EffectiveConfig, spelt: Mapping[str, str | bool]) -> None:
        self._config, self._spelt = config, spelt

    def get(self, *keys: str) -> ConfigValue:
        for key in keys:
            own = self._config.get(key)
            value = self._spelt.get(key, own) if self._config.origin(key) != "override" else own
            if not is_off(value):
                return value
        return None


def memory_wish(
    runtime: RuntimePlugin, recipe: Recipe, config: EffectiveConfig, *, command: str | None = None, ranks: int = 1
) -> MemoryWish:
    """The wish of a recipe. ``command`` is its command as it will run, where that is known; ``ranks`` how many share the model."""
    call = engine_call(command or recipe.command or "", runtime.engine)
    beside = literals(call, _BESIDE, {row.key for row in _BESIDE.flags})
    said = _Said(config, {**literals(call, runtime.flag_map, _SPELT), **beside})
    tensor, pipeline = _size(config, "tensor_parallel"), _size(config, "pipeline_parallel")
    if node_rule(runtime.plugin_name).fills_hosts and tensor * pipeline == 1:
        pipeline = max(ranks, 1)
    origin, dtype = config.origin("kv_cache_dtype"), config.text("kv_cache_dtype")
    quantization = said.get("quantization")
    return MemoryWish(
        metadata=recipe.metadata,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context=parse_size(said.get(*_CONTEXT)),
        kv_dtype=dtype if origin == "override" else None,
        kv_dtype_default=(dtype if origin not in ("override", "launch") else None) or _wider_cache(said),
        kv_dtype_in_command=dtype if origin == "launch" else None,
        quantization=quantization if isinstance(quantization, str) else None,
        quant_name=_quant_name(recipe.model),
        kv_cache_bytes=parse_size(said.get("kv_cache_memory_bytes")),
        draft=_draft(said, recipe.model),
        overhead_gib=runtime.overhead_gib,
        unsplit=_unsplit(runtime, config, said),
    )


def draft_of(runtime: RuntimePlugin, recipe: Recipe, config: EffectiveConfig) -> DraftModel | None:
    """The model that drafts for a recipe's own, as configuration or command name it."""
    spelt = literals(engine_call(recipe.command or "", runtime.engine), runtime.flag_map, _SPELT)
    return _draft(_Said(config, spelt), recipe.model)


def memory_share(
    runtime: RuntimePlugin, recipe: Recipe, config: EffectiveConfig, capacity_gib: float | None, command: str | None = None
) -> float | None:
    """The share of memory that the engine may take, as the recipe says it; ``None`` where nobody does or the engine has none.

    ``command`` is the command as it will run, where that is known: what stands in it holds.
    """
    if runtime.flag_map.by_key(UTILIZATION) is None:
        return None
    value = number_of(shares_in(runtime, command).get(UTILIZATION, config.get(UTILIZATION)))
    if value is None or value <= 0:
        return None
    if takes_gib(recipe.command, UTILIZATION):
        return min(value / capacity_gib, 1.0) if capacity_gib else None
    return value if value <= 1 else None


def shares_in(runtime: RuntimePlugin, command: str | None) -> Mapping[str, str | bool]:
    """Shares of memory that a command itself spells out, words of the user behind ``--`` among them."""
    return literals(engine_call(command, runtime.engine), runtime.flag_map, SHARES) if command else {}


def _size(config: EffectiveConfig, key: str) -> int:
    size = config.whole(key, 1)
    if size < 1:
        raise RecipeError(f"{key} is {size}, less than 1", hint=f"set {key} to 1 or more")
    return size


def _quant_name(model: str) -> str | None:
    """Where the name of a GGUF model may tell its quantisation: after the colon, or in the file's name."""
    return model.rpartition("/")[2] if model.endswith(".gguf") else model.partition(":")[2] or None


def _wider_cache(said: _Said) -> str | None:
    """llama.cpp's types of keys and of values as one: where they differ, the one that takes more."""
    named = [value for key in _CACHE_TYPES if isinstance(value := said.get(key), str)]
    return max(named if len(named) == len(_CACHE_TYPES) else [*named, _LLAMA_CACHE], key=_bytes_of) if named else None


def _bytes_of(dtype: str) -> float:
    return kv_bytes(dtype) or 0.0


def _draft(said: _Said, model: str) -> DraftModel | None:
    mapping = _mapping(said.get("speculative_config"))
    named = said.get(*_DRAFTS) or mapping.get("model")
    revision = said.get(*_DRAFT_REVISIONS) or mapping.get("revision")
    if not isinstance(named, str) or named in ("", model) or "{" in named:
        return None
    return DraftModel(named, revision=str(revision) if revision else None)


def _mapping(value: ConfigValue) -> Mapping[str, ConfigValue]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _unsplit(runtime: RuntimePlugin, config: EffectiveConfig, said: _Said) -> str | None:
    """Parallelism whose split of the weights is not counted here: what it saves would be guessed."""
    replicas = config.whole("data_parallel", 1)
    if runtime.dp_attention(config) and replicas > 1:
        return "data-parallel attention splits weights and KV cache in its own way, which is not counted"
    if replicas > 1 and said.get("enable_expert_parallel") in (True, "true"):
        return "experts are spread over data-parallel ranks too, which is not counted"
    ranks = config.whole("tensor_parallel", 1) * config.whole("pipeline_parallel", 1) * replicas
    return "experts are spread over more ranks, which is not counted" if runtime.world_size(config) > ranks else None
