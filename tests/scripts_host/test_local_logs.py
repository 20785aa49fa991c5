"""The log of one launch, whole, in part, or as it grows."""

from __future__ import annotations

import pytest

from sparkrun.scripts import compose_script
from tests.scripts_host.scratch_host import ScratchHost, end_process, eventually, is_alive, session_members

WAIT = "until [[ -e go ]]; do read -r -t 0.01 <> <(:) || :; done"


def test_the_log_of_the_current_launch_is_printed_as_it_is(host: ScratchHost) -> None:
    host.run("local_start", NAME="tiny", COMMAND="echo old", WAIT_EARLY_S="10")
    host.run("local_start", NAME="tiny", COMMAND="printf 'a=1\\n\\n  b\\\\n é\\rc\\nno end'", WAIT_EARLY_S="10")

    ran = host.run("local_logs", NAME="tiny")

    assert (ran.returncode, ran.stdout) == (0, "a=1\n\n  b\\n é\nc\nno end")  # text mode reads a lone CR as a line end


@pytest.mark.parametrize(
    ("lines", "skip", "wanted"),
    [
        ("2", "", "4 5"),
        ("0", "", ""),
        ("99", "", "1 2 3 4 5"),
        ("", "0", "1 2 3 4 5"),
        ("", "3", "4 5"),
        ("", "99", ""),
        ("1", "3", "5"),
        ("3", "4", "5"),
    ],
)
def test_a_part_of_the_log_is_counted_within_this_launch(host: ScratchHost, lines: str, skip: str, wanted: str) -> None:
    host.run("local_start", NAME="tiny", COMMAND="echo old", WAIT_EARLY_S="10")
    host.run("local_start", NAME="tiny", COMMAND="for i in {1..5}; do echo $i; done", WAIT_EARLY_S="10")

    assert host.run("local_logs", NAME="tiny", LINES=lines, SKIP=skip).stdout.split() == wanted.split()


def test_following_ends_with_the_engine_and_prints_its_last_words(host: ScratchHost) -> None:
    host.start("tiny", f"echo first; {WAIT}; for i in {{1..500}}; do echo $i; done; printf last; exit 3")
    running = host.begin("local_logs", NAME="tiny", FOLLOW="1")
    running.wait_for("first")

    (host.home / "go").touch()

    ran = running.result()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["first", *map(str, range(1, 501)), "last"]


def test_following_a_dead_workload_prints_its_log_and_ends(host: ScratchHost) -> None:
    host.run("local_start", NAME="tiny", COMMAND="for i in {1..5}; do echo $i; done", WAIT_EARLY_S="10")

    ran = host.run("local_logs", NAME="tiny", FOLLOW="1", LINES="2")

    assert (ran.returncode, ran.stdout) == (0, "4\n5\n")


def test_following_ends_when_the_workload_is_stopped(host: ScratchHost) -> None:
    host.start("tiny", "echo first; exec sleep 600")
    running = host.begin("local_logs", NAME="tiny", FOLLOW="1")
    running.wait_for("first")

    host.run("local_stop", NAMES=("tiny",))

    assert running.result().returncode == 0


def test_following_goes_on_while_the_engine_lives_without_its_supervisor(host: ScratchHost) -> None:
    pid = host.start("tiny", f"echo first; {WAIT}; echo second; {WAIT.replace('go', 'end')}").number("PID")
    running = host.begin("local_logs", NAME="tiny", FOLLOW="1")
    running.wait_for("first")
    assert pid is not None
    end_process(pid)
    eventually(lambda: not is_alive(pid))

    (host.home / "go").touch()
    running.wait_for("second")
    (host.home / "end").touch()

    assert running.result().returncode == 0


def test_following_ends_when_those_who_asked_are_gone(host: ScratchHost) -> None:
    host.start("tiny", "echo first; exec sleep 600")
    # A parent in between that can be ended, as the ssh server's process of a session is.
    script = host.root / "script"
    script.write_text(compose_script("local_logs", {"NAME": "tiny", "FOLLOW": "1"}))
    host.feed(f"{host.tools}/bash -c 'bash -s <{script} & echo $! >$HOME/inner; echo $$ >$HOME/outer; wait' >$HOME/out 2>&1 &\n")
    eventually(lambda: (host.home / "out").exists() and (host.home / "out").read_text())

    end_process(int((host.home / "outer").read_text()))

    inner = int((host.home / "inner").read_text())
    eventually(lambda: not is_alive(inner), "end of the orphan")


def test_following_ends_when_the_lifeline_is_let_go(host: ScratchHost) -> None:
    host.start("tiny", "echo first; exec sleep 600")
    running = host.begin("local_logs", NAME="tiny", FOLLOW="1", LIFELINE="1")
    running.wait_for("first")

    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.result().returncode == 0


def test_following_leaves_no_process_behind_when_it_is_killed(host: ScratchHost) -> None:
    host.start("tiny", "echo first; exec sleep 600")
    running = host.begin("local_logs", NAME="tiny", FOLLOW="1")
    running.wait_for("first")

    running.process.kill()
    running.process.wait()

    eventually(lambda: session_members(running.process.pid) == [], "end of its children")


def test_a_log_that_was_cut_short_is_read_from_its_beginning(host: ScratchHost) -> None:
    host.run("local_start", NAME="tiny", COMMAND="echo a long line of the first launch", WAIT_EARLY_S="10")
    host.run("local_start", NAME="tiny", COMMAND="echo second", WAIT_EARLY_S="10")
    (host.cache / "local/logs/tiny.log").write_text("new\n")

    assert host.run("local_logs", NAME="tiny").stdout == "new\n"


def test_the_log_of_a_stopped_workload_can_still_be_read(host: ScratchHost) -> None:
    host.run("local_start", NAME="tiny", COMMAND="echo said", WAIT_EARLY_S="10")
    host.run("local_stop", NAMES=("tiny",))

    assert host.run("local_logs", NAME="tiny").stdout == "said\n"


def test_a_workload_without_a_log_is_told_on_stderr(host: ScratchHost) -> None:
    ran = host.run("local_logs", NAME="tiny")

    assert (ran.returncode, ran.stdout) == (3, "")
    assert "no log of tiny" in ran.stderr


@pytest.mark.parametrize("params", [{"NAME": "../x"}, {"NAME": "x", "LINES": "-1"}, {"NAME": "x", "SKIP": "a"}])
def test_parameters_that_mean_nothing_are_refused(host: ScratchHost, params: dict[str, str]) -> None:
    ran = host.run("local_logs", **params)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr
