"""Finding the simple command that starts the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sparkrun.core.shell_text.lexer import Lexed, lex
from sparkrun.core.shell_text.words import Word, command_start, program, shell_script, simple_commands


class EngineSyntax(NamedTuple):
    """How an engine is started and told its model."""

    name: str
    starts: tuple[tuple[str, ...], ...]
    """Word sequences that start it. The first word matches in any folder; ``python`` also as ``python3.12`` and with options of its own."""
    model_flags: tuple[str, ...] = ()
    """Spellings of the flag that names the model. Without one, the model is the first argument."""
    model_is_positional: bool = True


class EngineCall(NamedTuple):
    """The command that starts the engine: ``head`` are the words that name it, ``arguments`` all words after them."""

    lexed: Lexed
    head: tuple[Word, ...]
    arguments: tuple[Word, ...]
    editable: bool = True
    """False where the engine is started within quotes (``bash -c '…'``): its words can be read, and places are those of the inner text."""

    @property
    def text(self) -> str:
        """The whole command text that the places refer to."""
        return self.lexed.text

    @property
    def insertion_point(self) -> int:
        """Where further arguments go: the end of the last word, before redirections, pipes, comments and a dangling backslash."""
        return (*self.head, *self.arguments)[-1].end


_PYTHON = re.compile(r"python(?:\d+(?:\.\d+)*)?")
_PYTHON_VALUED = frozenset({"-X", "-W"})
# Programs whose own options are too many to tell from the engine's words: the engine is looked for anywhere after them.
_LAUNCHERS = frozenset({"mpirun", "mpiexec", "srun", "orterun", "prterun", "nsys", "ncu", "torchrun", "strace", "gdb"})


def find_engine(text: str, engine: EngineSyntax) -> EngineCall | None:
    """The last command of ``text`` that starts the engine, or None. Comments, here-documents and substitutions are not looked into."""
    lexed = lex(text)
    for words in reversed(simple_commands(lexed)):
        call = _call(lexed, words, engine) or _quoted_call(words, engine)
        if call:
            return call
    return None


def _call(lexed: Lexed, words: Sequence[Word], engine: EngineSyntax) -> EngineCall | None:
    start = command_start(words)
    if start == len(words):
        return None
    last = len(words) if program(words[start]) in _LAUNCHERS else start + 1
    for index in range(start, last):
        length = max(_matched(words[index:], sequence) for sequence in engine.starts)
        if length:
            return EngineCall(lexed, tuple(words[index : index + length]), tuple(words[index + length :]))
    return None


def _quoted_call(words: Sequence[Word], engine: EngineSyntax) -> EngineCall | None:
    script = shell_script(words)
    inner = find_engine(script.text, engine) if script else None
    return inner._replace(editable=False) if inner else None


def _matched(words: Sequence[Word], sequence: Sequence[str]) -> int:
    """How many words the start of an engine takes here; 0 when it does not stand here."""
    first, *rest = sequence
    name = program(words[0])
    own = 0
    if first == "python" and _PYTHON.fullmatch(name):
        own = _python_options(words[1:])
    elif name != first:
        return 0
    length = 1 + own + len(rest)
    return length if [word.text for word in words[1 + own : length]] == rest else 0


def _python_options(words: Sequence[Word]) -> int:
    """How many words between ``python`` and its ``-m``, ``-c`` or script are options (``-u``, ``-X faulthandler``)."""
    index = 0
    while index < len(words) and words[index].text.startswith("-") and words[index].text not in ("-m", "-c"):
        index += 2 if words[index].text in _PYTHON_VALUED else 1
    return index
