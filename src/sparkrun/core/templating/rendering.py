"""Filling in the placeholders of a command template."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sparkrun.core.flags import FlagMap
from sparkrun.core.shell_text import Lexed, TextEdit, TokenKind, apply_edits, lex
from sparkrun.core.templating.braces import Doubling
from sparkrun.core.templating.passes import Findings, RenderRules, TextPass, UnknownPlaceholder
from sparkrun.core.templating.resolving import Resolver
from sparkrun.core.values import ConfigValue


class Rendered(NamedTuple):
    """A command, the keys that went into it, the placeholders that no key stands for, and what is worth telling."""

    text: str
    used: frozenset[str]
    unknown: tuple[UnknownPlaceholder, ...] = ()
    notes: tuple[str, ...] = ()


def render(
    template: str,
    values: Mapping[str, ConfigValue],
    *,
    from_recipe: Collection[str] = (),
    flags: FlagMap | None = None,
    doubling: Doubling = Doubling.BY_HABIT,
) -> Rendered:
    """A command template with its placeholders filled in, each written so that the shell gives back exactly the value.

    ``from_recipe`` names the keys whose values the recipe's author wrote: only those may be several words (``extra_args: "--a 1 --b 2"``,
    ``cuda_graph_bs: "1 2 4"``) or hold shell variables that expand; any other value is one word. ``flags`` tells which flags take a
    value and which take several words. A value that is null, empty text or an empty list takes its flag away with it.

    Comments stay as they are. A placeholder that no key stands for stays in the text and is told, except where braces belong to another
    language (awk programs, here-documents, substitutions). Blanks around the command, blanks behind a backslash at the end of a line and
    a final backslash are dropped. Raises PlaceholderCycle.
    """
    findings = Findings(Resolver(values, doubling), RenderRules(frozenset(from_recipe), flags or FlagMap(), doubling))
    lexed = lex(template)
    text = apply_edits(template, [*TextPass(findings, lexed).edits(), *_outer_blanks(lexed)])
    return Rendered(text, frozenset(findings.resolver.used), tuple(findings.unknown), tuple(findings.notes))


def _outer_blanks(lexed: Lexed) -> list[TextEdit]:
    """Edits that drop the blanks around a text, a final backslash among them."""
    blank = (TokenKind.BLANK, TokenKind.NEWLINE)
    kept = [token for token in lexed.tokens if token.kind not in blank]
    if not kept:
        return [TextEdit(0, len(lexed.text))]
    return [TextEdit(0, kept[0].start), TextEdit(kept[-1].end, len(lexed.text))]
