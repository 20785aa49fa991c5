"""How long the phases of a launch took, and the steps and stages in them: a tree, made from the events that told of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sparkrun.core.events import Done, Event, Phase, Step


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One phase, step or stage of a wait. ``seconds`` is ``None`` for a phase that was ``skipped`` (why), and for what never ended."""

    title: str
    seconds: float | None = None
    skipped: str | None = None
    parts: tuple[Timing, ...] = ()


class Heard(msgspec.Struct, frozen=True):
    """An event, and when it came, in seconds since the launch began."""

    at_s: float
    event: Event


def timings_of(heard: Iterable[Heard], stages: tuple[Timing, ...] = ()) -> tuple[Timing, ...]:
    """Every phase in order, each with its steps. ``stages`` are parts of the first step of the last phase: the wait for the answer."""
    phases: list[list[Heard]] = []
    for each in heard:
        if isinstance(each.event, Phase):
            phases.append([])
        if phases and isinstance(each.event, Phase | Step | Done):
            phases[-1].append(each)
    return tuple(_phase(marks, stages if number == len(phases) else ()) for number, marks in enumerate(phases, start=1))


def readiness_stages(port_open_ms: int | None, healthy_ms: int | None, first_token_ms: int | None) -> tuple[Timing, ...]:
    """The stages of a wait as far as it came. The first two count from the start of the wait, the last from its request."""
    healthy = None if healthy_ms is None else healthy_ms - (port_open_ms or 0)
    spent = (("port open", port_open_ms), ("healthy", healthy), ("first token", first_token_ms))
    return tuple(Timing(title=title, seconds=_seconds(ms / 1000)) for title, ms in spent if ms is not None)


def _phase(marks: list[Heard], stages: tuple[Timing, ...]) -> Timing:
    phase = marks[0].event
    assert isinstance(phase, Phase)
    done = next((mark for mark in marks if isinstance(mark.event, Done)), None)
    steps = [mark for mark in marks if isinstance(mark.event, Step)]
    ends = [*(step.at_s for step in steps[1:]), done.at_s if done else None]
    parts = [_step(step, end, stages if step is steps[0] else ()) for step, end in zip(steps, ends, strict=bool(steps))]
    seconds = _seconds(done.event.seconds) if done and isinstance(done.event, Done) else None
    return Timing(title=phase.title, seconds=seconds, skipped=phase.skipped, parts=tuple(parts))


def _step(mark: Heard, end_s: float | None, stages: tuple[Timing, ...]) -> Timing:
    assert isinstance(mark.event, Step)
    return Timing(title=mark.event.title, seconds=None if end_s is None else _seconds(end_s - mark.at_s), parts=stages)


def _seconds(value: float) -> float:
    return round(value, 3)
