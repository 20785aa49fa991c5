"""The least loaded hosts first."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.placement import Preference
from sparkrun.core.scheduler import Scheduler


class OccupancySparseScheduler(Scheduler):
    """Spreads workloads out; what new clusters use."""

    plugin_name = "occupancy-sparse"
    preference: ClassVar[Preference] = Preference.IDLE
