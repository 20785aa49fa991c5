"""Bytes per element: of weights by dtype, of a KV cache, and of what a quantisation method makes of weights."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkrun.core.values import ConfigValue
from sparkrun.models.vram.config_keys import finite

_FLOAT_BYTES = {"float64": 8.0, "float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0, "int16": 2.0}
_BYTE_BYTES = {"int8": 1.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "mxfp8": 1.0, "awq8": 1.0, "uint8": 1.0}
_NIBBLE_BYTES = dict.fromkeys(("int4", "awq", "awq4", "gptq", "fp4", "mxfp4", "nvfp4"), 0.5)
# Bits with the scales of each block, from the block layouts of llama.cpp (ggml-common.h); K-quants by their nominal width.
_GGUF_BYTES = {
    "q4_0": 0.5625, "q4_1": 0.625, "q5_0": 0.6875, "q5_1": 0.75, "q8_0": 1.0625, "q8_1": 1.125,
    "q2_k": 0.3125, "q3_k": 0.4375, "q4_k": 0.5625, "q5_k": 0.6875, "q6_k": 0.8125, "q8_k": 1.0625,
    "iq1_s": 0.1875, "iq1_m": 0.1875, "iq2_xxs": 0.25, "iq2_xs": 0.3125, "iq2_s": 0.3125, "iq3_xxs": 0.4063, "iq3_s": 0.4375,
    "iq4_nl": 0.5625, "iq4_xs": 0.5625, "tq1_0": 0.1875, "tq2_0": 0.3125,
}  # fmt: skip
_WEIGHT_BYTES: Mapping[str, float] = {**_FLOAT_BYTES, **_BYTE_BYTES, **_NIBBLE_BYTES, **_GGUF_BYTES}

_ALIASES = {
    "fp64": "float64", "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16",
    "float8": "fp8", "f8": "fp8", "float8_e4m3fn": "fp8_e4m3", "fp8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2",
    "w8a8": "int8", "w8a16": "int8", "mxfp4_moe": "mxfp4",
}  # fmt: skip
_K_QUANT = re.compile(r"(q[2-8]_k)_(?:xxs|xs|xl|s|m|l)")
_UNSLOTH = re.compile(r"ud[-_]")
_EXL = re.compile(r"exl[23]:([0-9]+(?:\.[0-9]+)?)")
_W4 = re.compile(r"w4a(?:4|8|16)(?:_\w+)?")
GGUF_NAME = re.compile(r"(?<![A-Z0-9])(I?Q\d\w*|B?F16|F32|TQ\d_\d|MXFP4\w*|NVFP4)(?=[.-]|$)", re.IGNORECASE)
"""The quantisation in the name of a GGUF file or after the colon of a model."""

SAFETENSORS_BYTES: Mapping[str, int] = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
UNKNOWN_SAFETENSORS_BYTES = 2
STORAGE_DTYPES: Mapping[str, str] = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8"}
"""What a safetensors type is called elsewhere, where its elements are the weights themselves and not packed ones."""

PACKED_KV = frozenset({"fp8_ds_mla", "nvfp4_ds_mla"})
"""Layouts of a compressed KV cache whose size is given for a layer, not for an element."""
_NVFP4_KV_BYTES = 0.5625
"""Half a byte, and a scale of one byte for every 16 elements."""

_METHOD_DTYPES = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "mxfp8": "mxfp8", "fp4": "fp4",
    "modelopt_fp4": "nvfp4", "modelopt_fp8": "fp8", "int4": "int4", "int8": "int8", "w8a8_int8": "int8", "w8a8_fp8": "fp8",
    "experts_int8": "int8", "quark_mxfp4": "mxfp4", "nvfp4_awq": "nvfp4", "w4a8_awq": "int4", "w4a16_awq": "int4",
}  # fmt: skip
_BIT_METHODS = {
    "awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq", "marlin": "gptq", "auto-round": "int4", "autoround": "int4",
    "auto_round": "int4", "inc": "int4", "bitsandbytes": "int4", "bnb": "int4",
}  # fmt: skip
"""Methods of four bits unless somebody says how many."""
_BY_BITS = {4: "int4", 8: "int8", 16: "bfloat16", 32: "float32"}


def canonical_dtype(text: str) -> str:
    """One spelling a dtype: lower case, without ``torch.``, short names written out, the size letter of a K-quant left away."""
    word = text.strip().lower().removeprefix("torch.")
    word = _UNSLOTH.sub("", word, count=1)
    word = _ALIASES.get(word, word)
    match = _K_QUANT.fullmatch(word)
    return match[1] if match else word


def weight_bytes(dtype: str) -> float | None:
    """Bytes of one weight of a dtype; ``None`` for one that nobody here knows."""
    word = canonical_dtype(dtype)
    if found := _EXL.fullmatch(word):
        return float(found[1]) / 8
    return 0.5 if _W4.fullmatch(word) else _WEIGHT_BYTES.get(word)


def kv_bytes(dtype: str) -> float | None:
    """Bytes of one element of a KV cache; ``None`` for a packed layout and for a dtype that nobody here knows."""
    word = canonical_dtype(dtype)
    return _NVFP4_KV_BYTES if word == "nvfp4" else None if word in PACKED_KV else weight_bytes(word)


def safetensors_bytes(dtype: str) -> int:
    """Bytes of one element in a safetensors file."""
    return 1 if dtype.startswith("F8") else SAFETENSORS_BYTES.get(dtype, UNKNOWN_SAFETENSORS_BYTES)


def dtype_of_method(method: str, bits: float | None = None) -> str | None:
    """The dtype of weights that a quantisation method makes; ``None`` where the method alone does not say (``compressed-tensors``)."""
    word = method.strip().lower()
    if word in _METHOD_DTYPES:
        return _METHOD_DTYPES[word]
    if bits is not None and (word in _BIT_METHODS or word not in _WEIGHT_BYTES):
        return _BY_BITS.get(int(bits)) or f"exl3:{bits:g}"
    if word in _BIT_METHODS:
        return _BIT_METHODS[word]
    return canonical_dtype(word) if weight_bytes(word) is not None else None


def is_wide(dtype: str | None) -> bool:
    """Whether weights of this dtype are whole numbers as trained, which an engine can quantise while it loads them."""
    size = weight_bytes(dtype) if dtype else None
    return size is not None and size >= 2


def gguf_quant(name: str) -> str | None:
    """The quantisation that the name of a GGUF file tells, or the word after a model's colon."""
    found = GGUF_NAME.search(name)
    return canonical_dtype(found[1]) if found else None


def parse_params(value: ConfigValue) -> float | None:
    """A number of parameters: ``7B``, ``1.5T``, ``470e9``, ``34_372_770_104``; ``None`` for what is none."""
    if isinstance(value, str):
        text = value.strip().replace("_", "").upper()
        factor = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:], 1.0)
        value = text if factor == 1.0 else text[:-1]
        number = finite(value)
        return None if number is None or number <= 0 else number * factor
    number = finite(value)
    return number if number is not None and number > 0 else None


_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgtKMGT]?)")


def parse_size(value: ConfigValue) -> int | None:
    """A number of bytes as engines read it: ``40G`` counts in 1024s, ``40g`` in 1000s (vLLM, ``human_readable_int``)."""
    found = _SIZE.fullmatch(str(value).strip()) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if found is None:
        return None
    unit = found[2]
    factor = _DECIMAL.get(unit) or (2 ** (10 * (1 + "KMGT".index(unit))) if unit else 1)
    return int(float(found[1]) * factor) or None
