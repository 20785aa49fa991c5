"""The head of a GGUF file: its key-value pairs, read from as many of its first bytes as there are (ggml's docs, "GGUF")."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sparkrun.core.values import ConfigValue

MAGIC = b"GGUF"
HEAD_BYTES = 256 * 1024
"""Enough for all that memory depends on: the tokenizer's long lists come after it."""
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_KEPT_ITEMS = 1024
"""Lists with more items are the tokenizer's, and are not kept."""
# llama.cpp, enum llama_ftype.
FILE_TYPES: Mapping[int, str] = {
    0: "float32", 1: "float16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k", 12: "q3_k", 13: "q3_k",
    14: "q4_k", 15: "q4_k", 16: "q5_k", 17: "q5_k", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs", 21: "q2_k", 22: "iq3_xs", 23: "iq3_xxs",
    24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bfloat16",
    36: "tq1_0", 37: "tq2_0", 38: "mxfp4",
}  # fmt: skip


class _CutOffError(Exception):
    """The bytes end inside a value, or go on with one that cannot be read."""


def parse_gguf_head(data: bytes) -> dict[str, ConfigValue]:
    """The pairs that are whole in ``data``; nothing for what is no GGUF file of version 2 or later. Never fails."""
    if len(data) < 24 or data[:4] != MAGIC or struct.unpack_from("<I", data, 4)[0] < 2:
        return {}
    pairs: dict[str, ConfigValue] = {}
    reader = _Reader(data, 24)
    try:
        for _ in range(min(struct.unpack_from("<Q", data, 16)[0], len(data))):
            key = reader.text()
            pairs[key] = reader.value(reader.number("I"))
    except (_CutOffError, UnicodeDecodeError):
        pass
    return pairs


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, code: str) -> int:
        value = self.scalar(code)
        return int(value)

    def scalar(self, code: str) -> int | float | bool:
        size = struct.calcsize(f"<{code}")
        value: int | float | bool = struct.unpack(f"<{code}", self._take(size))[0]
        return value

    def text(self) -> str:
        return self._take(self.number("Q")).decode()

    def value(self, kind: int) -> ConfigValue:
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            return self._list()
        if kind not in _SCALARS:
            raise _CutOffError
        return self.scalar(_SCALARS[kind])

    def _list(self) -> ConfigValue:
        kind, count = self.number("I"), self.number("Q")
        if kind == _LIST:  # no engine reads lists of lists
            raise _CutOffError
        if kind in _SCALARS and count > _KEPT_ITEMS:
            self._take(count * struct.calcsize(f"<{_SCALARS[kind]}"))
            return None
        kept: list[ConfigValue] = []
        for index in range(count):
            value = self.value(kind)
            if index < _KEPT_ITEMS:
                kept.append(value)
        return kept if count <= _KEPT_ITEMS else None

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise _CutOffError
        part = self._data[self._at : end]
        self._at = end
        return part
