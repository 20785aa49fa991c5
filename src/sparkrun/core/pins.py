"""Why something in a cache must stay."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sparkrun.utils.jsonio import read_json


class Pin(msgspec.Struct, frozen=True):
    """Who said that it must stay, when (ISO 8601), and why."""

    by: str = ""
    at: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """``it is pinned by me@here (for tests)``."""
        by, why = self.by and f" by {self.by}", self.reason and f" ({self.reason})"
        return f"it is pinned{by}{why}"


P = TypeVar("P", bound=Pin)


def read_pin(text: str, kind: type[P]) -> P:
    """What stands in a pin; somebody may have written something else than JSON into it, which is then the reason."""
    try:
        return read_json(text, kind)
    except msgspec.MsgspecError:
        return kind(reason=text)
