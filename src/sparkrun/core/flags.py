"""Flag maps: which configuration key is which flag of an engine, and what follows for command texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Literal, NamedTuple

from sparkrun.core.shell_text import (
    Arity,
    EngineCall,
    FlagForm,
    FlagUse,
    TextEdit,
    apply_edits,
    canonical,
    flag_name,
    flag_uses,
    quote_word,
    unquote,
)
from sparkrun.core.shell_text.arguments import insertion_edits, removal_edits, replacement_edits, swap_edits
from sparkrun.core.values import ConfigValue, is_off, value_text
from sparkrun.utils.text import nearest


class FlagKind(Enum):
    """How a flag takes its value."""

    VALUE = "value"
    """``--flag value``."""
    JSON = "json"
    """``--flag '{"a":1}'``: a mapping, or text that holds JSON already."""
    LIST = "list"
    """``--flag a b c``: each item a word of its own."""
    ONOFF = "onoff"
    """``--flag on``, ``--flag off`` or another word; booleans become ``on`` and ``off``."""
    BOOL_VALUE = "bool_value"
    """``--flag true`` or ``--flag false``."""
    PRESENCE = "presence"
    """``--flag`` when true, nothing when false."""
    NEGATABLE = "negatable"
    """``--flag`` when true, ``--no-flag`` when false."""
    ONLY_OFF = "only_off"
    """``--no-flag`` when false, nothing when true: on is what the engine does anyway."""


_NUMBER = re.compile(r"-\.?\d[\d.eE+-]*")
_PLACEHOLDER = re.compile(r"\{[A-Za-z_]\w*\}", re.ASCII)
_SWITCHES = frozenset({FlagKind.PRESENCE, FlagKind.NEGATABLE, FlagKind.ONLY_OFF})


class Flag(NamedTuple):
    """One row of a flag map: ``flag`` is written, ``spellings`` are understood besides, ``aliases`` are other keys that mean the same."""

    key: str
    flag: str
    kind: FlagKind = FlagKind.VALUE
    spellings: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def negated(self) -> str:
        """The spelling that switches the flag off, where the flag is a switch."""
        return f"--no-{self.flag.lstrip('-')}"

    @property
    def form(self) -> FlagForm:
        """All spellings of the flag, for reading and editing."""
        arity = Arity.NONE if self.kind in _SWITCHES else Arity.MANY if self.kind is FlagKind.LIST else Arity.ONE
        return FlagForm((self.flag, *self.spellings), arity)

    @property
    def negated_form(self) -> FlagForm | None:
        """The spellings that switch it off; None for flags that take a value."""
        return FlagForm((self.negated,), Arity.NONE) if self.kind in _SWITCHES else None

    def words(self, value: ConfigValue) -> tuple[str, ...]:
        """The flag with its value as quoted shell words; nothing where the value switches it off."""
        if is_off(value):
            return ()
        if self.kind in _SWITCHES:
            return self._switch_words(truth(value))
        words = self._value_words(value)
        if len(words) == 1 and _looks_like_a_flag(unquote(words[0])):
            return (f"{self.flag}={words[0]}",)
        return (self.flag, *words)

    def _switch_words(self, on: bool) -> tuple[str, ...]:
        if on:
            return () if self.kind is FlagKind.ONLY_OFF else (self.flag,)
        return () if self.kind is FlagKind.PRESENCE else (self.negated,)

    def _value_words(self, value: ConfigValue) -> tuple[str, ...]:
        if self.kind is FlagKind.LIST:
            return list_words(value)
        if self.kind is FlagKind.ONOFF and (isinstance(value, bool) or value_text(value).lower() in ("true", "false")):
            return ("on" if truth(value) else "off",)
        if self.kind is FlagKind.BOOL_VALUE:
            return ("true" if truth(value) else "false",)
        return (quote_word(value_text(value)),)


def flag(key: str, spelling: str = "", kind: FlagKind = FlagKind.VALUE, *, also: str = "", keys: str = "") -> Flag:
    """A row whose flag is ``--kebab-case-of-key`` unless given. ``also`` (spellings) and ``keys`` (aliases) hold names between blanks."""
    return Flag(key, spelling or f"--{key.replace('_', '-')}", kind, tuple(also.split()), tuple(keys.split()))


class FlagMap:
    """The flags of an engine in rendering order. ``leading`` names keys that are rendered before all others."""

    __slots__ = ("_by_key", "_by_spelling", "flags")

    def __init__(self, flags: Iterable[Flag] = (), leading: Collection[str] = ()) -> None:
        rows = tuple(flags)
        self.flags = (*(row for row in rows if row.key in leading), *(row for row in rows if row.key not in leading))
        self._by_key = {key: row for row in reversed(self.flags) for key in (row.key, *row.aliases)}
        negated = {canonical(row.negated): row for row in self.flags if row.negated_form}
        self._by_spelling = negated | {canonical(spelling): row for row in reversed(self.flags) for spelling in row.form.spellings}

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that the map knows, aliases among them."""
        return tuple(self._by_key)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling that the map knows, those that switch a flag off among them."""
        return tuple(self._by_spelling)

    def by_key(self, key: str) -> Flag | None:
        """The flag of a configuration key or alias."""
        return self._by_key.get(key)

    def by_spelling(self, spelling: str) -> Flag | None:
        """The flag that a spelling in a command means; ``--no-x`` finds the flag that it switches off."""
        return self._by_spelling.get(canonical(spelling))

    def takes_value(self, spelling: str) -> bool | None:
        """Whether the next word belongs to a flag; None for a flag that the map does not know."""
        flag = self.by_spelling(spelling)
        return flag.kind not in _SWITCHES if flag else None


Action = Literal["added", "replaced", "removed", "unchanged"]


class Edit(NamedTuple):
    """What an override did to a command. ``before`` is what stood there: the value, or the spelling of a switch."""

    text: str
    flag: str
    action: Action
    before: str | None = None


class Unmapped(NamedTuple):
    """An override that no flag stands for, and the known key most like it."""

    key: str
    nearest: str | None


class UnknownFlag(NamedTuple):
    """A flag that an engine's list does not hold, and the one most like it."""

    flag: str
    nearest: str | None


def truth(value: ConfigValue) -> bool:
    """A value read as a switch; text such as ``false``, ``no``, ``off`` and ``0`` means off."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no", "off", "0")
    return bool(value)


def list_words(value: ConfigValue) -> tuple[str, ...]:
    """A value as several quoted words: the items of a list, or numbers that a text holds between blanks."""
    if isinstance(value, list):
        return tuple(quote_word(value_text(item)) for item in value)
    text = value_text(value)
    return tuple(text.split()) if are_numbers(text) else (quote_word(text),)


def are_numbers(text: str) -> bool:
    """Whether a text is numbers between blanks (``1 2 4 8``), which no engine takes as one value."""
    return bool(text.strip()) and all(part.replace(".", "", 1).isdecimal() for part in text.split())


def render_flags(flag_map: FlagMap, config: Mapping[str, ConfigValue], skip: Collection[str] = ()) -> tuple[str, ...]:
    """The quoted words of every flag that the configuration sets, in the order of the map."""
    return tuple(word for flag in flag_map.flags if flag.key not in skip for word in flag.words(_configured(flag, config)))


def apply_override(call: EngineCall, flag_map: FlagMap, key: str, value: ConfigValue) -> Edit | Unmapped:
    """The command with a configuration value in effect: a literal flag changes in place, a missing one is added, a switched-off one goes.

    Raises QuotedEngineError where a change is needed but the engine is started within quotes.
    """
    flag = flag_map.by_key(key)
    if flag is None:
        return Unmapped(key, nearest(key, flag_map.keys))
    if flag.negated_form:
        return _set_switch(call, flag, flag.negated_form, value)
    return _set_value(call, flag, flag.words(value))


def literal_values(call: EngineCall, flag_map: FlagMap) -> dict[str, str | bool]:
    """What the command itself says, by configuration key: text for values, True or False for switches.

    Values that hold a placeholder or that only the shell knows are left out, and so is a value flag without a value.
    """
    found = ((flag.key, _literal(call, flag)) for flag in flag_map.flags)
    return {key: value for key, value in found if value is not None}


def unknown_flags(call: EngineCall, known_names: Collection[str]) -> tuple[UnknownFlag, ...]:
    """Long flags of the command that an engine's list does not hold. ``--json-flag.key`` counts as ``--json-flag``."""
    known = {canonical(name) for name in known_names}
    names = (flag_name(word) for word in call.arguments)
    wanted = dict.fromkeys(canonical(name.partition(".")[0]) for name in names if name and name.startswith("--"))
    return tuple(UnknownFlag(name, nearest(name, known_names)) for name in wanted if name not in known)


def _literal(call: EngineCall, flag: Flag) -> str | bool | None:
    if flag.negated_form:
        switches = (*flag_uses(call, flag.form), *flag_uses(call, flag.negated_form))
        last = max(switches, key=lambda use: use.word.start, default=None)
        return canonical(last.spelling) != flag.negated if last else None
    uses = flag_uses(call, flag.form)
    if not uses or uses[-1].dynamic:
        return None
    value = uses[-1].value
    return None if value is True or _PLACEHOLDER.search(value) else value


def _looks_like_a_flag(text: str) -> bool:
    """Whether an engine would take a value for an option of its own: argparse wants such a one joined to its flag."""
    return text.startswith("-") and text != "-" and not _NUMBER.fullmatch(text)


def _configured(flag: Flag, config: Mapping[str, ConfigValue]) -> ConfigValue:
    """The value of the key or, where that is not set, of the first alias that is."""
    return next((config[key] for key in (flag.key, *flag.aliases) if not is_off(config.get(key))), None)


def _set_value(call: EngineCall, flag: Flag, words: tuple[str, ...]) -> Edit:
    uses = flag_uses(call, flag.form)
    if not words:
        return _edit(call, flag, "removed", uses, removal_edits(call, flag.form)) if uses else _unchanged(call, flag)
    if not uses:
        return _edit(call, flag, "added", uses, insertion_edits(call, words))
    joined = len(words) == 1
    values = (unquote(words[0].removeprefix(f"{flag.flag}=")),) if joined else tuple(map(unquote, words[1:]))
    if all(_given(use) == values and (use.joined is not None or not joined) for use in uses):
        return _unchanged(call, flag)
    if joined:
        return _edit(call, flag, "replaced", uses, swap_edits(call, flag.form, words))
    return _edit(call, flag, "replaced", uses, replacement_edits(call, flag.form, words[1:]))


def _set_switch(call: EngineCall, flag: Flag, negated: FlagForm, value: ConfigValue) -> Edit:
    words = flag.words(value)
    if not words:
        return _remove_switch(call, flag, _unwanted(flag, negated, value))
    wanted, opposite = (flag.form, negated) if words[0] == flag.flag else (negated, flag.form)
    present, contrary = flag_uses(call, wanted), flag_uses(call, opposite)
    if present and contrary:
        return _edit(call, flag, "replaced", contrary, removal_edits(call, opposite))
    if contrary:
        return _edit(call, flag, "replaced", contrary, swap_edits(call, opposite, words))
    return _unchanged(call, flag) if present else _edit(call, flag, "added", (), insertion_edits(call, words))


def _unwanted(flag: Flag, negated: FlagForm, value: ConfigValue) -> FlagForm:
    """What must not stand in the command when a switch renders to nothing: null leaves it to the engine, so both spellings go."""
    if is_off(value):
        return FlagForm((*flag.form.spellings, *negated.spellings), Arity.NONE)
    return negated if flag.kind is FlagKind.ONLY_OFF else flag.form


def _remove_switch(call: EngineCall, flag: Flag, form: FlagForm) -> Edit:
    uses = flag_uses(call, form)
    return _edit(call, flag, "removed", uses, removal_edits(call, form)) if uses else _unchanged(call, flag)


def _given(use: FlagUse) -> tuple[str, ...] | None:
    """The values that stand in the command; None where only the shell knows them."""
    if use.dynamic:
        return None
    return (use.joined,) if use.joined is not None else tuple(word.text for word in use.values)


def _edit(call: EngineCall, flag: Flag, action: Action, uses: Sequence[FlagUse], edits: Iterable[TextEdit]) -> Edit:
    before = uses[-1].value if uses else None
    return Edit(apply_edits(call.text, edits), flag.flag, action, uses[-1].spelling if before is True else before)


def _unchanged(call: EngineCall, flag: Flag) -> Edit:
    return Edit(call.text, flag.flag, "unchanged")
