"""The parts of a shell command text, each with its place. Every character belongs to exactly one token, so no text is lost.

Follows the token rules of POSIX sh and bash as far as editing needs them: quotes, escapes, ``$( )``, backticks, ``${ }``, ``$(( ))``,
comments, line continuations, here-documents, operators and redirections. Text that a shell would refuse still has tokens.
A backslash followed by blanks and a line end counts as a continuation: that is what its author meant.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import NamedTuple

from sparkrun.core.shell_text.quoting import unquote


class TokenKind(Enum):
    """What a stretch of command text is."""

    BLANK = "blank"
    """Spaces, tabs and line continuations between words, a dangling final backslash among them."""
    NEWLINE = "newline"
    WORD = "word"
    OPERATOR = "operator"
    """``;``, ``&``, ``&&``, ``|``, ``||``, parentheses and the like: what ends a simple command."""
    REDIRECT = "redirect"
    """The sign of a redirection with its descriptor; the word after it is its target."""
    COMMENT = "comment"
    HEREDOC = "heredoc"
    """The body of a here-document with the line that ends it."""


class Context(Enum):
    """What quoting holds at a position, which decides how a value has to be written there."""

    BARE = "bare"
    SINGLE = "single quotes"
    DOUBLE = "double quotes"
    ANSI_C = "dollar-single quotes"
    PARAMETER = "parameter expansion"
    ARITHMETIC = "arithmetic"
    COMMENT = "comment"
    HEREDOC = "here-document"
    HEREDOC_LITERAL = "here-document taken literally"


class Token(NamedTuple):
    """One stretch of the text, ``text[start:end]``."""

    kind: TokenKind
    start: int
    end: int


class Run(NamedTuple):
    """A stretch of text where one context holds."""

    start: int
    context: Context
    nested: bool
    """Inside a command substitution."""
    backticked: bool


class Lexed(NamedTuple):
    """A text with its tokens (which tile it) and its runs (which tile it too), in order."""

    text: str
    tokens: tuple[Token, ...]
    runs: tuple[Run, ...]

    def token_index(self, offset: int) -> int:
        """The index of the token that holds the character at ``offset``."""
        return bisect_right(self.tokens, offset, key=_start) - 1

    def run_at(self, offset: int) -> Run:
        """The run that holds the character at ``offset``."""
        return self.runs[bisect_right(self.runs, offset, key=_start) - 1]


def lex(text: str) -> Lexed:
    """The tokens of a command text. Never fails: what is left open at the end runs to the end."""
    return _Lexer(text).lexed()


def _start(part: Token | Run) -> int:
    return part.start


class _Heredoc(NamedTuple):
    delimiter: str
    literal: bool
    indented: bool


class _Frame:
    """A nesting level: the whole text, a substitution, or a quotation that can hold substitutions."""

    __slots__ = ("awaiting", "closer", "context", "depth", "heredocs", "quoted", "word_start")

    def __init__(self, context: Context, closer: str = "", *, quoted: bool = False, depth: int = 0) -> None:
        self.context = context
        self.closer = closer
        self.quoted = quoted
        self.depth = depth
        self.word_start: int | None = None
        self.awaiting: str | None = None
        """The here-document sign whose delimiter is the next word."""
        self.heredocs: list[_Heredoc] = []


_PATTERNS = {
    Context.BARE: r"""
        (?P<joined>(?:\\[ \t]*\n)+(?=[^ \t\n;&|<>()\\]|\\(?![ \t]*(?:\n|\Z))))
      | (?P<blank>(?:[ \t]|\\[ \t]*(?:\n|\Z))+)
      | (?P<newline>\n)
      | (?P<plain>\\.)
      | (?P<single>'[^']*'?)
      | (?P<ansi>\$'(?:\\.|[^'\\])*'?)
      | (?P<double>\$?")
      | (?P<arithmetic>\$?\(\()
      | (?P<substitution>[$<>]\()
      | (?P<parameter>\$\{)
      | (?P<backtick>`)
      | (?P<redirect><<<|<<-|<<|<&|<>|<|>>|>&|>\||>|&>>|&>)
      | (?P<operator>&&|&|\|\||\|&|\||;;&|;;|;&|;|[()])
      | (?P<text>[^ \t\n\\'"$`<>;&|()]+|.)
    """,
    Context.DOUBLE: r"""
        (?P<close>")
      | (?P<plain>\\.)
      | (?P<arithmetic>\$\(\()
      | (?P<substitution>\$\()
      | (?P<parameter>\$\{)
      | (?P<backtick>`)
      | (?P<text>[^"\\$`]+|.)
    """,
    Context.PARAMETER: r"""
        (?P<close>\})
      | (?P<plain>\\.|\{[A-Za-z_]\w*\})
      | (?P<quote>')
      | (?P<double>")
      | (?P<arithmetic>\$\(\()
      | (?P<substitution>\$\()
      | (?P<parameter>\$\{)
      | (?P<backtick>`)
      | (?P<text>[^}\\{'"$`]+|.)
    """,
    Context.ARITHMETIC: r"""
        (?P<opened>\()
      | (?P<closed>\))
      | (?P<text>[^()]+)
    """,
}
_COMMENT = re.compile(r"#[^\n]*")


@cache
def _pattern(context: Context) -> re.Pattern[str]:
    """Compiled when first met: most texts need only two of them."""
    return re.compile(_PATTERNS[context], re.VERBOSE | re.DOTALL)


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._tokens: list[Token] = []
        self._runs: list[Run] = []
        self._frames = [_Frame(Context.BARE)]
        self._substitutions = 0
        self._backticks = 0
        self._actions: dict[str, Callable[[str], None]] = {
            "joined": self._joined,
            "blank": self._blank,
            "newline": self._newline,
            "plain": self._word_part,
            "single": lambda part: self._word_part(part, Context.SINGLE),
            "ansi": lambda part: self._word_part(part, Context.ANSI_C),
            "double": lambda part: self._open(part, _Frame(Context.DOUBLE)),
            "arithmetic": lambda part: self._open(part, _Frame(Context.ARITHMETIC, depth=2)),
            "substitution": lambda part: self._open(part, _Frame(Context.BARE, ")")),
            "parameter": lambda part: self._open(part, _Frame(Context.PARAMETER, quoted=self._in_quotes())),
            "backtick": self._backtick,
            "quote": self._quote_in_parameter,
            "redirect": self._redirect,
            "operator": self._operator,
            "text": self._plain_text,
            "close": self._close,
            "opened": self._parenthesis,
            "closed": self._parenthesis,
        }

    def lexed(self) -> Lexed:
        while self._pos < len(self._text):
            match = _pattern(self._frames[-1].context).match(self._text, self._pos)
            assert match is not None  # every pattern ends with "any character"
            self._actions[match.lastgroup or ""](match[0])
        del self._frames[1:]
        self._end_word()
        return Lexed(self._text, tuple(self._tokens), tuple(self._runs))

    def _take(self, part: str, context: Context | None = None) -> None:
        frame = self._frames[-1]
        run = Run(self._pos, context or frame.context, self._substitutions > 0, self._backticks > 0)
        if not self._runs or self._runs[-1][1:] != run[1:]:
            self._runs.append(run)
        self._pos += len(part)

    def _token(self, kind: TokenKind, part: str, context: Context | None = None) -> None:
        """Takes a part that stands between words; only those of the outermost level become tokens."""
        self._end_word()
        start = self._pos
        self._take(part, context)
        if len(self._frames) == 1:
            self._tokens.append(Token(kind, start, self._pos))

    def _word_part(self, part: str, context: Context | None = None) -> None:
        self._begin_word()
        self._take(part, context)

    def _begin_word(self) -> None:
        frame = self._frames[-1]
        if frame.word_start is None:
            frame.word_start = self._pos

    def _end_word(self) -> None:
        frame = self._frames[-1]
        if frame.word_start is None:
            return
        if len(self._frames) == 1:
            self._tokens.append(Token(TokenKind.WORD, frame.word_start, self._pos))
        if frame.awaiting is not None:
            raw = self._text[frame.word_start : self._pos]
            frame.heredocs.append(_Heredoc(unquote(raw), unquote(raw) != raw, frame.awaiting == "<<-"))
            frame.awaiting = None
        frame.word_start = None

    def _joined(self, part: str) -> None:
        """A continuation with no blank around it: the word before goes on."""
        if self._frames[-1].word_start is None:
            self._token(TokenKind.BLANK, part)
        else:
            self._take(part)

    def _blank(self, part: str) -> None:
        self._token(TokenKind.BLANK, part)

    def _plain_text(self, part: str) -> None:
        frame = self._frames[-1]
        comment = _COMMENT.match(self._text, self._pos)
        if comment and frame.context is Context.BARE and frame.word_start is None:
            self._token(TokenKind.COMMENT, self._comment(comment[0]), Context.COMMENT)
        else:
            self._word_part(part)

    def _comment(self, line: str) -> str:
        closer = line.find("`") if self._backticks else -1
        return line if closer < 0 else line[: max(closer, 1)]

    def _newline(self, part: str) -> None:
        self._token(TokenKind.NEWLINE, part)
        heredocs, self._frames[-1].heredocs = self._frames[-1].heredocs, []
        for heredoc in heredocs:
            self._heredoc(heredoc)

    def _heredoc(self, heredoc: _Heredoc) -> None:
        indent = r"\t*" if heredoc.indented else ""
        last_line = re.compile(rf"^{indent}{re.escape(heredoc.delimiter)}(?:\n|\Z)", re.MULTILINE)
        end = last_line.search(self._text, self._pos)
        body = self._text[self._pos : end.end() if end else len(self._text)]
        if body:
            self._token(TokenKind.HEREDOC, body, Context.HEREDOC_LITERAL if heredoc.literal else Context.HEREDOC)

    def _redirect(self, part: str) -> None:
        frame = self._frames[-1]
        start = frame.word_start
        if start is not None and self._text[start : self._pos].isdigit():
            frame.word_start = None
        else:
            self._end_word()
            start = self._pos
        self._take(part)
        if len(self._frames) == 1:
            self._tokens.append(Token(TokenKind.REDIRECT, start, self._pos))
        if part in ("<<", "<<-"):
            frame.awaiting = part

    def _operator(self, part: str) -> None:
        frame = self._frames[-1]
        if part == ")" and frame.closer == ")" and frame.depth == 0:
            self._close(part)
            return
        frame.depth = max(0, frame.depth + {"(": 1, ")": -1}.get(part, 0))
        self._token(TokenKind.OPERATOR, part)

    def _in_quotes(self) -> bool:
        frame = self._frames[-1]
        return frame.context is Context.DOUBLE or frame.quoted

    def _open(self, part: str, frame: _Frame) -> None:
        self._word_part(part)
        self._frames.append(frame)
        self._substitutions += frame.closer != ""
        self._backticks += frame.closer == "`"

    def _close(self, part: str) -> None:
        self._take(part)
        frame = self._frames.pop()
        self._substitutions -= frame.closer != ""
        self._backticks -= frame.closer == "`"

    def _backtick(self, part: str) -> None:
        if self._frames[-1].closer == "`":
            self._close(part)
        else:
            self._open(part, _Frame(Context.BARE, "`"))

    def _quote_in_parameter(self, part: str) -> None:
        """Single quotes quote in ``${x:-'y'}``, and are ordinary in ``"${x:-y's}"``."""
        closing = self._text.find("'", self._pos + 1)
        if self._frames[-1].quoted or closing < 0:
            self._take(part)
        else:
            self._take(self._text[self._pos : closing + 1], Context.SINGLE)

    def _parenthesis(self, part: str) -> None:
        frame = self._frames[-1]
        frame.depth += 1 if part == "(" else -1
        if frame.depth == 0:
            self._close(part)
        else:
            self._take(part)
