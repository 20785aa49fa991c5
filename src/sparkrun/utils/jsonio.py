"""JSON that somebody else wrote, so that only one error says that it is none of what is wanted."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_json(text: str | bytes, kind: type[T]) -> T:
    """The ``kind`` that stands in ``text``. Raises ``msgspec.DecodeError``, also for a text that is nested too deeply to read."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
