"""A command line of an engine, taken apart without knowing what each flag takes."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple


class EngineError(Exception):
    """The engine ends with a message and an exit code, as the real one would."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Arguments(NamedTuple):
    """``words`` stand before the first flag. A flag has whatever follows it up to the next one.
    ``_`` and ``-`` are the same in its name.
    """

    words: tuple[str, ...]
    flags: dict[str, tuple[str, ...]]

    def text(self, *names: str, default: str = "") -> str:
        """The first value of the first of these flags that is there."""
        for name in names:
            values = self.flags.get(name)
            if values:
                return values[0]
        return default

    def whole(self, *names: str, default: int) -> int:
        """A whole number."""
        said = self.text(*names)
        if said and not said.lstrip("-").isdecimal():
            raise EngineError(f"error: argument {names[0]}: invalid int value: '{said}'", 2)
        return int(said) if said else default

    def has(self, *names: str) -> bool:
        """Whether one of these flags is there."""
        return any(name in self.flags for name in names)

    def refuse_unknown(self, program: str, known: Collection[str]) -> None:
        """End as argparse does when a flag is in no list: nested ones (``--a.b``) and negated ones (``--no-a``) go by their own."""
        unknown = [name for name in self.flags if _base(name) not in known and name not in known]
        if unknown:
            raise EngineError(f"{program}: error: unrecognized arguments: {' '.join(unknown)}", 2)


def parse(argv: list[str]) -> Arguments:
    """Take a command line apart."""
    words: list[str] = []
    flags: dict[str, tuple[str, ...]] = {}
    name = ""
    for word in argv:
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.partition("=")
            name = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
            flags[name] = (value,) if equals else ()
        elif name:
            flags[name] += (word,)
        else:
            words.append(word)
    return Arguments(tuple(words), flags)


def _base(name: str) -> str:
    return re.sub(r"\..*", "", re.sub(r"^--no-", "--", name))
