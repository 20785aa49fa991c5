from __future__ import annotations

from sparkrun.core.events import Detail, Done, Phase, Step
from sparkrun.core.timings import Heard, Timing, readiness_stages, timings_of


def test_phases_hold_their_steps_and_the_last_one_the_stages_of_the_wait() -> None:
    heard = [
        Heard(0.0, Phase(1, 3, "Preparing")),
        Heard(0.1, Step(1, 2, "look")),
        Heard(0.4, Detail("seen")),
        Heard(0.5, Step(2, 2, "plan")),
        Heard(0.6, Done(0.6)),
        Heard(0.6, Phase(2, 3, "Building", "no builder")),
        Heard(1.0, Phase(3, 3, "Waiting")),
        Heard(1.0, Step(1, 2, "wait")),
        Heard(2.5, Step(2, 2, "hook")),
        Heard(3.0, Done(2.0)),
    ]
    stages = readiness_stages(900, 1000, 300)
    assert timings_of(heard, stages) == (
        Timing(title="Preparing", seconds=0.6, parts=(Timing(title="look", seconds=0.4), Timing(title="plan", seconds=0.1))),
        Timing(title="Building", skipped="no builder"),
        Timing(title="Waiting", seconds=2.0, parts=(Timing(title="wait", seconds=1.5, parts=stages), Timing(title="hook", seconds=0.5))),
    )
    assert [(stage.title, stage.seconds) for stage in stages] == [("port open", 0.9), ("healthy", 0.1), ("first token", 0.3)]


def test_what_never_ended_has_no_time() -> None:
    heard = [Heard(0.0, Phase(1, 6, "Launching")), Heard(0.2, Step(1, 2, "start")), Heard(0.7, Step(2, 2, "begin"))]
    (phase,) = timings_of(heard)
    assert phase == Timing(title="Launching", parts=(Timing(title="start", seconds=0.5), Timing(title="begin")))


def test_a_wait_is_told_as_far_as_it_came() -> None:
    assert [stage.title for stage in readiness_stages(900, None, None)] == ["port open"]
    assert readiness_stages(None, None, None) == ()
