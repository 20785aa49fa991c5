"""What the braces of a text mean: placeholders, doubled braces that stand for single ones, and braces that mean themselves.

Recipes come in two habits: authors who double every literal brace, and authors who write JSON as it is. The habit is read from the
braces themselves, group by group: JSON never begins with two braces, so doubled JSON collapses; ``${{X}}`` is no shell, so it collapses;
any other doubled group collapses unless the text also holds single literal groups or the group looks like a Jinja or Go template.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Doubling(Enum):
    """What doubled braces mean in a text."""

    BY_HABIT = "by habit"
    """What the author's other braces say."""
    ALWAYS_ESCAPE = "always escape"
    """Doubled braces stand for single ones."""
    NEVER_ESCAPE = "never escape"
    """Doubled braces mean themselves."""


class Spot(Enum):
    """Whether a placeholder stands in JSON that the text spells out."""

    PLAIN = "plain"
    JSON_VALUE = "json value"
    JSON_STRING = "json string"
    """Between the quotes of a JSON string."""


class Placeholder(NamedTuple):
    """``{name}`` at ``text[start:end]``."""

    start: int
    end: int
    name: str
    spot: Spot


class Braces(NamedTuple):
    """The placeholders of a text, the offsets of braces to drop, and the names that stand in doubled braces (``{{port}}``)."""

    placeholders: tuple[Placeholder, ...]
    dropped: tuple[int, ...]
    doubled_names: tuple[str, ...]


class _Group(NamedTuple):
    """A group that is open, or a finished one with ``end`` set to the offset of its closing brace."""

    start: int
    doubled: bool
    parameter: bool
    quote: str | None
    """The quote sign of its strings if it is JSON."""
    outermost: bool
    end: int = -1
    closed_double: bool = False

    @property
    def inner(self) -> int:
        return self.start + self.parameter + 1 + self.doubled


_PLAIN_NAME = r"[A-Za-z_]\w*"
_DOTTED_NAME = r"(?:config|launch)\.[A-Za-z_]\w*"
_JSON_START = re.compile(r"""\s*(?:(?P<quote>\\?["'])[^"'\\]*(?P=quote)\s*:|\}|\{[A-Za-z_]\w*\}\s*:)""", re.ASCII)
_TEMPLATE_LANGUAGE = re.compile(r"\s*\.[A-Za-z].*|[-~+]?[ \t]+[A-Za-z_][^;\n]*[ \t][-~+]?")
_WHOLE_NAME = re.compile(_PLAIN_NAME, re.ASCII)


def plain_braces(text: str, doubling: Doubling = Doubling.BY_HABIT, *, program: bool = False) -> Braces:
    """The braces of a text with placeholders ``{name}``. ``program`` says that the text is source code in another language."""
    return _Scanner(text, _PLAIN).braces(doubling, program)


def dotted_braces(text: str) -> Braces:
    """The braces of a text with placeholders ``{config.NAME}`` and ``{launch.FIELD}``, where literal braces may be doubled."""
    return _Scanner(text, _DOTTED).braces(Doubling.ALWAYS_ESCAPE, program=False)


def _token(name: str) -> re.Pattern[str]:
    return re.compile(rf"\\.|\$\{{\{{|\$\{{|\{{\{{|\{{(?P<name>{name})\}}|\{{|\}}", re.ASCII | re.DOTALL)


_PLAIN, _DOTTED = _token(_PLAIN_NAME), _token(_DOTTED_NAME)


class _Scanner:
    def __init__(self, text: str, token: re.Pattern[str]) -> None:
        self._text = text
        self._token = token
        self._open: list[_Group] = []
        self._closed: list[_Group] = []
        self._placeholders: list[Placeholder] = []

    def braces(self, doubling: Doubling, program: bool) -> Braces:
        self._scan()
        meant = [group for group in self._closed if group.doubled and self._is_escape(group, doubling, program)]
        dropped = [offset for group in meant for offset in _dropped(group)]
        contents = (self._text[group.inner : group.end] for group in self._closed if group.doubled and not group.parameter)
        names = tuple(content for content in contents if _WHOLE_NAME.fullmatch(content))
        return Braces(tuple(self._placeholders), tuple(sorted(dropped)), names)

    def _scan(self) -> None:
        pos = 0
        while match := self._token.search(self._text, pos):
            pos = match.end()
            if match["name"]:
                self._placeholders.append(Placeholder(match.start(), match.end(), match["name"], self._spot(match.start())))
            elif match[0] == "}":
                pos = self._close(match.start())
            elif match[0].endswith("{"):
                self._open_group(match)

    def _open_group(self, match: re.Match[str]) -> None:
        json = _JSON_START.match(self._text, match.end())
        quote = (json["quote"] or '"') if json else None
        outermost = not self._open or (self._open[-1].parameter and self._open[-1].outermost)
        self._open.append(_Group(match.start(), match[0].endswith("{{"), match[0].startswith("$"), quote, outermost))

    def _close(self, at: int) -> int:
        """Closes the innermost group, and says where to go on. A doubled group may end in one brace where its author forgot the other."""
        if not self._open:
            return at + 1
        group = self._open.pop()
        double = group.doubled and self._text.startswith("}}", at)
        self._closed.append(group._replace(end=at, closed_double=double))
        return at + 1 + double

    def _spot(self, offset: int) -> Spot:
        outer = next((group for group in self._open if group.quote), None)
        if outer is None:
            return Spot.PLAIN
        quotes = re.findall(r"\\.|[\"']", self._text[outer.inner : offset], re.DOTALL)
        return Spot.JSON_STRING if quotes.count(outer.quote or "") % 2 else Spot.JSON_VALUE

    def _is_escape(self, group: _Group, doubling: Doubling, program: bool) -> bool:
        if doubling is not Doubling.BY_HABIT:
            return doubling is Doubling.ALWAYS_ESCAPE
        writes_single = any(other.outermost and not other.doubled and not other.parameter for other in self._closed)
        writes_doubled = any(other.doubled and other.quote for other in self._closed)
        if group.quote or group.parameter:
            return not (program and writes_single)
        if not group.closed_double or writes_single:
            return False
        return writes_doubled or not _TEMPLATE_LANGUAGE.fullmatch(self._text, group.inner, group.end)


def _dropped(group: _Group) -> tuple[int, ...]:
    opening = group.start + group.parameter
    return (opening, group.end) if group.closed_double else (opening,)
