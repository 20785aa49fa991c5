"""The most loaded hosts that still have room first."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.placement import Preference
from sparkrun.core.scheduler import Scheduler


class OccupancyDenseScheduler(Scheduler):
    """Keeps whole hosts free for workloads that need them."""

    plugin_name = "occupancy-dense"
    preference: ClassVar[Preference] = Preference.BUSY
