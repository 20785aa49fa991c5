"""What goes wrong with a launch: it ends in time, says why in one message, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Host
from tests.e2e.bed.containers import ENGINES
from tests.e2e.conftest import wait_for
from tests.e2e.users import User, containers, engine_runs, new_user
from tests.pace import slowness

pytestmark = pytest.mark.e2e
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.users"]

KEEP_ALIVE_S = 25
"""When ssh takes a connection without a sign of life for lost, with what undoing on that host may take after it."""


@contextlib.contextmanager
def fault(host: Host, kind: str) -> Iterator[None]:
    """A host that is broken meanwhile, and whole afterwards."""
    host.fault(kind)
    try:
        yield
    finally:
        host.fault("heal")


# --- hosts that are broken before ---------------------------------------------------------------------------------------------------------

SILENT = {"cut": "no answer from", "freeze": "its ssh server says nothing"}


@pytest.mark.parametrize("kind", SILENT)
def test_a_host_that_is_off_or_frozen_delays_nobody(bed: Bed, user: User, kind: str) -> None:
    with fault(bed.hosts[1], kind):
        ran = user.launch().within(4)
        assert (ran.code, "spark-2" in ran.err, SILENT[kind] in ran.err) == (1, True, True), ran.err
        looked = user.on_hosts("status").within(4)
        assert (looked.code, "Unknown: spark-2" in looked.ended.out, "Idle: spark-1" in looked.ended.out) == (1, True, True)
        for words in (("logs", "vllm"), ("stop", "vllm")):
            asked = user.on_hosts(*words).within(4)
            assert asked.code == 1
            assert "no such workload 'vllm' on spark-1; nothing is running; spark-2 is unknown: " in asked.error
        everything = user.on_hosts("stop", "--all").within(4)
        assert (everything.code, "not known whether anything runs on spark-2" in everything.error) == (1, True)
    assert user.nothing_left()


def test_a_docker_daemon_that_is_down_is_named_and_its_host_unknown(bed: Bed, user: User) -> None:
    with fault(bed.hosts[1], "kill-dockerd"):
        ran = user.launch().within(4)
        assert (ran.code, ran.error.startswith("spark-2: "), "Docker daemon" in ran.error) == (1, True, True), ran.err
        looked = user.on_hosts("status")
        assert (looked.code, "Unknown: spark-2 (the docker daemon does not run on spark-2)" in looked.ended.out) == (1, True)
        assert user.on_hosts("stop", "--all").code == 1
    assert user.nothing_left()


def test_a_disk_that_is_full_is_the_reason(bed: Bed, user: User) -> None:
    with fault(bed.hosts[1], "full"):
        ran = user.launch().within(8)
        assert (ran.code, "spark-2" in ran.error) == (1, True), ran.err
        assert re.search("no space left|disk is full", ran.err.lower()), ran.err
    assert user.nothing_left()


def test_an_image_that_is_nowhere_is_named_for_each_host(bed: Bed, user: User) -> None:
    ran = user.launch(recipe=user.write("vllm", container="sparkrun-e2e/engines:nope")).within(8)
    assert ran.code == 1
    assert "sparkrun-e2e/engines:nope" in ran.err
    assert {host.name for host in bed.hosts if host.name in ran.err} == {"spark-1", "spark-2"}
    assert user.nothing_left()


def test_a_port_that_something_else_has_is_told_before_anything_starts(bed: Bed, user: User) -> None:
    listener = threading.Thread(
        target=bed.hosts[0].inside,
        args=("timeout", "8", "python3", "-c", "import socket, time; s = socket.create_server(('0.0.0.0', 8000)); time.sleep(60)"),
    )
    listener.start()
    wait_for(lambda: ":8000" in bed.hosts[0].inside("ss", "-ltn").out)
    ran = user.launch()
    listener.join()
    assert (ran.code, ran.error.startswith("spark-1: port 8000 is in use")) == (1, True)
    assert "--port" in ran.err
    assert user.nothing_left()


# --- hosts that break while an engine loads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "broken"), [("cut", 0), ("cut", 1), ("freeze", 1)])
def test_a_host_that_is_lost_during_load_ends_the_launch(bed: Bed, user: User, kind: str, broken: int) -> None:
    lost, other = bed.hosts[broken], bed.hosts[1 - broken]
    launch = user.start_launch("-e", "BED_LOAD_S=60")
    launch.wait_for("wait until")
    began = time.monotonic()
    with fault(lost, kind):
        ran = launch.end()
        assert time.monotonic() - began <= KEEP_ALIVE_S * slowness()
        assert (ran.code, lost.name in ran.error) == (1, True), ran.err
        assert "status -H" in ran.err or "sparkrun stop" in ran.err
        assert not containers(other)
        assert user.jobs(), "what may still run on the lost host is forgotten"
        assert user("status").code == 1
    stopped = user("stop", "vllm")
    assert stopped.code == 0, stopped
    assert user.nothing_left()


# --- engines that fail --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_an_engine_that_dies_on_any_rank_is_told_at_once(bed: Bed, user: User, rank: int) -> None:
    crash = ("BED_CRASH_AFTER_S=1", "BED_LOAD_S=60", "BED_CODE=7", f"BED_RANK={rank}")
    ran = user.launch(*(word for pair in crash for word in ("-e", pair))).within(6)
    assert ran.code == 1
    assert f"rank {rank} on {bed.hosts[rank].name} ended with exit code 7" in ran.error, ran.err
    assert "| " in ran.err
    assert "RuntimeError: the stand-in engine was told to fail" in ran.err
    assert user.nothing_left()


def test_an_engine_that_dies_after_it_was_ready_is_shown_and_cleaned_up(bed: Bed, user: User) -> None:
    assert user.launch("-e", "BED_CRASH_READY_S=1", "-e", "BED_CODE=9", "-e", "BED_RANK=0").code == 0
    wait_for(lambda: not any(engine_runs(host) for host in bed.hosts))
    text = user("status").out
    assert re.search(r"head +spark-1 +exited, exit code 9", text), text
    assert "Total: 0 workloads running" in text
    assert "told to fail" in user("logs", "vllm", "-n", "3").out
    stopped = user("stop", "vllm")
    assert (stopped.code, "had ended; nothing of it is left on spark-1, spark-2" in stopped.out) == (0, True)
    assert user.nothing_left()
    assert user("stop", "vllm").code == 1


def test_an_engine_in_the_foreground_ends_the_command_with_its_exit_code(bed: Bed, user: User) -> None:
    host = bed.hosts[0]
    ended = user("run", user.recipe, "-H", host.name, "--foreground", "-e", "BED_CRASH_READY_S=1", "-e", "BED_CODE=9")
    assert (ended.code, f"the engine of vllm ended (exit code 9 on {host.name})" in ended.err) == (1, True), ended.err
    assert "told to fail" in ended.out
    assert user("stop", "vllm").code == 0


def test_an_engine_that_its_policy_started_again_is_told_so(bed: Bed, user: User) -> None:
    crash = ("-e", "BED_CRASH_AFTER_S=0.3", "-e", "BED_LOAD_S=60", "--restart", "always")
    ran = user.launch(*crash, hosts=bed.hosts[:1])
    assert ran.code == 1
    assert re.search(r"ended( with exit code 1|, and was started again,) before it answered", ran.error), ran.err
    assert user.nothing_left()


@pytest.mark.parametrize(("knob", "stage"), [("BED_HANG=1", "port"), ("BED_UNHEALTHY_S=60", "health")])
def test_an_engine_that_hangs_is_given_the_time_of_its_recipe(bed: Bed, user: User, knob: str, stage: str) -> None:
    del bed
    limits = {"port_timeout_s": 20, "health_timeout_s": 20, f"{stage}_timeout_s": 1}
    recipe = user.write("vllm", readiness=limits)
    ran = user.launch("-e", knob, recipe=recipe).within(6)
    assert (ran.code, "not ready" in ran.error, f"{stage}_timeout_s" in ran.err) == (1, True, True), ran.err
    assert "| " in ran.err
    assert "GET /health" not in ran.err
    assert user.nothing_left()


def test_an_engine_that_crashes_again_and_again_is_given_up(bed: Bed, user: User) -> None:
    host = bed.hosts[0]
    crash = ("-e", "BED_CRASH_AFTER_S=0.1", "-e", "BED_CODE=7", "--restart", "always", "--no-ready-wait")
    user.launch(*crash, hosts=(host,))
    wait_for(lambda: set(user.seen().values()) == {"exited"}, timeout_s=40)
    starts = len(host.engine_calls(containers(host)[0]))
    assert starts <= 5
    time.sleep(2)
    assert len(host.engine_calls(containers(host)[0])) == starts
    assert user.on_hosts("stop", "vllm").code == 0
    assert user.nothing_left()


# --- people who interrupt -----------------------------------------------------------------------------------------------------------------

PHASES = {"looking": "look at", "starting": "start 2 ranks", "waiting": "wait until"}


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_leaves_nothing(user: User, phase: str) -> None:
    launch = user.start_launch("-e", "BED_LOAD_S=60")
    launch.wait_for(PHASES[phase])
    launch.signal(signal.SIGINT)
    began = time.monotonic()
    ran = launch.end()
    assert time.monotonic() - began <= 4 * slowness()
    assert (ran.code, ran.error.startswith("interrupted")) == (130, True), ran.err
    assert user.nothing_left()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_term_and_a_closed_terminal_leave_nothing_either(user: User, number: signal.Signals, code: int) -> None:
    launch = user.start_launch("-e", "BED_LOAD_S=60")
    launch.wait_for(PHASES["waiting"])
    launch.signal(number)
    ran = launch.end()
    assert (ran.code, ran.error.startswith("interrupted")) == (code, True), ran.err
    assert user.nothing_left()


@pytest.mark.parametrize("phase", PHASES)
def test_after_kill_9_status_is_true_and_the_next_launch_works(bed: Bed, user: User, phase: str) -> None:
    launch = user.start_launch("-e", "BED_LOAD_S=1")
    launch.wait_for(PHASES[phase])
    launch.signal(signal.SIGKILL)
    launch.end()
    time.sleep(1.5 * slowness())  # a start that is at work notices that nobody wants it any more
    running = {host.name for host in bed.hosts if engine_runs(host)}
    seen = user.on_hosts("status", "--json").ended.json
    told = {rank["host"] for group in seen["groups"].values() for rank in group["containers"] if rank["status"] == "running"}
    assert told | {entry["host"] for entry in seen["solo_entries"] if entry["status"] == "running"} == running
    assert running in (set(), {"spark-1", "spark-2"}) or "partial" in user.on_hosts("status").ended.out
    again = user.launch("--ensure")
    assert again.code == 0, again.err
    assert user.on_hosts("stop", "vllm").code == 0
    assert user.nothing_left()


# --- two who want the same ----------------------------------------------------------------------------------------------------------------


def test_two_machines_at_once_share_no_gpu(bed: Bed, user: User, tmp_path: Path) -> None:
    other = new_user(bed, tmp_path / "grace")
    other.recipe = other.write("vllm", defaults={"port": 8100, "served_model_name": "other", "host": "0.0.0.0"})
    heeding = ("--scheduler", "occupancy-sparse")  # greedy, which -H takes without a cluster, heeds nobody
    both = [user.start_launch(*heeding), other.start_launch(*heeding)]
    ended = [each.end() for each in both]
    assert sorted(each.code for each in ended) == [0, 1], [each.err for each in ended]
    (loser,) = [each for each in ended if each.code]
    assert re.search("capacity|in use|GPU|another launch", loser.err), loser.err
    assert [len(containers(host)) for host in bed.hosts] == [1, 1]
    assert len(user.seen()) == 1
    assert sorted(len(each.jobs()) for each in (user, other)) == [0, 1]


def test_the_same_workload_again_and_one_that_was_changed(bed: Bed, user: User) -> None:
    assert user.launch().code == 0
    before = [containers(host) for host in bed.hosts]
    again = user.launch()
    assert (again.code, "runs already" in again.error, "--ensure" in again.err) == (1, True, True)
    assert user.launch("--ensure").code == 0
    broken = user.write(
        "vllm", env={"SOMETHING": "else"}, defaults={"port": 8000, "host": "0.0.0.0"}, container="sparkrun-e2e/engines:nope"
    )
    assert user.launch(recipe=broken).code == 1
    assert [containers(host) for host in bed.hosts] == before
    changed = user.launch(recipe=user.write("vllm", env={"SOMETHING": "else"}))
    assert changed.code == 0, changed.err
    assert bed.hosts[0].engine_calls(containers(bed.hosts[0])[0])[-1].env["SOMETHING"] == "else"
    assert len(user.seen()) == len(user.jobs()) == 1


def test_a_change_that_docker_refuses_replaces_nothing(bed: Bed, user: User) -> None:
    assert user.launch().code == 0
    before = [host.docker("ps", "--quiet", "--no-trunc") for host in bed.hosts]
    missing = user.write("vllm", executor_config={"volumes": ["/srv/nothing-here:/data"]})
    for words, recipe in ((("--executor-args=--nope",), ""), (("--trust",), missing)):
        refused = user.launch(*words, recipe=recipe)
        assert (refused.code, "goes on as it was" in refused.err) == (1, True), refused.err
    assert [host.docker("ps", "--quiet", "--no-trunc") for host in bed.hosts] == before
    assert set(user.seen().values()) == {"ready"}
    assert user("stop", "vllm").code == 0
    assert user.nothing_left()


def test_a_name_that_another_container_has_leaves_that_alone_and_nothing_behind(bed: Bed, user: User) -> None:
    host = bed.hosts[0]
    host.docker("run", "-d", "--name", "mine", "--entrypoint", "sleep", ENGINES, "1000")
    refused = user.launch("--container-name", "mine", hosts=(host,))
    assert (refused.code, "belongs to somebody else" in refused.error) == (1, True)
    assert "could not undo" not in refused.err
    assert (containers(host), user.jobs()) == (["mine"], [])


# --- stop, and the S cases ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [0, 1])
def test_stop_with_a_host_off_stops_the_others_and_is_completed_later(bed: Bed, user: User, gone: int) -> None:
    assert user.launch().code == 0
    lost, other = bed.hosts[gone], bed.hosts[1 - gone]
    with fault(lost, "cut"):
        stopped = user.timed("stop", "vllm").within(5)
        assert stopped.code == 1
        assert f"is stopped on {other.name}, but not confirmed on {lost.name} (no answer" in stopped.error
        assert (containers(other), len(user.jobs())) == ([], 1)
    assert user("stop", "vllm").code == 0
    assert user.nothing_left()


def test_stop_by_any_name_also_from_another_machine(bed: Bed, user: User, tmp_path: Path) -> None:
    stranger = new_user(bed, tmp_path / "grace")
    for how in ("{id}", "{prefix}", "vllm", "{file}", "nick", "org/m", "--all"):
        assert user.launch("--served-model-name", "nick", hosts=bed.hosts[:1]).code == 0
        (name,) = user.seen()
        target = how.format(id=name, prefix=name.partition("_")[2][:8], file=user.recipe)
        stopped = (stranger if how in {"{prefix}", "nick"} else user).on_hosts("stop", target)
        assert (stopped.code, stopped.ended.out) == (0, f"Stopped vllm ({name}) on spark-1.\n"), (how, stopped.err)
        assert not containers(bed.hosts[0])


def test_s1_stop_of_what_does_not_run(user: User) -> None:
    stopped = user.on_hosts("stop", "deadbeef")
    assert (stopped.code, stopped.error.startswith("no such workload 'deadbeef'")) == (1, True)


def test_s6_an_image_without_tools_launches_is_watched_and_stops(bed: Bed, user: User) -> None:
    recipe = user.write("vllm", container=ENGINES.replace(":1", ":bare"))
    crash = ("-e", "BED_CRASH_AFTER_S=0.5", "-e", "BED_LOAD_S=60", "-e", "BED_CODE=7")
    dead = user.launch(*crash, recipe=recipe, hosts=bed.hosts[:1]).within(5)
    assert (dead.code, "exit code 7" in dead.error) == (1, True), dead.err
    assert user.launch(recipe=recipe, hosts=bed.hosts[:1]).code == 0
    assert set(user.seen().values()) == {"ready"}
    assert user.on_hosts("stop", "vllm").code == 0
    assert user.nothing_left()


# --- hooks --------------------------------------------------------------------------------------------------------------------------------

MANY_LINES = 'i=0; while [ "$((i += 1))" -le 500 ]; do echo "line $i"; done; exit 3'


def test_a_pre_exec_hook_that_fails_ends_the_launch_with_its_output(bed: Bed, user: User) -> None:
    ran = user.launch("--trust", recipe=user.write("vllm", pre_exec=[MANY_LINES]), hosts=bed.hosts[:1]).within(8)
    assert (ran.code, "exit code 3" in ran.error) == (1, True), ran.err
    printed = re.findall(r"^ *\| line (\d+)$", ran.err, re.MULTILINE)
    assert (printed[:1], printed[-1:], "200" in printed) == (["1"], ["500"], False), ran.err
    assert user.nothing_left()


def test_a_post_exec_hook_that_fails_is_told_and_the_workload_goes_on(bed: Bed, user: User) -> None:
    ran = user.launch("--trust", recipe=user.write("vllm", post_exec=[MANY_LINES]), hosts=bed.hosts[:1])
    assert (ran.code, "exit code 3" in ran.error, "sparkrun stop" in ran.err) == (1, True, True), ran.err
    assert "| line 500" in ran.err
    assert set(user.seen().values()) == {"ready"}
    assert user.on_hosts("stop", "vllm").code == 0
    assert user.nothing_left()
