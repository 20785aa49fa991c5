"""What results of entry points have in common."""

from __future__ import annotations

from typing import Any

import msgspec


class PlainData(msgspec.Struct, frozen=True):
    """A result that programs read as plain data: the documented, versioned shape of ``--json``."""

    def to_json(self) -> dict[str, Any]:
        """Every field, as text, numbers, lists and mappings."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data
