"""Looking at containers, reading them, running commands in them, and stopping them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.apply import failure_text
from sparkrun.orchestration.executor import LogView
from sparkrun.orchestration.observe import workloads_of
from sparkrun.utils.shell import Section
from tests.scripts_host.docker_host import EXECUTOR, NAME, DockerHost, dock, labels_of, rank_of
from tests.scripts_host.scratch_host import ScratchHost, eventually, is_alive

__all__ = ["dock"]

OLDER = {
    "sparkrun.cluster_id": "sparkrun_0123456789abcdef_0123456789ab",
    "sparkrun.intent_id": "0123456789abcdef",
    "sparkrun.recipe": 'odd "name" \\ here',
    "sparkrun.runtime": "vllm-distributed",
    "sparkrun.model": "org/model",
    "sparkrun.served_model_name": "tiny",
}


def workloads(dock: DockerHost, *names: str) -> tuple[Section, ...]:
    ran = dock.run(EXECUTOR.status_call(names))
    assert ran.returncode == 0, ran
    return ran.answers.sections("WORKLOAD")


# --- status ----------------------------------------------------------------------------------------------------------------------


def test_status_tells_what_the_container_says_of_itself(dock: DockerHost) -> None:
    rank = rank_of(gpus=(0,))
    dock.started(rank)

    (seen,) = workloads(dock)

    assert json.loads(seen.text("LABELS") or "") == json.loads(dock.docker.containers()[NAME]["labels"]["sparkrun.job"])
    assert json.loads(seen.text("LABELS") or "")["served_model_name"] == labels_of(rank).served_model_name
    assert (seen.text("NAME"), seen.text("STATE"), seen.text("OWNER"), seen.text("LAUNCH")) == (NAME, "running", "sparkrun", "one")
    assert (seen.text("IMAGE"), seen.text("GATE"), seen.text("EXIT_CODE")) == ("img:1", "passed", "")
    assert seen.number("PID") == dock.docker.containers()[NAME]["pid"]
    assert seen.number("UPTIME_S") is not None
    assert (seen.text("PORT"), seen.text("PORT_STATE")) == ("8123", "closed")


def test_status_of_an_empty_host_is_complete_and_counts_none(dock: DockerHost) -> None:
    ran = dock.run(EXECUTOR.status_call())

    assert ran.section("WORKLOADS").complete
    assert ran.section("WORKLOADS").number("COUNT") == 0


@pytest.mark.skipif(Path("/run/docker.sock").exists() or Path("/var/lib/docker/containers").exists(), reason="this machine has a docker")
def test_a_host_that_never_had_docker_runs_no_container(dock: DockerHost) -> None:
    dock.host.env["PATH"] = str(dock.host.tools)

    ran = dock.run(EXECUTOR.status_call((NAME,)))

    assert (ran.returncode, ran.section("WORKLOADS").number("COUNT"), ran.section("WORKLOADS").all("MISSING")) == (0, 0, (NAME,))


def test_status_of_a_dead_engine_tells_how_it_ended(dock: DockerHost) -> None:
    dock.docker.container(NAME, labels=OLDER, code=137, oom=True)

    (seen,) = workloads(dock)

    assert (seen.text("STATE"), seen.number("EXIT_CODE"), seen.flag("OOM")) == ("exited", 137, True)
    assert seen.text("STARTED_AT") == "2026-01-02T03:04:05+00:00"
    assert seen.text("UPTIME_S") is None


def test_labels_of_a_container_of_an_earlier_version_become_json(dock: DockerHost) -> None:
    dock.docker.container(NAME, labels=OLDER)

    (seen,) = workloads(dock)

    assert json.loads(seen.text("LABELS") or "") == {key.removeprefix("sparkrun."): value for key, value in OLDER.items()}


def test_status_by_name_finds_what_has_no_label_and_names_what_is_missing(dock: DockerHost) -> None:
    dock.docker.container("plain")

    ran = dock.run(EXECUTOR.status_call(("plain", "missing")))

    assert ran.section("WORKLOADS").all("MISSING") == ("missing",)
    assert [part.text("NAME") for part in ran.answers.sections("WORKLOAD")] == ["plain"]


def test_a_container_of_somebody_else_is_not_ours(dock: DockerHost) -> None:
    dock.docker.container("database", labels={"com.example": "x"}, code=None)

    assert workloads(dock) == ()


def test_a_waiting_gate_and_one_that_was_given_up_are_told(dock: DockerHost) -> None:
    dock.started(rank_of(gated=True))
    assert workloads(dock)[0].text("GATE") == "waiting"

    (dock.gate() / "gave_up").touch()

    assert (workloads(dock)[0].text("GATE"), workloads(dock)[0].text("STATE")) == ("gave_up", "exited")


def test_the_answers_are_facts_of_a_workload(dock: DockerHost) -> None:
    dock.started(rank_of())
    ran = dock.run(EXECUTOR.status_call())

    from sparkrun.core.remote import RemoteResult

    (facts,) = workloads_of(RemoteResult("h", ran.returncode, ran.stdout), "docker")

    assert (facts.name, facts.alive, facts.executor, facts.labels["port"]) == (NAME, True, "docker", 8123)


# --- logs and evidence -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        (LogView(), ["1", "2", "3", "4"]),
        (LogView(lines=2), ["3", "4"]),
        (LogView(skip=1), ["2", "3", "4"]),
        (LogView(lines=2, skip=3), ["4"]),
    ],
)
def test_logs_are_the_wanted_part(dock: DockerHost, view: LogView, wanted: list[str]) -> None:
    dock.docker.container(NAME, log="1\n2\n3\n4\n")

    ran = dock.run(ScriptCall("docker_logs", {**EXECUTOR.logs_call(NAME, view).params, "LIFELINE": ""}))

    assert (ran.returncode, ran.stdout.split()) == (0, wanted)


def test_a_log_that_is_not_there_is_told_in_words(dock: DockerHost) -> None:
    ran = dock.run(ScriptCall("docker_logs", {"NAME": NAME}))

    told = failure_text(RemoteResult("spark-1", ran.returncode, ran.stdout, ran.stderr, connected=True, began=True))
    assert (ran.returncode, ran.stdout) == (8, "")
    assert told.startswith(f"there is no container {NAME} on ")


def test_following_ends_with_the_container(dock: DockerHost) -> None:
    dock.started(rank_of("echo one; sleep 0.3; echo two"))

    running = dock.begin(EXECUTOR.logs_call(NAME, LogView(follow=True)))

    running.wait_for("one")
    running.wait_for("two")
    assert running.result().returncode == 0


def test_following_ends_with_the_caller(dock: DockerHost) -> None:
    dock.started(rank_of("echo one; exec sleep 600"))
    running = dock.begin(EXECUTOR.logs_call(NAME, LogView(follow=True)))
    running.wait_for("one")

    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.result().returncode == 0


@pytest.mark.parametrize(
    ("after", "code", "told"),
    [
        ('echo "Error: No such container: $NAME" >&2; exit 1', 0, ""),
        ('echo "Cannot connect to the Docker daemon. Is the docker daemon running?" >&2; exit 1', 5, "docker"),
        ("printf '%s\\n' id running 0 false sparkrun one c1 0", 1, "docker ended the log of "),
    ],
)
def test_a_log_that_docker_breaks_off_is_no_log_that_has_ended(host: ScratchHost, after: str, code: int, told: str) -> None:
    inspect = f'if [ -e "$HOME/broken" ]; then {after}; else printf "%s\\n" id running 0 false sparkrun one c1 0; fi'
    host.program("docker", f'case $1 in inspect) {inspect} ;; logs) echo one; touch "$HOME/broken"; exit 1 ;; esac')

    ran = host.run("docker_logs", NAME=NAME, FOLLOW="1")

    assert (ran.returncode, ran.stdout) == (code, "one\n")
    assert told in ran.stderr
    assert bool(ran.stderr) is bool(code)


def test_logs_of_a_missing_container_fail(dock: DockerHost) -> None:
    ran = dock.run(EXECUTOR.logs_call("missing", LogView()))

    assert (ran.returncode, ran.stdout) == (8, "")
    assert "there is no container missing" in ran.stderr


def test_evidence_tells_how_a_dead_engine_ended(dock: DockerHost) -> None:
    dock.docker.container(NAME, code=137, oom=True, log="".join(f"line {number}\n" for number in range(400)))

    said = dock.run(EXECUTOR.evidence_call(NAME)).section("EVIDENCE")

    assert (said.number("EXIT_CODE"), said.text("SIGNAL"), said.flag("OOM_KILLED")) == (137, "KILL", True)
    assert said.all("LOG") == tuple(f"line {number}" for number in range(200, 400))
    assert "memory" in (said.text("OOM_HINT") or "")


def test_evidence_finds_the_line_that_speaks_of_memory(dock: DockerHost) -> None:
    dock.docker.container(NAME, code=1, log="loading\ntorch.OutOfMemoryError: CUDA out of memory\ndone\n")

    assert "CUDA out of memory" in (dock.run(EXECUTOR.evidence_call(NAME)).section("EVIDENCE").text("OOM_HINT") or "")


def test_evidence_of_a_living_engine_has_no_exit_code(dock: DockerHost) -> None:
    dock.started(rank_of("echo alive; exec sleep 600"))
    eventually(lambda: dock.docker.log(NAME))

    said = dock.run(EXECUTOR.evidence_call(NAME)).section("EVIDENCE")

    assert (said.text("EXIT_CODE"), said.all("LOG")) == (None, ("alive",))


# --- stop ------------------------------------------------------------------------------------------------------------------------


def test_stop_ends_and_removes_it_and_confirms(dock: DockerHost) -> None:
    dock.started(rank_of())
    pid = dock.docker.containers()[NAME]["pid"]

    ran = dock.stop(NAME)

    said = ran.section("STOP")
    assert (ran.returncode, said.text("RESULT"), said.number("EXIT_CODE"), said.text("KILLED")) == (0, "STOPPED", 143, None)
    assert not is_alive(pid)
    assert dock.docker.containers() == {}
    assert not dock.gate().exists()


def test_stop_kills_what_does_not_end(dock: DockerHost) -> None:
    dock.started(rank_of("trap '' TERM; while :; do sleep 600; done"))

    ran = dock.run(ScriptCall("docker_stop", {"NAMES": (NAME,), "GRACE_S": "1"}))

    assert (ran.returncode, ran.section("STOP").flag("KILLED")) == (0, True)


def test_stop_of_a_dead_container_removes_it(dock: DockerHost) -> None:
    dock.docker.container(NAME, labels=OLDER, code=1)

    assert dock.stop(NAME).section("STOP").text("RESULT") == "STOPPED"
    assert dock.docker.containers() == {}


def test_stop_of_what_is_not_there_says_so(dock: DockerHost) -> None:
    ran = dock.stop(NAME)

    assert (ran.returncode, ran.section("STOP").text("RESULT")) == (0, "GONE")


def test_stop_leaves_what_is_not_ours_alone(dock: DockerHost) -> None:
    dock.docker.container(NAME, labels={"sparkrun.distribution": "other"})

    ran = dock.stop(NAME)

    assert (ran.returncode, ran.section("STOP").text("RESULT"), ran.section("STOP").text("OWNED_BY")) == (1, "NOT_OURS", "other")
    assert NAME in dock.docker.containers()


def test_undoing_a_launch_that_found_its_name_taken_has_nothing_to_undo(dock: DockerHost) -> None:
    dock.docker.container(NAME, labels={"sparkrun.distribution": "other"})

    ran = dock.stop(NAME, launch="one")

    assert (ran.returncode, ran.section("STOP").text("RESULT")) == (0, "OTHER_LAUNCH")
    assert NAME in dock.docker.containers()


def test_stop_of_one_launch_leaves_another_alone(dock: DockerHost) -> None:
    dock.started(rank_of(), "two")

    ran = dock.stop(NAME, launch="one")

    assert (ran.returncode, ran.section("STOP").text("RESULT")) == (0, "OTHER_LAUNCH")
    assert NAME in dock.docker.containers()


def test_a_container_that_survives_fails_the_stop(dock: DockerHost) -> None:
    dock.started(rank_of())
    dock.docker.fail("rm", "Error response from daemon: driver failed to remove root filesystem")

    ran = dock.stop(NAME, "gone")

    results = {part.text("NAME"): part.text("RESULT") for part in ran.answers.sections("STOP")}
    assert (ran.returncode, results) == (1, {NAME: "SURVIVED", "gone": "GONE"})
    assert f"container {NAME}" in (ran.answers.text("MESSAGE") or "")


# --- commands in a container -----------------------------------------------------------------------------------------------------


def test_a_hook_gets_its_variables_and_its_output_is_kept(dock: DockerHost) -> None:
    dock.started(rank_of())

    ran = dock.run(EXECUTOR.hook_call(rank_of(), 'echo "$A"; echo err >&2; printf last', {"A": "it's $x"}, timeout_s=30))

    said = ran.section("EXEC")
    assert (ran.returncode, said.number("EXIT_CODE")) == (0, 0)
    assert said.all("HEAD") == ("it's $x", "err", "last")


def test_a_failing_hook_fails_with_the_beginning_and_the_end_of_its_output(dock: DockerHost) -> None:
    dock.started(rank_of())
    call = EXECUTOR.hook_call(rank_of(), "for i in 1 2 3 4 5 6 7 8 9; do echo $i; done; exit 4", {}, timeout_s=30)

    ran = dock.run(ScriptCall(call.name, {**call.params, "HEAD": "2", "TAIL": "3"}))

    said = ran.section("EXEC")
    assert (ran.returncode, said.number("EXIT_CODE"), said.text("REASON")) == (1, 4, "failed")
    assert (said.all("HEAD"), said.number("OMITTED"), said.all("TAIL")) == (("1", "2"), 4, ("7", "8", "9"))


def test_a_hook_that_takes_too_long_is_told_to_end(dock: DockerHost) -> None:
    dock.started(rank_of())
    marker = dock.host.root / "pid"

    ran = dock.run(EXECUTOR.hook_call(rank_of(), f"sleep 600 & echo $! >{marker}; wait", {}, timeout_s=1))

    said = ran.section("EXEC")
    assert (ran.returncode, said.flag("TIMED_OUT"), said.text("REASON")) == (1, True, "timed_out")
    assert not is_alive(int(marker.read_text()))


def test_a_hook_ends_with_the_caller(dock: DockerHost) -> None:
    dock.started(rank_of())
    marker = dock.host.root / "pid"
    call = EXECUTOR.hook_call(rank_of(), f"echo $$ >{marker}; exec sleep 600", {}, timeout_s=0)
    running = dock.begin(ScriptCall(call.name, {**call.params, "LIFELINE": "1"}))
    eventually(lambda: marker.exists() and marker.read_text())

    running.process.send_signal(signal.SIGTERM)

    eventually(lambda: not is_alive(int(marker.read_text())))


def test_a_hook_whose_number_has_not_been_read_yet_ends_with_the_caller(dock: DockerHost) -> None:
    dock.started(rank_of())
    asked, go, marker = (dock.host.root / name for name in ("asked", "go", "pid"))
    (dock.host.bin / "docker").rename(dock.host.bin / "real-docker")
    slow = f": >{asked}; until [[ -e {go} ]]; do sleep 0.05; done"
    dock.host.program("docker", f'if [[ $1 == exec && ! -e {asked} ]]; then {slow}; fi; exec real-docker "$@"')
    call = EXECUTOR.hook_call(rank_of(), f"echo $$ >{marker}; exec sleep 600", {}, timeout_s=0)
    running = dock.begin(ScriptCall(call.name, {**call.params, "LIFELINE": "1"}))
    eventually(asked.exists)

    running.process.send_signal(signal.SIGSTOP)
    go.touch()
    eventually(lambda: marker.exists() and marker.read_text())
    running.process.send_signal(signal.SIGTERM)
    running.process.send_signal(signal.SIGCONT)

    eventually(lambda: not is_alive(int(marker.read_text())))
    assert running.result().returncode == 143


def test_a_hook_of_a_dead_container_says_that_it_is_dead(dock: DockerHost) -> None:
    dock.docker.container(NAME, code=1)

    assert dock.run(EXECUTOR.hook_call(rank_of(), "true", {}, timeout_s=5)).answers.text("REASON") == "not_running"
    assert dock.run(EXECUTOR.hook_call(rank_of(name="missing"), "true", {}, timeout_s=5)).answers.text("REASON") == "no_container"


def test_a_secret_of_a_hook_is_on_no_command_line(dock: DockerHost) -> None:
    dock.started(rank_of())
    call = EXECUTOR.hook_call(rank_of(), 'test "$KEY" = hush-12345', {}, timeout_s=30)

    ran = dock.run(ScriptCall(call.name, call.params, {"SECRET_ENVS": ("KEY=hush-12345",)}))

    assert ran.returncode == 0
    assert "hush-12345" not in (dock.docker.root / "calls").read_text()


def test_a_part_of_a_log_by_its_times_is_what_docker_is_asked_for(dock: DockerHost) -> None:
    dock.started(rank_of("echo ready; exec sleep 600"))

    ran = dock.run(EXECUTOR.logs_call(NAME, LogView(since="10m", dated=True)))

    assert ran.returncode == 0
    (words,) = dock.docker.calls("logs")
    assert words[:4] == ["logs", "--since", "10m", "--timestamps"]
    assert dock.run(EXECUTOR.logs_call(NAME, LogView(since="$(id)"))).returncode == 2
