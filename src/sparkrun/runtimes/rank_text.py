"""Putting a rank's own words into the serving command."""

from __future__ import annotations

from collections.abc import Sequence

from sparkrun.core.flags import Edit, apply_override
from sparkrun.core.shell_text import FlagForm, flag_uses, insert_flags, quote_word, remove_flag
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.commands import EngineTraits, RankCommand, editable_engine
from sparkrun.runtimes.engine_calls import engine_call


def with_rank_words(runtime: EngineTraits, text: str, words: Sequence[str]) -> RankCommand:
    """The command with a rank's words after the engine's own ones. What an author spelt of the same flags goes, and is told.

    Raises ``RecipeError`` or ``QuotedEngineError`` where the engine's command cannot be edited.
    """
    notes = []
    for form in runtime.rank_flags:
        call = editable_engine(runtime, text)
        if uses := flag_uses(call, form):
            text = remove_flag(call, form)
            notes.append(f"{uses[-1].spelling} of the command gives way to what the launch sets for each rank")
    return RankCommand(insert_flags(editable_engine(runtime, text), list(words)) if words else text, tuple(notes))


def without_flag(runtime: EngineTraits, text: str, form: FlagForm) -> str:
    """The command without a flag; the same text where it has none or no engine is found."""
    call = engine_call(text, runtime.engine)
    return remove_flag(call, form) if call and flag_uses(call, form) else text


def with_value(runtime: EngineTraits, text: str, key: str, value: ConfigValue) -> str:
    """The command with the flag of a key at this value, replaced in place or added."""
    edit = apply_override(editable_engine(runtime, text), runtime.flag_map, key, value)
    return edit.text if isinstance(edit, Edit) else text


def words_of(*pairs: str | int) -> tuple[str, ...]:
    """Flags and values as quoted words."""
    return tuple(quote_word(str(pair)) for pair in pairs)
