"""YAML values to typed fields: tolerant where the meaning is plain, an error with ``file:line:col`` where it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sparkrun.core.errors import RecipeSyntaxError
from sparkrun.core.recipe.places import Document, KeyPath
from sparkrun.core.values import ConfigValue

_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class Fields:
    """The typed reading of one document. Every method takes the path of a key, and treats an absent or empty one as not given."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def raw(self, *path: str | int) -> Any:
        """The value as YAML gave it, ``None`` when absent."""
        value: Any = self.document.value
        for part in path:
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = value[part]
            else:
                return None
        return value

    def text(self, *path: str | int) -> str | None:
        """A text; a number or switch is taken as it was spelt."""
        value = self.raw(*path)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return self.spelt(path, value)
        raise self.wrong(path, "text", value)

    def switch(self, *path: str | int) -> bool | None:
        """True or false, also as 0, 1 or a word."""
        value = self.raw(*path)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in _SWITCHES:
            return _SWITCHES[value.strip().lower()]
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise self.wrong(path, "true or false", value)

    def whole(self, *path: str | int) -> int | None:
        """A whole number, also as text."""
        value = self.raw(*path)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            return int(value)
        raise self.wrong(path, "a whole number", value)

    def number(self, *path: str | int) -> float | None:
        """A number, also as text."""
        value = self.raw(*path)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            return float(value)
        raise self.wrong(path, "a number", value)

    def texts(self, *path: str | int) -> tuple[str, ...]:
        """A list of texts; one text counts as a list of one, an empty entry as none."""
        value = self.raw(*path)
        if value is None:
            return ()
        if isinstance(value, str | int | float):
            return (self.text(*path) or "",)
        if not isinstance(value, list):
            raise self.wrong(path, "a list of texts", value)
        entries = (self.text(*path, number) for number in range(len(value)))
        return tuple(entry for entry in entries if entry is not None)

    def mapping(self, *path: str | int) -> dict[str, ConfigValue]:
        """A mapping, empty when absent."""
        return {key_text(key): self.value(inner, (*path, key)) for key, inner in self.checked_mapping(*path).items()}

    def checked_mapping(self, *path: str | int) -> Mapping[Any, Any]:
        """A mapping as YAML gave it, empty when absent."""
        value = self.raw(*path)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(path, "a mapping", value)
        return value

    def entries(self, *path: str | int) -> tuple[KeyPath, ...]:
        """The paths of the mappings in a list; a lone mapping counts as a list of one."""
        value = self.raw(*path)
        if value is None:
            return ()
        if isinstance(value, Mapping):
            return (path,)
        if not isinstance(value, list):
            raise self.wrong(path, "a list of mappings", value)
        for number, entry in enumerate(value):
            if not isinstance(entry, Mapping):
                raise self.wrong((*path, number), "a mapping", entry)
        return tuple((*path, number) for number in range(len(value)))

    def value(self, value: Any, path: KeyPath) -> ConfigValue:
        """Any configuration value, with texts as keys."""
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, list):
            return [self.value(inner, (*path, number)) for number, inner in enumerate(value)]
        if isinstance(value, Mapping):
            return {key_text(key): self.value(inner, (*path, key)) for key, inner in value.items()}
        raise self.wrong(path, "text, a number, a list or a mapping", value)

    def spelt(self, path: KeyPath, value: float) -> str:
        """A scalar as its author typed it; a switch in lower case."""
        if isinstance(value, bool):
            return str(value).lower()
        return self.document.spellings.get(path, str(value))

    def wrong(self, path: KeyPath, wanted: str, value: object) -> RecipeSyntaxError:
        """The error: this key must hold something else."""
        return RecipeSyntaxError(f"{self.document.where(*path)}: {dotted(path)} must be {wanted}, not {kind_of(value)}")


def key_text(key: object) -> str:
    """A mapping's key as text: YAML reads ``on:`` as a switch and ``1:`` as a number."""
    return str(key).lower() if isinstance(key, bool) or key is None else str(key)


def dotted(path: Iterable[str | int]) -> str:
    """``pre_exec[2].timeout`` of a key path; entries are counted from 1."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def kind_of(value: object) -> str:
    """What a value is, in the words of YAML."""
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
