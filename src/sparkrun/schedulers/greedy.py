"""The first hosts, in the order in which they were given, whatever runs there."""

from __future__ import annotations

from typing import ClassVar

from sparkrun.core.scheduler import Scheduler


class GreedyScheduler(Scheduler):
    """Deterministic: the placement, and so the id of the workload, follows from the hosts alone."""

    plugin_name = "greedy"
    deterministic: ClassVar[bool] = True
