"""Changing a text at marked places and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TextEdit(NamedTuple):
    """``text[start:end]`` becomes ``replacement``."""

    start: int
    end: int
    replacement: str = ""


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """``text`` with all edits made, insertions before what else begins there. Of two that overlap, the one that begins first
    (of those, the longer one) is made."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end > edit.start, -edit.end)):
        if edit.start < done:
            continue
        parts += text[done : edit.start], edit.replacement
        done = edit.end
    return "".join((*parts, text[done:]))
