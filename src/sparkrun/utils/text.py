"""Words that users mistype, and the ones they meant."""

from __future__ import annotations

from collections.abc import Iterable

_LEAST_SIMILARITY = 0.6


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


def _folded(name: str) -> str:
    return name.strip().lstrip("-").replace("-", "_").casefold()
