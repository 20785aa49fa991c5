"""Words for bash, and the `KEY=value` answers that scripts give back. Touches nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Params: TypeAlias = Mapping[str, str | Sequence[str]]
"""Parameters of a script: a text becomes a variable, a sequence of texts becomes an array."""

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_ANSWER = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_MARKER = re.compile(r"SPARKRUN_([A-Z0-9_]+)_(START|END)")
_NUMBER = re.compile(r"-?[0-9]+")
_ESCAPE = re.compile(r"\\([nr\\])")
_ESCAPED = {"n": "\n", "r": "\r", "\\": "\\"}


class Section(NamedTuple):
    """The answers between two markers, in the order they were given. A key may be repeated."""

    name: str
    pairs: tuple[tuple[str, str], ...] = ()
    complete: bool = False
    """False when the closing marker never came: what is missing is then unknown, not absent."""

    def text(self, key: str) -> str | None:
        """The last value given for a key; None when there was none."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)

    def all(self, key: str) -> tuple[str, ...]:
        """Every value given for a key."""
        return tuple(value for name, value in self.pairs if name == key)

    def number(self, key: str) -> int | None:
        """The last value as a whole number; None when it is missing or no number, such as `[N/A]`."""
        text = self.text(key)
        return int(text) if text and _NUMBER.fullmatch(text) else None

    def kib(self, key: str) -> int | None:
        """The last value, a number of KiB, in bytes; None when it is missing or no number."""
        number = self.number(key)
        return None if number is None else number * 1024

    def parted(self, key: str) -> Iterator[tuple[str, str]]:
        """Every value as its first word and the rest."""
        for value in self.all(key):
            first, _blank, rest = value.partition(" ")
            yield first, rest

    def flag(self, key: str) -> bool | None:
        """True for `1`, False for `0`, None (unknown) for all else."""
        return {"1": True, "0": False}.get(self.text(key) or "")


class Answers(NamedTuple):
    """One reply of a script. Answers outside of the markers are in sections without a name."""

    parts: tuple[Section, ...]
    noise: tuple[str, ...] = ()
    """Lines that are neither an answer nor a marker."""

    def section(self, name: str) -> Section:
        """The first section of a name; empty and incomplete when the script never gave it."""
        return next(iter(self.sections(name)), Section(name))

    def sections(self, name: str) -> tuple[Section, ...]:
        """All sections of a name, such as one `WORKLOAD` each."""
        return tuple(part for part in self.parts if part.name == name)

    def text(self, key: str) -> str | None:
        """The last value given for a key in any section; None when there was none."""
        return next((value for part in reversed(self.parts) if (value := part.text(key)) is not None), None)


def quote(text: str) -> str:
    """One word of bash that stands for exactly this text.

    Raises ValueError for a NUL character, which no shell word can hold.
    """
    if "\0" in text:
        raise ValueError("text for a shell holds a NUL character")
    return shlex.quote(text)


def assignments(params: Params) -> str:
    """Lines of bash that set every parameter: `NAME='value'` for a text, `NAMES=( 'a' 'b' )` for a sequence.

    Raises ValueError for a name that is not `[A-Z][A-Z0-9_]*` and TypeError for a value that is not text.
    """
    return "".join(f"{_checked_name(name)}={_value(name, value)}\n" for name, value in params.items())


def parse_answers(stdout: str) -> Answers:
    """What a script said, in order. Never fails: what it does not understand is kept as `noise`."""
    reader = _Reader()
    for line in stdout.split("\n"):
        reader.take(line)
    return reader.answers()


class _Reader:
    def __init__(self) -> None:
        self._parts: list[Section] = []
        self._noise: list[str] = []
        self._name = ""
        self._pairs: list[tuple[str, str]] = []

    def take(self, line: str) -> None:
        if marker := _MARKER.fullmatch(line):
            self._turn_to(marker[1] if marker[2] == "START" else "", closes=marker[2] == "END" and marker[1] == self._name)
        elif answer := _ANSWER.fullmatch(line):
            self._pairs.append((answer[1], _unescape(answer[2])))
        elif line:
            self._noise.append(line)

    def answers(self) -> Answers:
        self._turn_to("", closes=False)
        return Answers(tuple(self._parts), tuple(self._noise))

    def _turn_to(self, name: str, *, closes: bool) -> None:
        if self._name or self._pairs:
            self._parts.append(Section(self._name, tuple(self._pairs), closes))
        self._name, self._pairs = name, []


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a parameter name ([A-Z][A-Z0-9_]*)")
    return name


def _value(name: str, value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return _quoted(name, value)
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise TypeError(f"parameter {name} is {type(value).__name__}, not text or a sequence of texts")
    return " ".join(["(", *(_quoted(name, item) for item in value), ")"])


def _quoted(name: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"parameter {name} holds {type(text).__name__}, not text")
    word = quote(text)
    return word if word.startswith("'") else f"'{word}'"


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], text) if "\\" in text else text
