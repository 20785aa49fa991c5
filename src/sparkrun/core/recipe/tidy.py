"""A command as a person would write it: no blanks at the ends of lines, no doubled braces."""

from __future__ import annotations

import re

from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import TextEdit, TokenKind, apply_edits, lex
from sparkrun.core.templating import render

_BACKSLASH_AND_BLANKS = re.compile(r"\\[ \t]+\n")


def tidy_command(command: str, values: Values) -> str:
    """The command without blanks at the ends of its lines, and with single braces where ``values`` then still render the same."""
    text = _single_braces(_without_line_end_blanks(command), values).strip()
    return text + "\n" if "\n" in text else text


def _without_line_end_blanks(command: str) -> str:
    """Blanks before a line end, outside of quotes, mean nothing, and keep YAML from writing the text as a block."""
    tokens = lex(command).tokens
    edits = []
    for token, following in zip(tokens, (*tokens[1:], None), strict=True):
        text = command[token.start : token.end]
        if token.kind is TokenKind.BLANK and "\n" in text:
            edits.append(TextEdit(token.start, token.end, _BACKSLASH_AND_BLANKS.sub("\\\\\n", text)))
        elif token.kind is TokenKind.BLANK and (following is None or following.kind is TokenKind.NEWLINE):
            edits.append(TextEdit(token.start, token.end))
    return apply_edits(command, edits)


def _single_braces(command: str, values: Values) -> str:
    """The command with each doubled brace written once, where it then still reads the same."""
    if "{{" not in command:
        return command
    single = render(command, {}).text
    return single if _reading(single, values) == _reading(command, values) and _reading(single, {}) == _reading(command, {}) else command


def _reading(command: str, values: Values) -> tuple[str, list[str]]:
    rendered = render(command, values)
    return rendered.text, [unknown.name for unknown in rendered.unknown]
