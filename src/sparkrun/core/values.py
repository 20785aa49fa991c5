"""What a value of a configuration may be, and how it is written."""

from __future__ import annotations

import json
from typing import TypeAlias, TypeGuard

ConfigValue: TypeAlias = "str | int | float | bool | list[ConfigValue] | dict[str, ConfigValue] | None"


def value_text(value: ConfigValue) -> str:
    """A value as an engine reads it: ``true``/``false``, compact JSON for lists and mappings, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return compact_json(value)
    return str(value)


def compact_json(value: ConfigValue) -> str:
    """JSON on one line without blanks between its parts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_off(value: ConfigValue) -> bool:
    """Whether a value switches its setting off: null, empty text or an empty list."""
    return value is None or value in ("", [])


MOST = 1e9
"""No time in seconds or days and no count that somebody sets is beyond this."""


def within_bounds(value: object) -> TypeGuard[int | float]:
    """Whether a setting is a number to time or count with: not infinite, and at most ``MOST`` either way."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST <= value <= MOST


def number_of(value: ConfigValue) -> float | None:
    """A number, or a text that is one; a switch is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None
