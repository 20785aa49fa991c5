"""Finding the engine in a command, once a text."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from sparkrun.core.flags import FlagMap, literal_values
from sparkrun.core.shell_text import EngineCall, EngineSyntax, find_engine


@lru_cache(maxsize=64)
def engine_call(text: str, engine: EngineSyntax) -> EngineCall | None:
    """The command of ``text`` that starts the engine. Every rule asks for it, and taking a text apart takes a millisecond."""
    return find_engine(text, engine)


def literals(call: EngineCall | None, flags: FlagMap, keys: Collection[str]) -> dict[str, str | bool]:
    """What the command itself says of these keys."""
    return literal_values(call, FlagMap(flag for flag in flags.flags if flag.key in keys)) if call else {}
