"""What one launch planned, saw and did, kept while it goes on: for its timings, and for whoever has to find out why it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sparkrun.core.events import Event, EventSink
from sparkrun.core.facts import HostFacts
from sparkrun.core.plan import LaunchPlan
from sparkrun.core.timings import Heard, Timing, readiness_stages, timings_of
from sparkrun.orchestration.ready import Evidence, Outcome


class LaunchRecord:
    """Filled by the launch. ``thorough``: the ranks of a launch that went well are looked at too, at its end."""

    def __init__(self, *, thorough: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.thorough = thorough
        self.facts: Mapping[str, HostFacts] = {}
        self.plan: LaunchPlan | None = None
        self.outcome: Outcome | None = None
        self.evidence: dict[int, Evidence] = {}
        """By rank, the last that was seen of it."""
        self.output: dict[str, str] = {}
        """By host, what a hook printed that failed there."""
        self.heard: list[Heard] = []
        self._clock, self._began = clock, clock()

    def listening(self, emit: EventSink) -> EventSink:
        """The same ear, with everything written down on the way."""

        def hear(event: Event) -> None:
            self.heard.append(Heard(self._clock() - self._began, event))
            emit(event)

        return hear

    @property
    def seconds(self) -> float:
        """How long it has gone on."""
        return self._clock() - self._began

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Every phase with its steps, and the stages of the wait."""
        seen = self.outcome
        return timings_of(self.heard, readiness_stages(seen.port_open_ms, seen.healthy_ms, seen.first_token_ms) if seen else ())
