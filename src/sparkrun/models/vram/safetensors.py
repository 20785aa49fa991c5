"""The header of a safetensors file: how many weights there are of which type (huggingface.co/docs/safetensors)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec

from sparkrun.models.vram.config_keys import MOST
from sparkrun.utils.jsonio import read_json

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""What the format allows a header to be."""


_Dimension = Annotated[int, msgspec.Meta(ge=0)]


class _Tensor(msgspec.Struct):
    dtype: str = ""
    shape: Annotated[tuple[_Dimension, ...], msgspec.Meta(max_length=16)] = ()


def header_bytes(first: bytes) -> int | None:
    """How long the header is, from the first 8 bytes; ``None`` for what is no safetensors file."""
    if len(first) < LENGTH_BYTES:
        return None
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    return length if 0 < length <= MOST_HEADER_BYTES else None


def count_by_type(header: bytes) -> Mapping[str, int] | None:
    """Elements by type (``BF16``, ``F8_E4M3``, ``U8`` …) in a header; ``None`` for a text that is none."""
    try:
        tensors = read_json(header, dict[str, msgspec.Raw])
        counted: Counter[str] = Counter()
        for name, raw in tensors.items():
            if name != "__metadata__":
                tensor = read_json(raw, _Tensor)
                counted[tensor.dtype] += math.prod(tensor.shape)
    except msgspec.DecodeError:
        return None
    return counted if counted.total() <= MOST else None
