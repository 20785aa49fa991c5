"""The values that placeholders stand for, with the placeholders inside those values filled in."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sparkrun.core.errors import RecipeError
from sparkrun.core.shell_text import TextEdit, apply_edits
from sparkrun.core.templating.braces import Doubling, Placeholder, Spot, plain_braces
from sparkrun.core.values import ConfigValue, compact_json, is_off, value_text

MAX_DEPTH = 10
"""How deep values may refer to one another."""
MAX_TEXT_SIZE = 1 << 20
"""Characters that a value may grow to, so that values which repeat each other end."""


class PlaceholderCycle(RecipeError):
    """Placeholders whose values lead back to themselves, or never end."""

    def __init__(self, names: tuple[str, ...], what: str = "placeholders go round in a circle") -> None:
        super().__init__(f"{what}: {' → '.join(names)}", hint=f"give {names[-1]} a value that does not refer back")
        self.names = names


class Missing(NamedTuple):
    """A name that the configuration does not hold, and the key whose value asks for it (None: the template itself)."""

    name: str
    within: str | None


class Resolver:
    """Fills values in, and remembers which keys were used and which are missing."""

    def __init__(self, values: Mapping[str, ConfigValue], doubling: Doubling = Doubling.BY_HABIT) -> None:
        self._values = values
        self._doubling = doubling
        self._done: dict[str, ConfigValue] = {}
        self.used: dict[str, None] = {}
        self._missing: dict[Missing, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def names(self) -> Collection[str]:
        """Every key that a placeholder can name."""
        return self._values.keys()

    def take_missing(self) -> tuple[Missing, ...]:
        """The names found missing since the last time."""
        missing, self._missing = tuple(self._missing), {}
        return missing

    def raw(self, name: str) -> ConfigValue:
        """The value as it was given."""
        return self._values[name]

    def alias(self, name: str, chain: tuple[str, ...] = ()) -> str:
        """The key whose value is really meant: follows values that are nothing but another placeholder."""
        self.used[name] = None
        target = _only_placeholder(self._values[name])
        if target is None or target not in self._values:
            return name
        return self.alias(target, self.follow(name, chain))

    def value(self, name: str, chain: tuple[str, ...] = ()) -> ConfigValue:
        """The value of a key with every placeholder in it filled in. Raises PlaceholderCycle."""
        self.used[name] = None
        if name not in self._done:
            self._done[name] = self._filled(self._values[name], self.follow(name, chain))
        return self._done[name]

    def follow(self, name: str, chain: tuple[str, ...]) -> tuple[str, ...]:
        """The chain of keys with one more. Raises PlaceholderCycle where it would not end."""
        longer = (*chain, name)
        if name in chain:
            raise PlaceholderCycle(longer[chain.index(name) :])
        if len(longer) > MAX_DEPTH:
            raise PlaceholderCycle(longer, f"placeholders refer to each other more than {MAX_DEPTH} deep")
        return longer

    def _filled(self, value: ConfigValue, chain: tuple[str, ...]) -> ConfigValue:
        if isinstance(value, dict):
            return {key: self._filled(item, chain) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item, chain) for item in value]
        return self._filled_text(value, chain) if isinstance(value, str) else value

    def _filled_text(self, text: str, chain: tuple[str, ...]) -> ConfigValue:
        target = _only_placeholder(text)
        if target is not None and target in self._values:
            return self.value(target, chain)
        braces = plain_braces(text, self._doubling)
        edits = [TextEdit(offset, offset + 1) for offset in braces.dropped]
        edits += (edit for found in braces.placeholders if (edit := self._edit(found, chain)))
        filled = apply_edits(text, edits)
        if len(filled) > MAX_TEXT_SIZE:
            raise PlaceholderCycle(chain, f"a value grows past {MAX_TEXT_SIZE} characters")
        return filled

    def _edit(self, found: Placeholder, chain: tuple[str, ...]) -> TextEdit | None:
        if found.name not in self._values:
            self._missing[Missing(found.name, chain[-1])] = None
            return None
        return TextEdit(found.start, found.end, spot_text(self.value(found.name, chain), found.spot))


def spot_text(value: ConfigValue, spot: Spot) -> str:
    """A value as text for its spot: as it is, as part of a JSON string, or as a JSON value."""
    if spot is Spot.JSON_STRING:
        return json.dumps(value_text(value), ensure_ascii=False)[1:-1]
    if spot is Spot.JSON_VALUE:
        return value if isinstance(value, str) and _is_json(value) else compact_json(value)
    return "" if is_off(value) else value_text(value)


def _only_placeholder(value: ConfigValue) -> str | None:
    """The name in a text that is one placeholder and nothing else."""
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    placeholders = plain_braces(value).placeholders
    return placeholders[0].name if placeholders and placeholders[0][:2] == (0, len(value)) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
