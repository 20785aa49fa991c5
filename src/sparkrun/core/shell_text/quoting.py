"""Writing a value as shell text, and reading shell text as a value."""

from __future__ import annotations

import re

_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_QUOTING = re.compile(
    r"""
    \\[ \t]*\n
  | \\(?P<escaped>.)
  | '(?P<single>[^']*)'?
  | \$'(?P<ansi>(?:\\.|[^'\\])*)'?
  | \$?"(?P<double>(?:\\.|[^"\\])*)"?
    """,
    re.VERBOSE | re.DOTALL,
)
_DOUBLE_ESCAPE = re.compile(r'\\(?:\n|([\\"$`]))')
_ANSI_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI_MEANING = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ANSI_MEANING |= {sign: sign for sign in "\\'\"?"}


def quote_word(text: str) -> str:
    """``text`` as one shell word; left alone where it needs no quotes."""
    return text if _SAFE.fullmatch(text) else f"'{escape_single(text)}'"


def unquote(raw: str) -> str:
    """The text that a raw word stands for. Expansions (``$x``, ``$( )``) stay as they are written."""
    return _QUOTING.sub(_meaning, raw)


def escape_single(text: str) -> str:
    """``text`` for a place between single quotes."""
    return text.replace("'", "'\\''")


def escape_double(text: str) -> str:
    """``text`` for a place between double quotes. ``$`` and backticks step out of them, which every reader of shell words understands."""
    return re.sub(r"[$`]+", "\"'\\g<0>'\"", re.sub(r'[\\"]', r"\\\g<0>", text))


def escape_ansi(text: str) -> str:
    """``text`` for a place within ``$'…'``."""
    return re.sub(r"[\\']", r"\\\g<0>", text)


def escape_heredoc(text: str) -> str:
    """``text`` for the body of a here-document that expands; also for a place within backticks."""
    return re.sub(r"[\\$`]", r"\\\g<0>", text)


def escape_parameter(text: str) -> str:
    """``text`` for the word of ``${x:-word}``; double quotes are the only ones that also work where that stands in double quotes."""
    if _SAFE.fullmatch(text):
        return text
    escaped = re.sub(r'["\\$`]', r"\\\g<0>", text)
    return f'"{escaped}"'


def _meaning(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind is None:
        return ""
    text = match[kind]
    if kind == "double":
        return _DOUBLE_ESCAPE.sub(lambda escape: escape[1] or "", text)
    if kind == "ansi":
        return _ANSI_ESCAPE.sub(lambda escape: _ANSI_MEANING.get(escape[1], escape[0]), text)
    return text
