"""Words that users mistype, and the ones they meant; sizes as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LEAST_SIMILARITY = 0.6
_SLIP = 0.9
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
QUOTED_CHARS = 400
"""What is shown of a line that something else has printed."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like ``name``, or None when none is like it. Case, leading dashes and ``-`` against ``_`` do not count."""
    originals = {_folded(candidate): candidate for candidate in reversed(list(candidates))}
    wanted = _folded(name)
    if wanted in originals:
        return originals[wanted]
    import difflib  # takes as long to load as the rest of a usage error; only wrong names need it

    matches = difflib.get_close_matches(wanted, originals, n=1, cutoff=_LEAST_SIMILARITY)
    return originals[matches[0]] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint that names the nearest candidate, or ``""`` when none is like ``name``."""
    meant = nearest(name, candidates)
    return f"did you mean '{meant}'?" if meant else ""


def is_typing_error(name: str, meant: str) -> bool:
    """Whether ``name`` is hardly anything but ``meant`` with a slip of the fingers: a few letters swapped, wrong, missing or too many.

    A name that goes on where the other ends is a name of its own.
    """
    if name.startswith(meant) or meant.startswith(name):
        return False
    import difflib

    return sorted(name) == sorted(meant) or difflib.SequenceMatcher(None, name, meant).ratio() >= _SLIP


def size_text(size_bytes: int) -> str:
    """Bytes in the unit that suits them: ``4.2 GB``, ``310 MB``, ``12 kB``."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= factor:
            number = size_bytes / factor
            return f"{number:.1f} {unit}" if factor >= 10**9 else f"{number:.0f} {unit}"
    return f"{size_bytes} bytes"


def printable(name: str) -> str:
    """A name that came from elsewhere, fit for a terminal: control characters as in Python, ``\\n``."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)


def quoted_lines(lines: Iterable[str]) -> str:
    """What something else has printed, as lines below a message: nothing in it moves a terminal's cursor or fills its screen."""
    return "".join(f"\n  | {_fit(line)}" for line in lines)


def _fit(line: str) -> str:
    kept = line.replace("\t", "    ")[:QUOTED_CHARS]
    return printable(_COLOURS.sub("", kept)) + ("…" if len(line) > QUOTED_CHARS else "")


def counted(number: int, noun: str) -> str:
    """``1 host``, ``3 hosts``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _folded(name: str) -> str:
    return name.strip().lstrip("-").replace("-", "_").casefold()
