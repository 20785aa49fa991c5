"""How much longer things take on this machine now than on one of its own: what a test allows for time is multiplied by it."""

from __future__ import annotations

import os

__all__ = ["SLOW", "slowness"]

SLOW = 2.0 if (os.cpu_count() or 1) <= 2 else 1.0
"""Two cores carry the hosts of a bed, their docker and us: what takes a second there takes two here."""


def slowness() -> float:
    """More than ``SLOW`` when others compute beside us."""
    return max(SLOW, 1.5 * os.getloadavg()[0] / (os.cpu_count() or 1))
