"""Writing a value where its placeholder stands, so that the shell hands the engine exactly that value."""

from __future__ import annotations

import re

from sparkrun.core.shell_text.lexer import Context, Run
from sparkrun.core.shell_text.quoting import escape_ansi, escape_double, escape_heredoc, escape_parameter, escape_single, quote_word

_LIVE_VARIABLE = re.compile(r"""\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?:(?::?[-+=?]|[#%/:^,])[^{}$`"\\']*)?\})""", re.ASCII)
_NEEDS_CARE = re.compile(r"""[$`"\\]""")


def positioned(text: str, run: Run) -> str:
    """``text`` for the context that holds at its place; one word or part of one, whatever it contains. No text leaves nothing behind."""
    written = _in_context(text, run) if text else ""
    return escape_heredoc(written) if run.backticked and run.context is not Context.HEREDOC_LITERAL else written


def positioned_live(text: str, run: Run) -> str | None:
    """``text`` with its shell variables left to expand, as one word; None where the text has none or the context does not expand them."""
    if not _LIVE_VARIABLE.search(text) or _NEEDS_CARE.search(_LIVE_VARIABLE.sub("", text)):
        return None
    if run.context is Context.BARE:
        return f'"{text}"'
    return text if run.context in (Context.DOUBLE, Context.HEREDOC) else None


def _in_context(text: str, run: Run) -> str:
    match run.context:
        case Context.SINGLE:
            return escape_single(text)
        case Context.DOUBLE:
            return escape_double(text)
        case Context.ANSI_C:
            return escape_ansi(text)
        case Context.HEREDOC:
            return escape_heredoc(text)
        case Context.HEREDOC_LITERAL:
            return text
        case Context.PARAMETER:
            return escape_parameter(text)
    return quote_word(text)
