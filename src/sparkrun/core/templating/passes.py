"""One pass over one command text: what each placeholder in it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sparkrun.core.flags import FlagKind, FlagMap, are_numbers, list_words
from sparkrun.core.shell_text import Context, Lexed, TextEdit, TokenKind, Word, apply_edits, flag_name, lex, quote_word, simple_commands
from sparkrun.core.shell_text.arguments import blank_before
from sparkrun.core.shell_text.lexer import Run
from sparkrun.core.shell_text.quoting import escape_double, escape_single
from sparkrun.core.shell_text.words import command_start, program, shell_script, word_at
from sparkrun.core.templating.braces import Doubling, Placeholder, Spot, plain_braces
from sparkrun.core.templating.positions import positioned, positioned_live
from sparkrun.core.templating.resolving import Resolver, spot_text
from sparkrun.core.values import ConfigValue, is_off
from sparkrun.utils.text import nearest


class RenderRules(NamedTuple):
    """What a template cannot say itself; ``render`` explains the parts."""

    from_recipe: frozenset[str]
    flags: FlagMap
    doubling: Doubling


class UnknownPlaceholder(NamedTuple):
    """A placeholder that no key stands for, at ``template[start:end]``, and the known key most like it.

    ``within`` is the key whose value holds it; the place is then that of the placeholder which asked for that key.
    """

    name: str
    start: int
    end: int
    nearest: str | None
    within: str | None = None


class Findings:
    """What all passes of one rendering share and learn."""

    def __init__(self, resolver: Resolver, rules: RenderRules) -> None:
        self.resolver = resolver
        self.rules = rules
        self.unknown: dict[UnknownPlaceholder, None] = {}
        self.notes: dict[str, None] = {}

    def add_unknown(self, name: str, place: tuple[int, int], within: str | None) -> None:
        """Records a placeholder that no key stands for."""
        self.unknown[UnknownPlaceholder(name, *place, nearest(name, self.resolver.names), within)] = None


class Origin(NamedTuple):
    """Where the text of a pass comes from: shifted within the template, or the value of a key that a placeholder at ``place`` asked for."""

    offset: int = 0
    chain: tuple[str, ...] = ()
    place: tuple[int, int] | None = None

    def place_of(self, found: Placeholder) -> tuple[int, int]:
        """The place of a placeholder in the template."""
        return self.place or (found.start + self.offset, found.end + self.offset)


# Programs whose arguments are programs in a language with braces of its own.
_FOREIGN = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "perl", "jq", "ruby", "node", "grep"})
_PYTHON = re.compile(r"python[\d.]*")
_OWN_CONTEXTS = (Context.BARE, Context.SINGLE, Context.DOUBLE, Context.ANSI_C)
_EXTRA_ARGUMENTS = re.compile(r"(?:^|_)(?:extra|additional)(?:_|$)|^(?:args|flags|opts|options)$|_(?:flags|opts)$")
_FLAGS_TEXT = re.compile(r"""\s*-.*[\s'"].*""", re.DOTALL)
_BACKSLASH_BLANKS = re.compile(r"(?<=\\)[ \t]+(?=\n)")


class TextPass:
    """Renders one text: the template, the script of a ``bash -c``, or a value that is several words."""

    def __init__(self, findings: Findings, lexed: Lexed, origin: Origin = Origin()) -> None:
        self._findings = findings
        self._resolver = findings.resolver
        self._lexed = lexed
        self._origin = origin
        self._commands = simple_commands(lexed)
        scripts = [script for words in self._commands if (script := shell_script(words))]
        self._verbatim = {script.start: script for script in scripts if _escape_of(script)}
        self._quoted_scripts = {script.start for script in scripts if not _escape_of(script)}

    def edits(self) -> list[TextEdit]:
        """The edits that fill in every placeholder of the text. Raises PlaceholderCycle."""
        edits = [edit for region in self._regions() for edit in self._region_edits(*region)]
        edits += (edit for script in self._verbatim.values() for edit in self._script_edits(script))
        return edits + _blanks_after_backslashes(self._lexed)

    def _regions(self) -> Iterator[tuple[int, int, bool]]:
        """Stretches whose braces belong together: all between comments and scripts of their own; True for a here-document."""
        start = 0
        for token in self._lexed.tokens:
            heredoc = token.kind is TokenKind.HEREDOC
            if heredoc or token.kind is TokenKind.COMMENT or token.start in self._verbatim:
                yield start, token.start, False
                start = token.end
            if heredoc:
                yield token.start, token.end, True
        yield start, len(self._lexed.text), False

    def _region_edits(self, start: int, end: int, heredoc: bool) -> Iterator[TextEdit]:
        braces = plain_braces(self._lexed.text[start:end], self._findings.rules.doubling, program=heredoc)
        yield from (TextEdit(start + offset, start + offset + 1) for offset in braces.dropped)
        for name in braces.doubled_names:
            if name in self._resolver:
                self._findings.notes[f"{{{{{name}}}}} is taken literally; {{{name}}} stands for the value"] = None
        for found in braces.placeholders:
            edit = self._placeholder(found._replace(start=found.start + start, end=found.end + start))
            if edit:
                yield edit

    def _script_edits(self, script: Word) -> Iterator[TextEdit]:
        escape = _escape_of(script) or str
        inner = lex(script.raw[1:-1])
        origin = self._origin._replace(offset=self._origin.offset + script.start + 1)
        for edit in TextPass(self._findings, inner, origin).edits():
            start = script.start + 1
            yield TextEdit(edit.start + start, edit.end + start, escape(edit.replacement))

    def _placeholder(self, found: Placeholder) -> TextEdit | None:
        run = self._lexed.run_at(found.start)
        if run.context is Context.COMMENT:
            return None
        if found.name not in self._resolver:
            if not self._is_foreign(found, run):
                self._findings.add_unknown(found.name, self._origin.place_of(found), self._origin.chain[-1] if self._origin.chain else None)
            return None
        return self._known(found, run)

    def _is_foreign(self, found: Placeholder, run: Run) -> bool:
        """Whether braces at this place belong to another language, so that a name in them need not be ours."""
        if run.nested or run.context not in _OWN_CONTEXTS:
            return True
        words = next((words for words in self._commands if words[0].start <= found.start < words[-1].end), ())
        start = command_start(words)
        name = program(words[start]) if start < len(words) else ""
        return name in _FOREIGN or (_PYTHON.fullmatch(name) is not None and any(word.text == "-c" for word in words))

    def _known(self, found: Placeholder, run: Run) -> TextEdit:
        name = self._resolver.alias(found.name, self._origin.chain)
        value = self._resolver.value(name, self._origin.chain)
        for missing in self._resolver.take_missing():
            self._findings.add_unknown(missing.name, self._origin.place_of(found), missing.within)
        word = None if run.nested else word_at(self._lexed, found.start)
        if word and is_off(value) and found.spot is Spot.PLAIN and (removal := self._switched_off(found, word)):
            return removal
        whole = word is not None and (word.start, word.end) == (found.start, found.end)
        text = self._several_words(name, value, self._origin.place_of(found)) if whole else None
        return TextEdit(found.start, found.end, self._one_word(name, value, found, run) if text is None else text)

    def _switched_off(self, found: Placeholder, word: Word) -> TextEdit | None:
        """The removal of a whole word, and of the flag before it whose value it is."""
        before, after = word.raw[: found.start - word.start], word.raw[found.end - word.start :]
        if after not in ("", before[-1:]) or after not in ("", "'", '"'):
            return None
        prefix = before[: len(before) - len(after)]
        if prefix:
            joined = prefix.endswith("=") and prefix.startswith("-")
            return TextEdit(blank_before(self._lexed, word.start), word.end) if joined else None
        flag = self._flag_before(found, word)
        return TextEdit(blank_before(self._lexed, (flag or word).start), word.end)

    def _flag_before(self, found: Placeholder, word: Word) -> Word | None:
        """The flag that a word is the value of."""
        end = blank_before(self._lexed, word.start)
        flag = word_at(self._lexed, end - 1) if end else None
        name = flag_name(flag) if flag and "=" not in flag.text else None
        if flag is None or name is None:
            return None
        takes_value = self._findings.rules.flags.takes_value(name)
        if takes_value is None:
            same_line = "\n" not in self._lexed.text[flag.end : word.start]
            same_name = name.lstrip("-").replace("-", "_") == found.name
            takes_value = same_name or (same_line and not _EXTRA_ARGUMENTS.search(found.name))
        return flag if takes_value else None

    def _several_words(self, name: str, value: ConfigValue, place: tuple[int, int]) -> str | None:
        """The value as several words, where its author or the flag map says that it is."""
        flag = self._findings.rules.flags.by_key(name)
        if flag and flag.kind is FlagKind.LIST and isinstance(value, list):
            return " ".join(list_words(value))
        raw = self._resolver.raw(name)
        if not isinstance(raw, str) or name not in self._findings.rules.from_recipe:
            return None
        if are_numbers(raw):
            return " ".join(raw.split())
        if not _FLAGS_TEXT.fullmatch(raw.strip()):
            return None
        self._findings.notes[f"{{{name}}} is put in as several words"] = None
        return self._flags_text(raw.strip(), Origin(0, self._resolver.follow(name, self._origin.chain), place))

    def _flags_text(self, text: str, origin: Origin) -> str:
        lexed = lex(text)
        lines = [TextEdit(token.start, token.end, " ") for token in lexed.tokens if token.kind in (TokenKind.NEWLINE, TokenKind.COMMENT)]
        return apply_edits(text, [*TextPass(self._findings, lexed, origin).edits(), *lines])

    def _one_word(self, name: str, value: ConfigValue, found: Placeholder, run: Run) -> str:
        text = spot_text(value, found.spot)
        if found.spot is Spot.PLAIN and name in self._findings.rules.from_recipe and value == self._resolver.raw(name):
            live = positioned_live(text, run)
            if live is not None:
                return live
        word = word_at(self._lexed, found.start)
        return positioned(quote_word(text) if word and word.start in self._quoted_scripts else text, run)


def _escape_of(script: Word) -> Callable[[str], str] | None:
    """How to write into a script that stands in one pair of quotes with nothing escaped; None for any other script."""
    inner = script.raw[1:-1]
    if script.raw == f"'{inner}'" and "'" not in inner:
        return escape_single
    if script.raw == f'"{inner}"' and not re.search(r'["\\`]', inner):
        return escape_double
    return None


def _blanks_after_backslashes(lexed: Lexed) -> list[TextEdit]:
    """Edits that make ``\\`` followed by blanks at the end of a line the continuation that it was meant to be."""
    blanks = [token for token in lexed.tokens if token.kind is TokenKind.BLANK]
    matches = (match for token in blanks for match in _BACKSLASH_BLANKS.finditer(lexed.text, token.start, token.end))
    return [TextEdit(match.start(), match.end()) for match in matches]
