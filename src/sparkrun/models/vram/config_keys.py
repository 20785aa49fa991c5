"""Reading a model's ``config.json``: several names for one thing, and the language model's part over the whole."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparkrun.core.recipe.schema import Values
from sparkrun.core.values import ConfigValue, number_of

MOST = 1e18
"""No size, count or length of a model is beyond this."""
_LANGUAGE_PARTS = ("text_config", "llm_config", "language_config")


class ConfigKeys:
    """The keys of one ``config.json``. A key of the whole wins; the language model's part fills what the whole leaves open."""

    def __init__(self, values: Values) -> None:
        part = next((inner for name in _LANGUAGE_PARTS if isinstance(inner := values.get(name), dict)), {})
        self._layers: tuple[Mapping[str, ConfigValue], ...] = (values, part)

    def get(self, *names: str) -> ConfigValue:
        """The value of the first of these names that has one."""
        for name in names:
            for layer in self._layers:
                if (value := layer.get(name)) is not None:
                    return value
        return None

    def whole(self, *names: str) -> int | None:
        """A whole number of at least 0."""
        number = self.number(*names)
        return int(number) if number is not None and number >= 0 else None

    def number(self, *names: str) -> float | None:
        """A number; one that is listed for each layer, or a text, counts by its first or as what it says."""
        value = self.get(*names)
        if isinstance(value, list):
            value = next((each for each in value if finite(each)), None)
        return finite(value)

    def text(self, *names: str) -> str | None:
        """A text."""
        value = self.get(*names)
        return value if isinstance(value, str) else None

    def switch(self, name: str) -> bool | None:
        """True or false, ``None`` when it says neither."""
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.get(*names)
        return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()

    def numbers(self, *names: str) -> tuple[float, ...]:
        """A list of numbers."""
        value = self.get(*names)
        found = [finite(each) for each in value] if isinstance(value, list) else []
        return tuple(each for each in found if each is not None)

    def part(self, *names: str) -> ConfigKeys | None:
        """A mapping inside."""
        value = self.get(*names)
        return ConfigKeys(value) if isinstance(value, dict) else None


def finite(value: ConfigValue) -> float | None:
    """A number that a model can have; ``None`` for anything else, infinity among it."""
    try:
        number = number_of(value)
    except OverflowError:
        return None
    return number if number is not None and -MOST <= number <= MOST else None


def parse_json(text: str | bytes) -> Values | None:
    """A JSON object; ``None`` for a text that is none. ``NaN`` and ``Infinity``, which Python writes, are read too."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _lenient(text)
    return value if isinstance(value, dict) else None


def _lenient(text: str | bytes) -> object:
    import json  # only a file that is not quite JSON comes here

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
