"""How much the weights take, from the first source that tells it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sparkrun.core.recipe.schema import Values
from sparkrun.core.values import is_off
from sparkrun.models.vram.config_keys import finite
from sparkrun.models.vram.details import ModelDetails
from sparkrun.models.vram.dtypes import (
    STORAGE_DTYPES,
    canonical_dtype,
    dtype_of_method,
    gguf_quant,
    is_wide,
    parse_params,
    safetensors_bytes,
    weight_bytes,
)

GIB = 1024**3


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of a model. ``source`` says where their size comes from, or why it is not known."""

    size_bytes: float | None = None
    params: float | None = None
    dtype: str | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()


def size_weights(metadata: Values, quantization: str | None, details: ModelDetails, quant_name: str | None = None) -> Weights:
    """The weights by a recipe's metadata, else by the model's files.

    ``quantization`` is the method that the recipe's configuration asks for, ``quant_name`` what follows the colon of a GGUF model.
    """
    warnings = list(_unread(metadata))
    dtype = _dtype(metadata, quantization, details, quant_name, warnings)
    params = parse_params(metadata.get("model_params"))
    if vram := _positive(metadata, "model_vram"):
        return Weights(size_bytes=vram * GIB, params=params, dtype=dtype, source="metadata.model_vram", warnings=tuple(warnings))
    if params is not None:
        return _by_params(params, dtype, "metadata.model_params", warnings)
    if details.sizes_known:
        return _by_files(metadata, quantization, details, dtype, warnings)
    return Weights(dtype=dtype, source="neither metadata.model_params nor the model's files are at hand", warnings=tuple(warnings))


def _unread(metadata: Values) -> Iterator[str]:
    for key, wanted, read in (
        ("model_params", "a number or like 7B", parse_params(metadata.get("model_params"))),
        ("model_vram", "a number of GiB", _positive(metadata, "model_vram")),
    ):
        if not is_off(metadata.get(key)) and not read:
            yield f"metadata.{key} {metadata[key]!r} is not {wanted}; it is passed over"


def _by_params(params: float, dtype: str | None, source: str, warnings: list[str]) -> Weights:
    size = weight_bytes(dtype) if dtype else None
    if size is None:
        why = f"{params / 1e9:g}B parameters of unknown dtype: set metadata.model_dtype"
        return Weights(params=params, dtype=dtype, source=why, warnings=tuple(warnings))
    return Weights(size_bytes=params * size, params=params, dtype=dtype, source=f"{source} × {size:g} bytes", warnings=tuple(warnings))


def _by_files(metadata: Values, quantization: str | None, details: ModelDetails, dtype: str | None, warnings: list[str]) -> Weights:
    stored = details.weight_bytes
    if stored is None:
        stored = sum(count * safetensors_bytes(kind) for kind, count in details.type_counts.items())
    storage = _storage_dtype(details)
    params = _params(details, stored, storage)
    target = _runtime_target(metadata, quantization, details, storage)
    if target and params is not None and (size := weight_bytes(target)) is not None:
        source = f"{details.source}, quantised to {target} while loading"
        return Weights(size_bytes=params * size, params=params, dtype=target, source=source, warnings=tuple(warnings))
    return Weights(size_bytes=float(stored), params=params, dtype=dtype or storage, source=details.source, warnings=tuple(warnings))


def _storage_dtype(details: ModelDetails) -> str | None:
    if details.type_counts:
        largest = max(details.type_counts, key=lambda kind: details.type_counts[kind])
        return STORAGE_DTYPES.get(largest) or details.dtype
    return details.dtype


def _params(details: ModelDetails, stored: int, storage: str | None) -> float | None:
    """How many weights there are; of packed ones the files do not tell."""
    dtype = details.quant_dtype or storage
    if details.type_counts and not details.quant_dtype:
        return float(sum(details.type_counts.values()))
    size = weight_bytes(dtype) if dtype else None
    return stored / size if size else None


def _runtime_target(metadata: Values, quantization: str | None, details: ModelDetails, storage: str | None) -> str | None:
    """What an engine quantises a checkpoint to that is stored as it was trained."""
    if quantization is None or details.quant_dtype or details.quant_method or not is_wide(storage):
        return None
    target = dtype_of_method(quantization, _positive(metadata, "quant_bits"))
    return target if target and not is_wide(target) else None


def _dtype(metadata: Values, quantization: str | None, details: ModelDetails, quant_name: str | None, warnings: list[str]) -> str | None:
    """The first of its sources that is understood."""
    said, method = metadata.get("model_dtype"), metadata.get("quantization")
    bits = _positive(metadata, "quant_bits")
    if isinstance(said, str):
        if weight_bytes(said) is not None:
            return canonical_dtype(said)
        warnings.append(f"metadata.model_dtype '{said}' is not a known dtype; it is passed over")
    for wanted in (method, quantization):
        if isinstance(wanted, str) and wanted.lower() != "none" and (found := dtype_of_method(wanted, bits)):
            return found
    return details.quant_dtype or (gguf_quant(quant_name) if quant_name else None) or details.dtype


def _positive(metadata: Values, key: str) -> float | None:
    number = finite(metadata.get(key))
    return number if number is not None and number > 0 else None
