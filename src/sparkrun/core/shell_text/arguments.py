"""Reading and editing the flags of an engine's command, leaving every other character of the text as it is."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from enum import Enum
from typing import Literal, NamedTuple

from sparkrun.core.errors import SparkrunError
from sparkrun.core.shell_text.edits import TextEdit, apply_edits
from sparkrun.core.shell_text.engine import EngineCall, EngineSyntax
from sparkrun.core.shell_text.lexer import Lexed, TokenKind
from sparkrun.core.shell_text.words import Word

FlagValue = str | Literal[True]
"""A flag's value as text; True where the flag stands without one."""


class QuotedEngineError(SparkrunError):
    """The engine is started by a script within quotes, which cannot be edited safely."""

    def __init__(self, engine: str) -> None:
        super().__init__(
            f"flags cannot be changed: the command starts {engine} inside quotes (bash -c '…')",
            hint=f"write {engine} as a command of its own, without bash -c",
        )


class Arity(Enum):
    """How many words after a flag are its values."""

    NONE = "none"
    ONE = "one"
    MANY = "many"


class FlagForm(NamedTuple):
    """All spellings of one flag, and how many values it takes. ``-`` and ``_`` within a long spelling are the same."""

    spellings: tuple[str, ...]
    arity: Arity = Arity.ONE


class FlagUse(NamedTuple):
    """One occurrence of a flag. ``joined`` is the value of ``--flag=value``, ``values`` the words of ``--flag value``."""

    word: Word
    spelling: str
    values: tuple[Word, ...] = ()
    joined: str | None = None

    @property
    def value(self) -> FlagValue:
        """The value as text; several values are separated by blanks; True when there is none."""
        if self.joined is not None:
            return self.joined
        return " ".join(word.text for word in self.values) if self.values else True

    @property
    def dynamic(self) -> bool:
        """Whether the value is known only when the shell has run."""
        return any(word.dynamic for word in (self.word, *self.values))


_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-\.?\d[\d.eE+-]*")
_DANGLING = re.compile(r"[ \t]*\\[ \t]*(?=\n|\Z)")
_NOTHING_BUT_CONTINUATIONS = re.compile(r"(?:[ \t\n]|\\[ \t]*(?:\n|\Z))*")


def canonical(spelling: str) -> str:
    """A spelling with ``_`` written as ``-`` where engines treat them alike: in long flags."""
    return spelling.replace("_", "-") if spelling.startswith("--") else spelling


def flag_name(word: Word) -> str | None:
    """The flag that a word spells, without ``=value``; None for a value or a negative number."""
    match = _FLAG.fullmatch(word.text)
    return match[1] if match else None


def flag_uses(call: EngineCall, form: FlagForm) -> tuple[FlagUse, ...]:
    """Every occurrence of a flag, in order. The last one is the one that counts for the engines."""
    wanted = {canonical(spelling) for spelling in form.spellings}
    uses = (_use(call.arguments, index, form.arity, wanted) for index in range(len(call.arguments)))
    return tuple(use for use in uses if use)


def flag_value(call: EngineCall, form: FlagForm) -> FlagValue | None:
    """The value that the engine would take, True for a flag without a value, None where the flag is absent."""
    uses = flag_uses(call, form)
    return uses[-1].value if uses else None


def model_word(call: EngineCall, engine: EngineSyntax) -> Word | None:
    """The word that names the model: the value of the engine's model flag, or the first argument where the engine takes it by position."""
    uses = [use for use in flag_uses(call, FlagForm(engine.model_flags)) if use.values]
    if uses:
        return uses[-1].values[-1]
    first = next(iter(call.arguments), None)
    return first if first and engine.model_is_positional and not first.text.startswith("-") else None


def insert_flags(call: EngineCall, words: Sequence[str]) -> str:
    """The text with words (already quoted) after the engine's last one. A final backslash that joins nothing is dropped."""
    return apply_edits(call.text, insertion_edits(call, words))


def replace_flag(call: EngineCall, form: FlagForm, values: Sequence[str]) -> str:
    """The text with the values (already quoted) in place of those of every occurrence."""
    return apply_edits(call.text, replacement_edits(call, form, values))


def swap_flag(call: EngineCall, form: FlagForm, words: Sequence[str]) -> str:
    """The text with the words (already quoted) in place of the first occurrence and its values; further occurrences go."""
    return apply_edits(call.text, swap_edits(call, form, words))


def remove_flag(call: EngineCall, form: FlagForm) -> str:
    """The text without the flag and its values."""
    return apply_edits(call.text, removal_edits(call, form))


def replace_engine_words(call: EngineCall, words: Sequence[str]) -> str:
    """The text with other words (already quoted) in place of those that name the engine."""
    _require_editable(call)
    return apply_edits(call.text, [TextEdit(call.head[0].start, call.head[-1].end, " ".join(words))])


def insertion_edits(call: EngineCall, words: Sequence[str]) -> list[TextEdit]:
    """The edits of ``insert_flags``."""
    _require_editable(call)
    if not words:
        return []
    at = call.insertion_point
    rest = _NOTHING_BUT_CONTINUATIONS.fullmatch(call.text, at)
    dangling = _DANGLING.finditer(call.text, at) if rest else ()
    added = TextEdit(at, at, "".join(f" {word}" for word in words))
    return [added, *(TextEdit(match.start(), match.end()) for match in dangling)]


def replacement_edits(call: EngineCall, form: FlagForm, values: Sequence[str]) -> list[TextEdit]:
    """The edits of ``replace_flag``."""
    _require_editable(call)
    return [edit for use in flag_uses(call, form) for edit in _value_edits(call.lexed, use, values)]


def swap_edits(call: EngineCall, form: FlagForm, words: Sequence[str]) -> list[TextEdit]:
    """The edits of ``swap_flag``."""
    _require_editable(call)
    first, *others = flag_uses(call, form) or (None,)
    if first is None:
        return []
    kept = [TextEdit(first.word.start, first.word.end, " ".join(words))]
    kept += (_removal(call.lexed, word) for word in first.values)
    return kept + [_removal(call.lexed, word) for use in others if use for word in (use.word, *use.values)]


def removal_edits(call: EngineCall, form: FlagForm) -> list[TextEdit]:
    """The edits of ``remove_flag``."""
    _require_editable(call)
    return [_removal(call.lexed, word) for use in flag_uses(call, form) for word in (use.word, *use.values)]


def blank_before(lexed: Lexed, offset: int) -> int:
    """Where the blanks before a word begin: the end of what stands before them."""
    index = lexed.token_index(offset) - 1
    while index >= 0 and lexed.tokens[index].kind is TokenKind.BLANK:
        index -= 1
    return lexed.tokens[index].end if index >= 0 else 0


def _require_editable(call: EngineCall) -> None:
    if not call.editable:
        raise QuotedEngineError(" ".join(word.text for word in call.head))


def _use(arguments: Sequence[Word], index: int, arity: Arity, wanted: Container[str]) -> FlagUse | None:
    word = arguments[index]
    match = _FLAG.fullmatch(word.text)
    if not match or canonical(match[1]) not in wanted:
        return None
    if match[2] is not None:
        return FlagUse(word, match[1], joined=match[2])
    return FlagUse(word, match[1], _values(arguments[index + 1 :], arity))


def _values(words: Sequence[Word], arity: Arity) -> tuple[Word, ...]:
    limit = {Arity.NONE: 0, Arity.ONE: 1, Arity.MANY: len(words)}[arity]
    values: list[Word] = []
    for word in words[:limit]:
        if word.text.startswith("-") and len(word.text) > 1 and not _NUMBER.fullmatch(word.text):
            break
        values.append(word)
    return tuple(values)


def _value_edits(lexed: Lexed, use: FlagUse, values: Sequence[str]) -> list[TextEdit]:
    text = " ".join(values)
    if use.joined is not None:
        return [_joined_edit(use, values, text)]
    if not use.values:
        return [TextEdit(use.word.end, use.word.end, f" {text}")]
    first, *others = use.values
    return [TextEdit(first.start, first.end, text), *(_removal(lexed, word) for word in others)]


def _joined_edit(use: FlagUse, values: Sequence[str], text: str) -> TextEdit:
    sign = f"{use.spelling}="
    if len(values) == 1 and use.word.raw.startswith(sign):
        return TextEdit(use.word.start + len(sign), use.word.end, text)
    return TextEdit(use.word.start, use.word.end, f"{sign if len(values) == 1 else use.spelling + ' '}{text}")


def _removal(lexed: Lexed, word: Word) -> TextEdit:
    return TextEdit(blank_before(lexed, word.start), word.end)
