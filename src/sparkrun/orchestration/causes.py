"""What usually makes an engine end or stay silent, told from its last lines, and the way out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Cause(NamedTuple):
    """Words of engines that give a cause away, and what to do about it."""

    pattern: re.Pattern[str]
    way_out: str


def _cause(pattern: str, way_out: str) -> Cause:
    return Cause(re.compile(pattern, re.IGNORECASE), way_out)


CAUSES = (
    _cause(
        r"unrecognized arguments?\b|unrecognized option|no such option|unknown argument|invalid argument:|unexpected argument",
        "the engine of this image does not know a word of its command line: correct it in the recipe, in -o, or behind --",
    ),
    _cause(
        r"error: argument .*(?:invalid|expected)|invalid choice:|invalid value for|error while handling argument",
        "the engine does not take a value of its command line: correct it in the recipe, in -o, or behind --",
    ),
    _cause(
        r"out of memory|OutOfMemory|bad_alloc|cannot allocate memory|failed to allocate|No available memory for the cache blocks"
        r"|larger than the available KV cache memory|not enough memory",
        "it needs less memory with a lower --max-model-len or over more GPUs (--tp); sparkrun recipe vram shows what it takes",
    ),
    _cause(
        r"address already in use|EADDRINUSE|couldn't bind|failed to bind|could not bind",
        "something else has taken a port that it needs: choose another with --port, or stop what holds it",
    ),
    _cause(
        r"LocalEntryNotFoundError|cannot find the requested files|does not appear to have a file named|failed to load model"
        r"|is not a (?:valid model identifier|local folder)|can't load (?:the )?(?:configuration|tokenizer|model)",
        "files of the model are missing there: sparkrun model-cache verify MODEL",
    ),
)
"""Most telling first: an engine that is out of memory speaks of much else on its way down."""


def way_out(lines: Iterable[str]) -> str | None:
    """What to do about the cause that these lines give away; ``None`` when they give none away."""
    said = tuple(lines)
    return next((cause.way_out for cause in CAUSES if any(cause.pattern.search(line) for line in said)), None)
