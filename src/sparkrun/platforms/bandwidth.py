"""Memory bandwidths by model name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

Bandwidths: TypeAlias = Mapping[str, float]
"""GB/s by a part of the model's name, the more particular name first."""


def bandwidth_of(model: str, known: Bandwidths) -> float | None:
    """The first entry that is the model's name, or whole words of it: ``h100`` is part of ``h100-80gb-hbm3``, ``l4`` is not of ``l40s``."""
    return next((value for name, value in known.items() if re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", model)), None)
