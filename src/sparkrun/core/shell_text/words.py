"""Words and simple commands of a command text, and where the real command begins behind ``exec``, ``env A=b``, ``taskset`` and the like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename
from typing import NamedTuple

from sparkrun.core.shell_text.lexer import Lexed, Token, TokenKind
from sparkrun.core.shell_text.quoting import unquote


class Word(NamedTuple):
    """A word and its place. ``raw`` is what stands in the text, ``text`` what it means once quotes are gone."""

    start: int
    end: int
    raw: str
    text: str

    @property
    def dynamic(self) -> bool:
        """Whether the shell replaces part of the word when it runs, so that ``text`` is not its value."""
        return bool(_EXPANSION.search(_STATIC.sub(_live_part, self.raw)))


class _Wrapper(NamedTuple):
    """A program that starts the program named after its own options."""

    valued: str = ""
    """Options that take the next word as their value, separated by blanks."""
    positionals: int = 0


_EXPANSION = re.compile(r"`|\$[\w({@*#?!$-]")
_STATIC = re.compile(r"""\\.|\$?'[^']*'?|"(?P<double>(?:\\.|[^"\\])*)"?""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=", re.ASCII)
_RESERVED = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_SCRIPT_OPTION = re.compile(r"-[A-Za-z]*c")
_WRAPPERS = {
    "builtin": _Wrapper(),
    "chrt": _Wrapper("-T -P -D --sched-runtime --sched-period --sched-deadline", 1),
    "command": _Wrapper(),
    "conda": _Wrapper("-n -p --name --prefix", 1),
    "dumb-init": _Wrapper(),
    "env": _Wrapper("-u -C --unset --chdir"),
    "exec": _Wrapper("-a"),
    "gosu": _Wrapper(positionals=1),
    "ionice": _Wrapper("-c -n --class --classdata"),
    "nice": _Wrapper("-n --adjustment"),
    "nohup": _Wrapper(),
    "numactl": _Wrapper("-C -N -m -i -p -l --physcpubind --cpunodebind --membind --interleave --preferred"),
    "poetry": _Wrapper(positionals=1),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper("-i -o -e --input --output --error"),
    "sudo": _Wrapper("-u -g -h -p -C -D -R -T -U --user --group --host --prompt --chdir"),
    "taskset": _Wrapper(positionals=1),
    "time": _Wrapper("-f -o --format --output"),
    "timeout": _Wrapper("-k -s --kill-after --signal", 1),
    "tini": _Wrapper("-p -e"),
    "trtllm-llmapi-launch": _Wrapper(),
    "unbuffer": _Wrapper(),
    "uv": _Wrapper("-p --python --with --project --directory", 1),
}


def simple_commands(lexed: Lexed) -> list[tuple[Word, ...]]:
    """The words of each simple command in order, without redirections. Commands within substitutions are not among them."""
    commands: list[list[Word]] = [[]]
    is_target = False
    for token in lexed.tokens:
        if token.kind in (TokenKind.OPERATOR, TokenKind.NEWLINE):
            commands.append([])
        elif token.kind is TokenKind.WORD and not is_target:
            commands[-1].append(_word(lexed.text, token))
        if token.kind is not TokenKind.BLANK:
            is_target = token.kind is TokenKind.REDIRECT
    return [tuple(words) for words in commands if words]


def word_at(lexed: Lexed, offset: int) -> Word | None:
    """The word that holds the character at ``offset``; None between words, in comments and in here-documents."""
    token = lexed.tokens[lexed.token_index(offset)]
    return _word(lexed.text, token) if token.kind is TokenKind.WORD else None


def command_start(words: Sequence[Word]) -> int:
    """The index of the word that names the program: after reserved words, assignments and wrappers; ``len(words)`` when there is none."""
    index = 0
    while index < len(words):
        skipped = _prefix_length(words, index)
        if not skipped:
            break
        index += skipped
    return min(index, len(words))


def program(word: Word) -> str:
    """The name of the program that a word starts, without its folder."""
    return basename(word.text)


def shell_script(words: Sequence[Word]) -> Word | None:
    """The script of ``bash -c 'script'``, if the command is one."""
    start = command_start(words)
    if start == len(words) or program(words[start]) not in _SHELLS:
        return None
    for option, script in zip(words[start + 1 :], words[start + 2 :], strict=False):
        if _SCRIPT_OPTION.fullmatch(option.text):
            return script
    return None


def _word(text: str, token: Token) -> Word:
    raw = text[token.start : token.end]
    return Word(token.start, token.end, raw, unquote(raw))


def _live_part(quoting: re.Match[str]) -> str:
    """What the shell still looks at in a quoted part: double quotes keep ``$`` alive."""
    return re.sub(r"\\.", "", quoting["double"] or "", flags=re.DOTALL)


def _prefix_length(words: Sequence[Word], index: int) -> int:
    word = words[index]
    if word.raw in _RESERVED or _ASSIGNMENT.match(word.raw):
        return 1
    wrapper = _WRAPPERS.get(program(word))
    return 1 + _own_arguments(words[index + 1 :], wrapper) if wrapper else 0


def _own_arguments(words: Sequence[Word], wrapper: _Wrapper) -> int:
    """How many of the words after a wrapper's name are its own options and positional arguments."""
    index = _options(words, 0, wrapper)
    for _ in range(wrapper.positionals):
        index = _options(words, index + 1, wrapper)
    return index


def _options(words: Sequence[Word], index: int, wrapper: _Wrapper) -> int:
    """The index of the first word from ``index`` on that is no option of a wrapper."""
    valued = wrapper.valued.split()
    while index < len(words) and words[index].text.startswith("-"):
        option = words[index].text
        index += 2 if option in valued else 1
        if option == "--":
            break
    return index
