"""The lists of flags that engines are known to accept, read when a recipe is checked and not before."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "flag_tables" / "known"


class KnownFlags(NamedTuple):
    """``engine`` says which engine and version the names are of."""

    engine: str
    names: frozenset[str]


@cache
def read_known_flags(name: str) -> KnownFlags:
    """The list of one engine, by the stem of its file."""
    title, _, names = (_FOLDER / f"{name}.txt").read_text(encoding="ascii").partition("\n")
    return KnownFlags(title, frozenset(names.split()))
