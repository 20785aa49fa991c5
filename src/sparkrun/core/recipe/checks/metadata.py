"""Rules on ``metadata``. They only ever suggest: a description never stops a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.values import ConfigValue

_PARAMS = re.compile(r"[0-9][0-9_]*(?:\.[0-9]+)?\s*[KMBT]?", re.IGNORECASE)
_WHOLE = (
    "num_layers",
    "num_kv_heads",
    "head_dim",
    "model_max_len",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "index_head_dim",
    "attention_layers",
    "recurrent_state_bytes",
)
_NUMBERS = ("model_vram", "kv_vram_per_token", "quant_bits")
_METHODS = (
    "awq",
    "gptq",
    "marlin",
    "fp8",
    "nvfp4",
    "mxfp4",
    "bitsandbytes",
    "compressed-tensors",
    "auto-round",
    "autoround",
    "auto_round",
    "gguf",
    "int4",
    "int8",
    "none",
)


def sizes(case: Case) -> Iterator[Finding]:
    """Numbers that memory is estimated from."""
    metadata = case.recipe.metadata
    params = metadata.get("model_params")
    if params is not None and not (_is_number(params) or (isinstance(params, str) and _PARAMS.fullmatch(params.strip()))):
        yield _finding(case, "model_params", f"must be a number or like 7B, not {params!r}")
    for key in _WHOLE:
        value = metadata.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            yield _finding(case, key, f"must be a whole number, not {value!r}")
    for key in _NUMBERS:
        value = metadata.get(key)
        if value is not None and not _is_number(value):
            yield _finding(case, key, f"must be a number, not {value!r}")


def quantization(case: Case) -> Iterator[Finding]:
    """A method that the estimate knows."""
    method = case.recipe.metadata.get("quantization")
    if isinstance(method, str) and method.lower() not in _METHODS:
        yield _finding(case, "quantization", f"{method!r} is not a known method ({', '.join(_METHODS[:7])} …)")


def _finding(case: Case, key: str, message: str) -> Finding:
    fix = "correct it, or remove it: the model's own files are read then"
    return Finding("suggestion", "recipe-metadata", f"metadata.{key} {message}", fix=fix, where=case.where("metadata", key))


def _is_number(value: ConfigValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


METADATA_RULES: tuple[Rule, ...] = (sizes, quantization)
