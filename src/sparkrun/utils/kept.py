"""What slow reading gave, kept on disk beside the very text that was read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from sparkrun.utils.files import write_atomic
from sparkrun.utils.jsonio import read_json


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
        if read_json(data, _Kept).value == value:
            write_atomic(path, data.decode())
    return value


def _load(path: Path) -> _Kept | None:
    try:
        return read_json(path.read_bytes(), _Kept)
    except (OSError, ValueError):
        return None
