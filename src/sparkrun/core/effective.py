"""The configuration in force: one value a key, from the highest tier that has it, and which tier that was."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from vpd import VirtualPathDictChain

from sparkrun.core.errors import NoValueError, RecipeError, UsageError
from sparkrun.core.recipe.schema import ConditionalOverride, Recipe, Values
from sparkrun.core.values import ConfigValue, compact_json, is_off, value_text

Origin = Literal["launch", "override", "model", "user", "conditional", "recipe", "platform", "runtime"]
"""Who gave a value, highest first: the launch itself (a resolved path), the command line, the recipe's model fields, ``config.yaml``,
a matching entry of ``overrides``, the recipe's defaults, the platform, the runtime."""

_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_ALWAYS_TEXT = frozenset({"model", "model_revision", "resolved_model_path", "served_model_name", "api_key", "chat_template"})
_FORM = "write -o key=value, for example -o max_model_len=32768"


class Override(NamedTuple):
    """One ``-o key=value``. More than one part edits inside a mapping; ``env.NAME`` sets an environment variable."""

    path: tuple[str, ...]
    value: ConfigValue

    @property
    def key(self) -> str:
        """The key as typed."""
        return ".".join(self.path)

    @property
    def env_name(self) -> str | None:
        """The environment variable it sets, if it is one."""
        return self.path[1] if len(self.path) == 2 and self.path[0] == "env" else None


class Tiers(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds a recipe's defaults. Keys of ``overrides`` may be dotted, and ``env.NAME``."""

    overrides: Values = {}
    user: Values = {}
    conditional: tuple[ConditionalOverride, ...] = ()
    """The entries of the recipe's ``overrides`` that hold, in order."""
    platform: Values = {}
    runtime: Values = {}


class ContainerSettings(msgspec.Struct, frozen=True):
    """Environment and image, with those of matching conditional overrides worked in."""

    env: dict[str, str] = {}
    env_overrides: dict[str, str] = {}
    """What ``-o env.NAME=value`` sets; it beats ``env``."""
    image: str | None = None


class EffectiveConfig:
    """The configuration chain. A key whose value is ``None`` was switched off by its tier, and hides the tiers below."""

    def __init__(self, tiers: Mapping[Origin, Values], container: ContainerSettings) -> None:
        self._tiers = dict(tiers)
        self._chain = _chain(self._tiers.values())
        self.container = container

    def __contains__(self, key: str) -> bool:
        return _look(self._chain, key) is not _ABSENT

    def get(self, key: str, default: ConfigValue = None) -> ConfigValue:
        """The value in force, ``default`` when no tier has the key; a value switched off is ``None``, whatever the default."""
        value: ConfigValue = _look(self._chain, key)
        return default if value is _ABSENT else value

    def origin(self, key: str) -> Origin | None:
        """Which tier gives the value; ``None`` when none does."""
        return next((name for name, values in self._tiers.items() if key in values), None)

    def is_off(self, key: str) -> bool:
        """Whether a tier switched the key off: null, an empty list, an empty text."""
        return key in self and is_off(self.get(key))

    def values(self) -> Values:
        """Every key with its value in force."""
        return {key: self.get(key) for key in self.keys()}

    def keys(self) -> list[str]:
        """Every key that a tier has, the recipe's own first."""
        return list(dict.fromkeys(key for values in (self._tiers.get("recipe", {}), *self._tiers.values()) for key in values))

    def text(self, key: str) -> str | None:
        """The value as text, ``None`` when absent or off."""
        value = self.get(key)
        return None if is_off(value) else value_text(value)

    def whole(self, key: str, default: int) -> int:
        """The value as a whole number, ``default`` when absent or off. Raises ``RecipeError`` for anything else."""
        number = self.number(key, default)
        if number != int(number):
            raise self._wrong(key, "a whole number")
        return int(number)

    def number(self, key: str, default: float) -> float:
        """The value as a number, ``default`` when absent or off. Raises ``RecipeError`` for anything else."""
        value = self.get(key, default)
        if value is None or is_off(value):
            return default
        if isinstance(value, str):
            value = coerce(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        return value

    def with_values(self, values: Values) -> EffectiveConfig:
        """The same configuration with what the launch itself found out on top (a resolved path, a free port)."""
        tiers: dict[Origin, Values] = {"launch": {**self._tiers.get("launch", {}), **values}}
        tiers.update((name, tier) for name, tier in self._tiers.items() if name != "launch")
        return EffectiveConfig(tiers, self.container)

    def _wrong(self, key: str, wanted: str) -> RecipeError:
        return RecipeError(f"{key} must be {wanted}, not {self.get(key)!r} (from the {ORIGIN_WORDS[self.origin(key) or 'recipe']})")


ORIGIN_WORDS: dict[Origin, str] = {
    "launch": "launch",
    "override": "command line",
    "model": "recipe",
    "user": "user's config.yaml",
    "conditional": "recipe's overrides",
    "recipe": "recipe's defaults",
    "platform": "platform's defaults",
    "runtime": "runtime's defaults",
}
"""The tiers in words, for messages."""


def build_effective(recipe: Recipe, tiers: Tiers | None = None) -> EffectiveConfig:
    """The configuration of a recipe inside its tiers. Raises ``UsageError`` for a dotted override that finds no mapping."""
    tiers = tiers or Tiers()
    plain = {key: value for key, value in tiers.overrides.items() if "." not in key}
    stack: dict[Origin, Values] = {
        "override": plain,
        "model": recipe.model_values(),
        "user": tiers.user,
        "conditional": {key: value for entry in tiers.conditional for key, value in entry.defaults.items()},
        "recipe": recipe.defaults,
        "platform": tiers.platform,
        "runtime": tiers.runtime,
    }
    dotted = [Override(tuple(key.split(".")), value) for key, value in tiers.overrides.items() if "." in key]
    edits = [override for override in dotted if not override.env_name]
    stack["override"] = _edited(plain, _chain(stack.values()), edits)
    return EffectiveConfig(stack, _container_settings(recipe, tiers, dotted))


def parse_overrides(texts: Iterable[str]) -> Values:
    """The ``-o`` options of one command line, later ones over earlier ones. Raises ``NoValueError`` or another ``UsageError``."""
    return {override.key: override.value for override in map(parse_override, texts)}


def parse_override(text: str) -> Override:
    """One ``-o key=value`` with its value as true, false, a number or text. Raises ``NoValueError`` without ``=``, else ``UsageError``."""
    key, equals, value = text.partition("=")
    path = tuple(key.strip().split("."))
    if not equals:
        raise NoValueError(f"-o {text}: no '=' in it", hint=_FORM)
    if not all(path) or any(character.isspace() for character in key.strip()):
        raise UsageError(f"-o {text}: {key!r} is not a key", hint=_FORM)
    if path[0] == "env":
        if len(path) != 2:
            raise UsageError(f"-o {text}: env takes one name", hint="write -o env.NAME=value")
        return Override(path, value)
    if len(path) > 1 and value.lstrip()[:1] in ("{", "["):
        return Override(path, _json(text, value))
    return Override(path, value if path[-1] in _ALWAYS_TEXT else coerce(value))


def coerce(text: str) -> ConfigValue:
    """``true``, ``yes``, ``false``, ``no``, a whole number or a decimal one as what it is; anything else is text."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INTEGER.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return text


_ABSENT: Any = object()


class _Bottom(dict[str, Any]):
    """The end of every chain: whatever is asked for, it answers that nothing is there."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> Any:
        return _ABSENT


# An empty mapping is passed over, so the bottom holds one key.
_BOTTOM = _Bottom({"": _ABSENT})


def _chain(tiers: Iterable[Values]) -> VirtualPathDictChain:
    chain: VirtualPathDictChain | None = None
    for values in (_BOTTOM, *reversed(list(tiers))):
        chain = VirtualPathDictChain(values, chain)
    assert chain is not None
    return chain


def _look(chain: VirtualPathDictChain, key: str) -> Any:
    """The value of one key; as a list, so that a ``/`` in it stays a part of it."""
    return chain.get([key])


def _container_settings(recipe: Recipe, tiers: Tiers, dotted: Iterable[Override]) -> ContainerSettings:
    return ContainerSettings(
        env={**recipe.env, **{name: value for entry in tiers.conditional for name, value in entry.env.items()}},
        env_overrides={override.env_name: value_text(override.value) for override in dotted if override.env_name},
        image=next((entry.container for entry in reversed(tiers.conditional) if entry.container), recipe.container),
    )


def _edited(plain: Values, chain: VirtualPathDictChain, edits: Iterable[Override]) -> Values:
    """The plain overrides with the dotted ones worked into copies of the mappings that they name; shallow ones first."""
    roots: dict[str, Values] = {}
    as_json: set[str] = set()
    for override in sorted(edits, key=lambda override: len(override.path)):
        root = override.path[0]
        if root not in roots:
            value = _look(chain, root)
            roots[root] = _mapping_of(value, override)
            as_json.update([root] if isinstance(value, str) else [])
        _put(roots[root], override)
    return {**plain, **{root: compact_json(value) if root in as_json else value for root, value in roots.items()}}


def _mapping_of(value: ConfigValue, override: Override) -> Values:
    """A copy of the mapping to edit; a JSON object in text is one."""
    root = override.path[0]
    if value is _ABSENT or value is None:
        raise UsageError(f"-o {override.key}: no {root} to edit", hint=f"set the whole of it first: -o {root}='{{…}}'")
    parsed = _json(override.key, value) if isinstance(value, str) and value.lstrip().startswith("{") else copy.deepcopy(value)
    if isinstance(parsed, dict):
        return parsed
    raise UsageError(f"-o {override.key}: {root} is {value!r}, not a mapping", hint=f"set it whole: -o {root}=…")


def _put(mapping: Values, override: Override) -> None:
    *parents, last = override.path[1:]
    for depth, part in enumerate(parents, start=2):
        inner = mapping.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UsageError(f"-o {override.key}: {'.'.join(override.path[:depth])} is {inner!r}, not a mapping")
        mapping = inner
    mapping[last] = override.value


def _json(what: str, text: str) -> ConfigValue:
    try:
        value: ConfigValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"-o {what}: not JSON: {error}", hint="quote it for the shell: -o 'a.b={\"c\": 1}'") from None
    return value
