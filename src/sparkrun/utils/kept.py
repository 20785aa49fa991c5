"""What slow reading gave, kept on disk beside the very text that was read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from sparkrun.utils.files import write_atomic


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    text: str
    value: Any


def read_once(text: str, read: Callable[[str], object], path: Path) -> object:
    """``read(text)``, or what ``path`` keeps of the same text. A value that JSON would change is read each time."""
    kept = _load(path)
    if kept and kept.text == text:
        return kept.value
    value = read(text)
    with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
        data = msgspec.json.encode(_Kept(text, value))
        if msgspec.json.decode(data, type=_Kept).value == value:
            write_atomic(path, data.decode())
    return value


def _load(path: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, ValueError, RecursionError):
        return None
