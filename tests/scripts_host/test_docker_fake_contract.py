"""The docker of the test kit answers as the scripts do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.executor import LogView
from sparkrun.testing import FakeHost
from sparkrun.utils.shell import parse_answers
from tests.scripts_host.docker_host import EXECUTOR, NAME, DockerHost, dock, labels_of, rank_of

__all__ = ["dock"]

Said = tuple[int, str | None, set[tuple[str, str]]]
ENGINE = "echo loading model; echo listening; exec sleep 600"


def start_call(*, gated: bool = False) -> ScriptCall:
    rank = rank_of(ENGINE, gated=gated)
    return EXECUTOR.generate_launch_script(rank, labels_of(rank), {})


def gate_call() -> ScriptCall:
    return EXECUTOR.open_call(rank_of(), labels_of(rank_of()))


LOGS = EXECUTOR.logs_call(NAME, LogView(lines=1))
CALLS: dict[str, tuple[ScriptCall, ...]] = {
    "start": (start_call(),),
    "start twice": (start_call(), start_call()),
    "open": (start_call(gated=True), gate_call()),
    "status of nothing": (EXECUTOR.status_call(),),
    "status": (start_call(), EXECUTOR.status_call()),
    "status at the gate": (start_call(gated=True), EXECUTOR.status_call()),
    "status of a missing name": (EXECUTOR.status_call(("missing",)),),
    "hook": (start_call(gated=True), EXECUTOR.hook_call(rank_of(), "true", {}, timeout_s=9)),
    "failing hook": (start_call(gated=True), EXECUTOR.hook_call(rank_of(), "exit 4", {}, timeout_s=9)),
    "evidence": (start_call(gated=True), EXECUTOR.evidence_call(NAME)),
    "evidence of nothing": (EXECUTOR.evidence_call(NAME),),
    "stop": (start_call(), EXECUTOR.stop_call((NAME,))),
    "stop of nothing": (EXECUTOR.stop_call((NAME,)),),
    "stop of another launch": (start_call(), EXECUTOR.stop_call((NAME,), launch="other")),
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_the_fake_says_what_the_script_says(dock: DockerHost, calls: tuple[ScriptCall, ...]) -> None:
    fake = FakeHost("h")
    fake.docker.hook = lambda _name, command: 4 if "exit 4" in command else 0

    real_said = [said_by(lambda call: ran_of(dock, call), call) for call in calls][-1]
    fake_said = [said_by(fake.answer, call) for call in calls][-1]

    assert fake_said[:2] == real_said[:2]
    # An engine of the kit serves; the one here only sleeps.
    assert fake_said[2] - real_said[2] - {("WORKLOAD", "HEALTH")} == set()


def test_a_crash_is_told_by_both(dock: DockerHost) -> None:
    fake = FakeHost("h")
    fake.answer(start_call())
    fake.docker.crash(NAME, 137)
    dock.run(start_call())
    dock.docker.crash(NAME)

    for call in (EXECUTOR.status_call(), EXECUTOR.evidence_call(NAME)):
        code, text = fake.answer(call)
        ran = dock.run(call)
        assert (code, parse_answers(text).text("EXIT_CODE")) == (ran.returncode, ran.answers.text("EXIT_CODE"))


@pytest.mark.parametrize("trouble", ["docker_denied", "docker_down"])
def test_trouble_with_docker_is_told_by_both(dock: DockerHost, trouble: str) -> None:
    fake = FakeHost("h")
    fake.docker.trouble = trouble
    dock.docker.fault(trouble.removeprefix("docker_"))

    real = said_by(lambda call: ran_of(dock, call), EXECUTOR.status_call())

    assert said_by(fake.answer, EXECUTOR.status_call())[:2] == real[:2]
    assert fake.docker.facts()["DOCKER_USABLE"] == "0"


def ran_of(dock: DockerHost, call: ScriptCall) -> tuple[int, str]:
    ran = dock.run(call)
    return ran.returncode, ran.stdout


def said_by(answer: Callable[[ScriptCall], tuple[int, str]], call: ScriptCall) -> Said:
    """Exit code, reason, and which keys stand in which sections."""
    code, text = answer(call)
    answers = parse_answers(text)
    return code, answers.text("REASON"), {(part.name, key) for part in answers.parts for key, _value in part.pairs if part.name}
