"""What is known of a model's own files, whoever told it: the hub, a cache, a host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from sparkrun.core.recipe.schema import Values
from sparkrun.models.vram.architecture import Architecture, gguf_architecture, read_architecture
from sparkrun.models.vram.config_keys import ConfigKeys, parse_json
from sparkrun.models.vram.dtypes import canonical_dtype, dtype_of_method
from sparkrun.models.vram.gguf import FILE_TYPES, parse_gguf_head

CONFIG = "config.json"
QUANT_CONFIG = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
_WEIGHTS = re.compile(r"model[^/]*\.safetensors")
_OTHER_WEIGHTS = re.compile(r"(?!adapter|consolidated|optimizer)[^/]+\.safetensors")


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a model's files; what nobody told is ``None``. ``source`` says in words who did."""

    shape: Architecture = Architecture()
    weight_bytes: int | None = None
    """The size of the files that hold the weights."""
    type_counts: Mapping[str, int] = {}
    """Elements by safetensors type."""
    dtype: str | None = None
    """What weights are stored in, before any quantisation (``torch_dtype``)."""
    quant_dtype: str | None = None
    """What the checkpoint's own quantisation makes of them."""
    quant_method: str | None = None
    kv_dtype: str | None = None
    """What the checkpoint's quantisation wants for the KV cache."""
    gguf: bool = False
    source: str = ""
    gated: bool = False
    """Whether the hub wants a token that may read it."""

    @property
    def sizes_known(self) -> bool:
        """Whether the weights can be told."""
        return self.weight_bytes is not None or bool(self.type_counts)

    @property
    def shape_known(self) -> bool:
        """Whether a KV cache can be told."""
        return self.shape.layers is not None

    def completed_by(self, other: ModelDetails) -> ModelDetails:
        """This, with what ``other`` knows where this knows nothing."""
        taken = {
            name: getattr(other, name)
            for name in ("weight_bytes", "type_counts", "dtype", "quant_dtype", "quant_method", "kv_dtype")
            if not getattr(self, name)
        }
        shape = self.shape if self.shape_known else other.shape
        used = any(taken.values()) or (other.shape_known and not self.shape_known)
        source = " and ".join(dict.fromkeys(each for each in (self.source, other.source if used else "") if each))
        return msgspec.structs.replace(self, **taken, shape=shape, source=source, gguf=self.gguf or other.gguf)


class Quantization(NamedTuple):
    """What a checkpoint says of its own quantisation."""

    method: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None


def details_of_config(text: str | bytes, quant_text: str | bytes = "", *, source: str) -> ModelDetails:
    """What ``config.json``, and ``hf_quant_config.json`` beside it, tell."""
    values = parse_json(text) or {}
    quant = read_quantization(values)
    if quant_text:
        second = _modelopt(ConfigKeys(parse_json(quant_text) or {}).part("quantization"))
        quant = Quantization(quant.method or second.method, quant.dtype or second.dtype, quant.kv_dtype or second.kv_dtype)
    dtype = ConfigKeys(values).text("torch_dtype", "dtype")
    return ModelDetails(
        shape=read_architecture(values),
        dtype=canonical_dtype(dtype) if dtype else None,
        quant_dtype=quant.dtype,
        quant_method=quant.method,
        kv_dtype=quant.kv_dtype,
        source=source,
    )


def details_of_gguf(head: bytes, *, source: str) -> ModelDetails:
    """What the first bytes of a GGUF file tell."""
    pairs = parse_gguf_head(head)
    kind = pairs.get("general.file_type")
    dtype = FILE_TYPES.get(kind) if isinstance(kind, int) else None
    if not pairs:
        return ModelDetails(quant_method="gguf", gguf=True)
    return ModelDetails(shape=gguf_architecture(pairs), quant_dtype=dtype, quant_method="gguf", gguf=True, source=source)


def read_quantization(values: Values) -> Quantization:
    """``quantization_config`` of a ``config.json``, by the shapes that the methods write."""
    config = ConfigKeys(values).part("quantization_config", "compression_config")
    if config is None:
        return Quantization()
    method = (config.text("quant_method") or "").lower()
    if method == "modelopt" or config.text("quant_algo"):
        return _modelopt(config)
    if method == "bitsandbytes":
        return Quantization(method, "int8" if config.switch("load_in_8bit") else "int4")
    if config.part("config_groups"):
        return _compressed(method or "compressed-tensors", config)
    bits = config.number("bits", "w_bit", "weight_bits")
    return Quantization(method or None, dtype_of_method(method, bits) if method else None)


def _modelopt(config: ConfigKeys | None) -> Quantization:
    if config is None:
        return Quantization()
    algorithm, kv = config.text("quant_algo"), config.text("kv_cache_quant_algo")
    scheme = config.part("kv_cache_scheme")
    return Quantization("modelopt", dtype_of_method(algorithm) if algorithm else None, canonical_dtype(kv) if kv else _scheme_dtype(scheme))


def _compressed(method: str, config: ConfigKeys) -> Quantization:
    groups = config.part("config_groups")
    weights = [group.part("weights") for name in ("group_0", "group_1") if groups and (group := groups.part(name))]
    found = next((dtype for each in weights if (dtype := _scheme_dtype(each))), None)
    return Quantization(method, found, _scheme_dtype(config.part("kv_cache_scheme")))


def _scheme_dtype(scheme: ConfigKeys | None) -> str | None:
    """``{num_bits: 4, type: float}`` as a dtype."""
    bits, kind = (scheme.whole("num_bits"), scheme.text("type")) if scheme else (None, None)
    if bits is None:
        return None
    return {4: "fp4", 8: "fp8"}.get(bits) if kind == "float" else {4: "int4", 8: "int8"}.get(bits, f"exl3:{bits}")


def weight_files(names: Iterable[str]) -> tuple[str, ...]:
    """Of the files of a repository those that an engine loads: no adapters, and no second copy in another format."""
    safetensors = sorted(name for name in names if name.endswith(".safetensors"))
    for pattern in (_WEIGHTS, _OTHER_WEIGHTS):
        if found := tuple(name for name in safetensors if pattern.fullmatch(name)):
            return found
    return ()
