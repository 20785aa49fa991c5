"""Stopping workloads of the local executor: gone means that somebody looked."""

from __future__ import annotations

import fcntl
import os
import time

import pytest

from tests.pace import slowness
from tests.scripts_host.scratch_host import Ran, ScratchHost, end_process, eventually, is_alive, session_members

FOREVER = "exec sleep 600"
DEAF = "trap '' TERM; : >deaf; while :; do read -r -t 1 <> <(:) || :; done"


def stop(host: ScratchHost, *names: str, **params: str) -> Ran:
    return host.run("local_stop", NAMES=names, **params)


def results(ran: Ran) -> dict[str, str]:
    return {section.text("NAME") or "": section.text("RESULT") or "" for section in ran.answers.sections("STOP")}


def started(host: ScratchHost, name: str, command: str = FOREVER, **params: str) -> int:
    pid = host.start(name, command, **params).number("PID")
    assert pid is not None
    return pid


def test_stop_ends_the_whole_session_and_removes_the_record(host: ScratchHost) -> None:
    pid = started(host, "tiny", "sleep 600 & sleep 600 & : >both; wait")
    eventually((host.home / "both").exists)

    ran = stop(host, "tiny")

    assert (ran.returncode, results(ran)) == (0, {"tiny": "STOPPED"})
    assert session_members(pid) == []
    assert list((host.cache / "local/pids").iterdir()) == []
    assert (host.cache / "local/logs/tiny.log").exists()


def test_stop_may_be_repeated(host: ScratchHost) -> None:
    started(host, "tiny")

    assert [results(stop(host, "tiny"))["tiny"] for _ in range(3)] == ["STOPPED", "GONE", "GONE"]


def test_stop_of_a_name_nobody_knows_is_gone_and_leaves_nothing(host: ScratchHost) -> None:
    assert results(stop(host, "tiny")) == {"tiny": "GONE"}
    assert not host.cache.exists()


def test_stop_tells_of_every_name_once(host: ScratchHost) -> None:
    started(host, "one")
    started(host, "two", "exit 0")
    eventually(lambda: host.workload("two").text("STATE") == "exited")

    assert results(stop(host, "one", "two", "three", "one")) == {"one": "STOPPED", "two": "GONE", "three": "GONE"}


def test_several_workloads_are_stopped_at_the_same_time(host: ScratchHost) -> None:
    for name in ("one", "two", "three"):
        started(host, name, f"cd $HOME && mkdir {name} && cd {name}; {DEAF}")
    eventually(lambda: len(list(host.home.glob("*/deaf"))) == 3)
    began = time.monotonic()

    ran = stop(host, "one", "two", "three", GRACE_S="1")

    assert set(results(ran).values()) == {"STOPPED"}
    assert 1 <= time.monotonic() - began < 2.5 * slowness()
    assert [section.text("KILLED") for section in ran.answers.sections("STOP")] == ["1", "1", "1"]


def test_an_engine_has_its_grace_to_end_in_order(host: ScratchHost) -> None:
    pid = started(host, "tiny", "trap ': >saved; exit 0' TERM; : >ready; while :; do read -r -t 0.05 <> <(:) || :; done")
    eventually((host.home / "ready").exists)

    ran = stop(host, "tiny")

    assert (host.home / "saved").exists()
    assert ran.section("STOP").text("KILLED") is None
    assert session_members(pid) == []


def test_an_engine_is_told_to_end_exactly_once(host: ScratchHost) -> None:
    nap = "read -r -t 0.02 <> <(:) || :"
    command = f"trap 'told+=x' TERM; told=; : >ready; until [[ $told ]]; do {nap}; done; for i in {{1..15}}; do {nap}; done; echo \"$told\""
    started(host, "tiny", command)
    eventually((host.home / "ready").exists)

    stop(host, "tiny")

    assert host.log("tiny") == "x\n"


def test_a_second_stop_at_the_same_time_waits_and_does_not_tell_again(host: ScratchHost) -> None:
    started(host, "tiny", "trap 'told+=x' TERM; told=; : >ready; for i in {1..30}; do read -r -t 0.02 <> <(:) || :; done; echo \"$told\"")
    eventually((host.home / "ready").exists)
    first = host.begin("local_stop", NAMES=("tiny",))
    eventually(host.file("tiny", ".stop").exists)

    second = stop(host, "tiny")

    assert {results(first.result())["tiny"], results(second)["tiny"]} <= {"STOPPED", "GONE"}
    assert host.log("tiny") == "x\n"


def test_a_stop_after_one_that_was_cut_off_tells_again(host: ScratchHost) -> None:
    started(host, "tiny", "trap 'exit 0' TERM; : >ready; while :; do read -r -t 0.05 <> <(:) || :; done")
    eventually((host.home / "ready").exists)
    host.file("tiny", ".stop").write_text("999999999:1\n")

    ran = stop(host, "tiny")

    assert ran.section("STOP").text("KILLED") is None
    assert results(ran) == {"tiny": "STOPPED"}


def test_a_deaf_engine_is_killed_after_the_grace(host: ScratchHost) -> None:
    pid = started(host, "tiny", DEAF)
    eventually((host.home / "deaf").exists)

    ran = stop(host, "tiny", GRACE_S="0.2")

    assert (results(ran), ran.section("STOP").text("KILLED")) == ({"tiny": "STOPPED"}, "1")
    assert session_members(pid) == []


def test_processes_that_left_the_group_but_not_the_session_are_ended_too(host: ScratchHost) -> None:
    pid = started(host, "tiny", "set -m; sleep 600 & sleep 601 & : >ready; wait")
    eventually((host.home / "ready").exists)

    assert results(stop(host, "tiny")) == {"tiny": "STOPPED"}
    assert session_members(pid) == []


def test_an_engine_whose_supervisor_was_killed_is_stopped(host: ScratchHost) -> None:
    pid = started(host, "tiny", ": >ready; exec sleep 600")
    eventually((host.home / "ready").exists)
    end_process(pid)
    eventually(lambda: not is_alive(pid))
    assert len(session_members(pid)) == 1

    assert results(stop(host, "tiny")) == {"tiny": "STOPPED"}
    assert session_members(pid) == []


def test_the_workload_of_another_application_is_left_alone(host: ScratchHost) -> None:
    pid = started(host, "tiny", OWNER="other")

    ran = stop(host, "tiny")

    assert (ran.returncode, results(ran)) == (1, {"tiny": "NOT_OURS"})
    assert ran.section("STOP").text("OWNED_BY") == "other"
    assert is_alive(pid)
    assert results(stop(host, "tiny", OWNER="other")) == {"tiny": "STOPPED"}


def test_only_what_the_named_launch_started_is_stopped(host: ScratchHost) -> None:
    pid = started(host, "tiny", LAUNCH="second")

    ran = stop(host, "tiny", ONLY_LAUNCH="first")

    assert (ran.returncode, results(ran)) == (0, {"tiny": "OTHER_LAUNCH"})
    assert is_alive(pid)
    assert results(stop(host, "tiny", ONLY_LAUNCH="second")) == {"tiny": "STOPPED"}


def test_a_process_that_has_got_the_number_of_a_dead_workload_is_left_alone(host: ScratchHost) -> None:
    stranger = started(host, "stranger")
    dead = started(host, "tiny", "exit 0")
    eventually(lambda: not is_alive(dead))
    host.file("tiny").write_text(f"{stranger}\n")

    assert results(stop(host, "tiny")) == {"tiny": "GONE"}
    assert is_alive(stranger)


def test_a_record_of_before_the_last_boot_names_nobody(host: ScratchHost) -> None:
    pid = started(host, "tiny")
    ticks, _boot, rest = host.file("tiny", ".start").read_text().split(" ", 2)
    host.file("tiny", ".start").write_text(f"{ticks} 00000000-0000-0000-0000-000000000000 {rest}")

    assert results(stop(host, "tiny")) == {"tiny": "GONE"}
    assert is_alive(pid)
    for member in session_members(pid):
        end_process(member)


@pytest.mark.parametrize("content", ["", "\n", "abc\n", "-1\n", "1 2\n", "0\n"])
def test_a_broken_pid_file_ends_nobody(host: ScratchHost, content: str) -> None:
    host.file("tiny").parent.mkdir(parents=True)
    host.file("tiny").write_text(content)

    assert results(stop(host, "tiny")) == {"tiny": "GONE"}


def test_a_workload_of_an_earlier_version_is_stopped(host: ScratchHost) -> None:
    pid = started(host, "old")
    for suffix in (".start", ".labels", ".launch", ".cluster", ".log"):
        host.file("old", suffix).unlink()

    assert results(stop(host, "old")) == {"old": "STOPPED"}
    assert session_members(pid) == []


def test_a_number_in_an_old_record_that_belongs_to_a_younger_process_is_left_alone(host: ScratchHost) -> None:
    pid = started(host, "old")
    host.file("old", ".start").unlink()
    an_hour_ago = time.time() - 3600
    os.utime(host.file("old"), (an_hour_ago, an_hour_ago))

    assert results(stop(host, "old")) == {"old": "GONE"}
    assert is_alive(pid)
    for member in session_members(pid):
        end_process(member)


def test_stop_waits_for_a_start_that_is_at_work(host: ScratchHost) -> None:
    host.program("base64", ": >$HOME/inside; until [[ -e $HOME/go ]]; do read -r -t 0.01 <> <(:) || :; done; echo e30K")
    start = host.begin("local_start", NAME="tiny", COMMAND=FOREVER, ALLOCATIONS="{}")
    eventually((host.home / "inside").exists)
    stopping = host.begin("local_stop", NAMES=("tiny",))

    (host.home / "go").touch()
    pid = start.result().section("LAUNCH").number("PID")

    assert results(stopping.result()) == {"tiny": "STOPPED"}
    assert pid is not None
    assert session_members(pid) == []


def test_a_name_whose_lock_is_held_is_told_as_busy(host: ScratchHost) -> None:
    pid = started(host, "tiny")
    host.program("flock", "exit 1")
    with host.file("tiny", ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        ran = stop(host, "tiny")

    assert (ran.returncode, results(ran)) == (1, {"tiny": "BUSY"})
    assert is_alive(pid)


def test_a_record_that_cannot_be_removed_is_told(host: ScratchHost) -> None:
    pid = started(host, "tiny")
    host.program("rm", "exit 1")

    ran = stop(host, "tiny")

    assert (ran.returncode, results(ran)) == (0, {"tiny": "STOPPED"})
    assert ran.section("STOP").text("FILES_LEFT") == "1"
    assert session_members(pid) == []


@pytest.mark.parametrize("names", [(), ("good", "../bad"), ("a b",), ("",)])
def test_bad_names_are_refused_before_anything_is_stopped(host: ScratchHost, names: tuple[str, ...]) -> None:
    pid = started(host, "good")

    assert stop(host, *names).returncode == 2
    assert is_alive(pid)


def test_a_grace_that_is_no_number_is_refused(host: ScratchHost) -> None:
    assert stop(host, "tiny", GRACE_S="1;2").returncode == 2
