"""Starting a workload of the local executor."""

from __future__ import annotations

import base64
import fcntl
import os
import pwd
import signal
import stat
import time
from pathlib import Path

import pytest

from sparkrun.utils.shell import Section
from tests.pace import slowness
from tests.scripts_host.scratch_host import (
    ScratchHost,
    end_process,
    eventually,
    is_alive,
    session_members,
    start_ticks,
)

FOREVER = "exec sleep 600"


def pid_of(launch: Section) -> int:
    pid = launch.number("PID")
    assert pid is not None
    return pid


def test_start_answers_where_the_engine_and_its_log_are(host: ScratchHost) -> None:
    launch = host.start("tiny_solo", FOREVER)

    assert is_alive(pid_of(launch))
    assert launch.text("LOG_FILE") == str(host.cache / "local/logs/tiny_solo.log")
    assert launch.number("LOG_OFFSET") == 0
    assert (launch.text("STARTED_AT") or "").startswith(time.strftime("%Y-", time.gmtime()))


def test_start_keeps_the_record_other_versions_know(host: ScratchHost) -> None:
    allocations = '{"schema":1,"allocations":[{"rank":0,"gpu_index":0}]}'

    launch = host.start("tiny_solo", FOREVER, OWNER="sparkrun", ALLOCATIONS=allocations)

    assert host.file("tiny_solo").read_text() == f"{pid_of(launch)}\n"
    assert host.file("tiny_solo", ".owner").read_text() == "sparkrun\n"
    assert base64.b64decode(host.file("tiny_solo", ".allocations").read_text()).decode().strip() == allocations
    assert host.file("tiny_solo", ".start").read_text().split()[0] == start_ticks(pid_of(launch))


def test_records_and_logs_are_private_but_the_engine_keeps_the_users_umask(host: ScratchHost) -> None:
    host.start("tiny", "umask >mask; touch made", WAIT_EARLY_S="0", WORKING_DIR=str(host.home))

    eventually((host.home / "made").exists)
    for path in [host.file("tiny"), host.cache / "local/logs/tiny.log", host.cache / "local/pids"]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert (host.home / "mask").read_text() != "0077\n"


def test_start_returns_while_the_engine_lives_and_holds_nothing_of_the_session(host: ScratchHost) -> None:
    running = host.begin("local_start", NAME="tiny", COMMAND=FOREVER)

    # The end of the script's output is the end of the pipes: nobody else has them.
    launch = running.result()

    pid = pid_of(launch.section("LAUNCH"))
    eventually(lambda: len(session_members(pid)) == 2)
    for member in session_members(pid):
        targets = {fd.name: fd.readlink() for fd in Path(f"/proc/{member}/fd").iterdir()}
        output = Path("/dev/null") if member == pid else host.cache / "local/logs/tiny.log"
        assert targets == {"0": Path("/dev/null"), "1": output, "2": output}


def test_the_engine_is_in_a_session_of_its_own_and_outlives_the_end_of_the_asking_one(host: ScratchHost) -> None:
    running = host.begin("local_start", NAME="tiny", COMMAND=FOREVER)
    pid = pid_of(running.result().section("LAUNCH"))

    assert running.process.pid not in session_members(pid)
    assert host.workload("tiny").text("STATE") == "running"


def test_the_engine_gets_its_variables_whatever_they_hold(host: ScratchHost) -> None:
    values = {"PLAIN": "x", "ODD": "a 'b' \"c\" $d `e` \\ &", "EMPTY": "", "LINES2": "one\ntwo"}
    values |= {"command": "c", "BASH": "b", "words": "w", "code": "z"}

    host.start(
        "tiny",
        'for name in PLAIN ODD EMPTY LINES2 command BASH words code KEY; do printf "%s=%s|\\0" "$name" "${!name}"; done >out; : >done',
        ENVS=tuple(f"{key}={value}" for key, value in values.items()),
        SECRET_ENVS=("KEY=s3cret-value",),
    )

    eventually((host.home / "done").exists)
    got = (host.home / "out").read_text().rstrip("\0").split("\0")
    assert [item for item in got if not item.startswith("BASH=")] == [
        *(f"{key}={value}|" for key, value in values.items() if key != "BASH"),
        "KEY=s3cret-value|",
    ]


def test_no_parameter_of_the_script_reaches_the_engine(host: ScratchHost) -> None:
    host.env |= {"OWNER": "somebody", "NAME": "other", "HOST_SETTING": "kept"}

    host.start("tiny", "env >environment; : >done")

    eventually((host.home / "done").exists)
    names = {line.partition("=")[0] for line in (host.home / "environment").read_text().splitlines()}
    assert names & {"OWNER", "NAME", "COMMAND", "ENVS", "SECRET_ENVS", "LABELS", "LC_ALL"} == set()
    assert "HOST_SETTING" in names


def test_a_secret_is_neither_printed_nor_on_disk_nor_on_a_command_line(host: ScratchHost) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND=f"echo ${{KEY:0:3}}; {FOREVER}", SECRET_ENVS=("KEY=hush-12345",))

    pid = pid_of(ran.section("LAUNCH"))
    eventually(lambda: host.log("tiny"))
    assert host.log("tiny") == "hus\n"
    assert "hush-12345" not in ran.stdout + ran.stderr
    assert [path for path in host.root.rglob("*") if path.is_file() and b"hush-12345" in path.read_bytes()] == []
    lines = [Path(f"/proc/{member}/cmdline").read_bytes() for member in session_members(pid)]
    assert lines
    assert not any(b"hush-12345" in line for line in lines)


@pytest.mark.parametrize("entry", ["no-equals-sh0wn", "1X=sh0wn", "A-B=sh0wn", "=sh0wn", "UID=sh0wn"])
@pytest.mark.parametrize("array", ["ENVS", "SECRET_ENVS"])
def test_a_variable_that_cannot_be_set_is_refused_without_its_value(host: ScratchHost, array: str, entry: str) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER, **{array: (entry,)})

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")
    assert array in (ran.answers.text("MESSAGE") or "")
    assert "sh0wn" not in ran.stdout + ran.stderr


def test_the_env_file_is_read_on_the_host_and_given_variables_win(host: ScratchHost) -> None:
    (host.home / "s.env").write_text('A=file\nexport B="$A-b"\nNAME=x\nPID_PATH=y\nset -- lost\nfalse\n')

    host.start("tiny", 'echo "$A $B $NAME" >out; : >done', ENV_FILE="~/s.env", ENVS=("A=given",))

    eventually((host.home / "done").exists)
    assert (host.home / "out").read_text() == "given file-b x\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "no_env_file"), ("A='unfinished\n", "bad_env_file")],
)
def test_an_env_file_that_cannot_be_used_is_refused(host: ScratchHost, content: str | None, reason: str) -> None:
    if content:
        (host.home / "s.env").write_text(content)

    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER, ENV_FILE="~/s.env")

    assert (ran.returncode, ran.answers.text("REASON")) == (6, reason)
    assert not host.file("tiny").exists()


def test_the_command_prefix_stands_before_the_whole_command(host: ScratchHost) -> None:
    host.program("pin", 'echo "pinned $1" >>"$HOME/pins"; shift; exec "$@"')

    host.start("tiny", "# a comment first\necho one; echo two\n: >done", COMMAND_PREFIX="pin 'cpu 3'")

    eventually((host.home / "done").exists)
    assert (host.home / "pins").read_text() == "pinned cpu 3\n"
    assert host.log("tiny") == "one\ntwo\n"


def test_a_command_prefix_may_prepare_the_shell(host: ScratchHost) -> None:
    (host.home / "activate").write_text("export ACTIVE=yes\n")

    host.start("tiny", 'echo "$ACTIVE"; : >done', COMMAND_PREFIX="source ~/activate &&")

    eventually((host.home / "done").exists)
    assert host.log("tiny") == "yes\n"


def test_the_engine_runs_in_its_working_dir_else_at_home(host: ScratchHost) -> None:
    (host.root / "w d").mkdir()
    host.start("one", "pwd; exec sleep 600", WORKING_DIR=str(host.root / "w d"))
    host.start("two", "pwd; exec sleep 600")

    eventually(lambda: host.log("one") and host.log("two"))
    assert (host.log("one"), host.log("two")) == (f"{host.root}/w d\n", f"{host.home}\n")


def test_a_missing_working_dir_is_refused(host: ScratchHost) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER, WORKING_DIR="/nowhere")

    assert (ran.returncode, ran.answers.text("REASON")) == (5, "no_working_dir")
    assert "/nowhere" in (ran.answers.text("MESSAGE") or "")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "-x", ".hidden", "a;b", "a\nb", "é", "x" * 129])
def test_a_name_with_odd_characters_is_refused(host: ScratchHost, name: str) -> None:
    ran = host.run("local_start", NAME=name, COMMAND=FOREVER)

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_name")
    assert not host.cache.exists()


@pytest.mark.parametrize("command", ["", " \n\t"])
def test_a_start_without_a_command_is_refused(host: ScratchHost, command: str) -> None:
    assert host.run("local_start", NAME="tiny", COMMAND=command).returncode == 2


@pytest.mark.parametrize("places", [{"CACHE": "relative"}, {"LOG_FILE": "x.log"}, {"PID_DIR": "pids"}, {"WAIT_EARLY_S": "soon"}])
def test_parameters_that_mean_nothing_are_refused(host: ScratchHost, places: dict[str, str]) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER, **places)

    assert (ran.returncode, ran.answers.text("REASON")) == (2, "bad_parameter")


def test_a_live_workload_is_not_replaced(host: ScratchHost) -> None:
    first = host.start("tiny", FOREVER)

    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER)

    assert (ran.returncode, ran.answers.text("REASON")) == (3, "running")
    assert is_alive(pid_of(first))
    assert host.file("tiny").read_text().strip() == first.text("PID")


def test_an_engine_that_lives_on_without_its_supervisor_is_not_replaced(host: ScratchHost) -> None:
    pid = pid_of(host.start("tiny", FOREVER))
    eventually(lambda: len(session_members(pid)) == 2)
    end_process(pid)
    eventually(lambda: not is_alive(pid))

    assert host.run("local_start", NAME="tiny", COMMAND=FOREVER).answers.text("REASON") == "running"


@pytest.mark.parametrize("command", [FOREVER, "exit 0"])
def test_a_record_of_another_application_is_left_alone(host: ScratchHost, command: str) -> None:
    host.start("tiny", command, OWNER="other")

    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER)

    assert (ran.returncode, ran.answers.text("REASON")) == (4, "not_ours")
    assert "'other'" in (ran.answers.text("MESSAGE") or "")


def test_a_dead_workload_is_replaced_and_its_log_is_kept(host: ScratchHost) -> None:
    host.run("local_start", NAME="tiny", COMMAND="echo first; exit 3", WAIT_EARLY_S="10")

    launch = host.start("tiny", f"echo second; {FOREVER}")

    eventually(lambda: "second" in host.log("tiny"))
    assert host.log("tiny") == "first\nsecond\n"
    assert launch.number("LOG_OFFSET") == len("first\n")
    assert host.workload("tiny").text("EXIT_CODE") == ""


def test_a_recycled_pid_is_not_taken_for_the_workload(host: ScratchHost) -> None:
    stranger = pid_of(host.start("stranger", FOREVER))
    old = host.start("tiny", "exit 0")
    eventually(lambda: not is_alive(pid_of(old)))
    host.file("tiny").write_text(f"{stranger}\n")

    new = host.start("tiny", FOREVER)

    assert is_alive(stranger)
    assert pid_of(new) != stranger


def test_an_engine_that_dies_at_once_is_told_with_its_exit_code(host: ScratchHost) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND="echo no such flag >&2; exit 7", WAIT_EARLY_S="20")

    assert (ran.returncode, ran.answers.text("REASON"), ran.answers.text("EXIT_CODE")) == (9, "died", "7")
    assert host.log("tiny") == "no such flag\n"


def test_a_command_that_does_not_exist_ends_with_127(host: ScratchHost) -> None:
    assert host.run("local_start", NAME="tiny", COMMAND="no-such-engine", WAIT_EARLY_S="20").answers.text("EXIT_CODE") == "127"


def test_an_engine_that_lives_is_watched_no_longer_than_asked(host: ScratchHost) -> None:
    began = time.monotonic()

    host.start("tiny", FOREVER, WAIT_EARLY_S="0.3")

    assert 0.3 <= time.monotonic() - began < 10 * slowness()


def test_other_places_for_pid_and_log_are_found_by_the_other_scripts(host: ScratchHost) -> None:
    other = host.root / "other place"
    launch = host.start("tiny", f"echo hello; {FOREVER}", LOG_DIR=str(other / "logs"), PID_FILE=str(other / "run" / "x.pid"))

    eventually((other / "logs/tiny.log").read_text)
    assert (other / "run/x.pid").read_text().strip() == launch.text("PID")
    assert host.workload("tiny").text("STATE") == "running"
    assert host.run("local_logs", NAME="tiny").stdout == "hello\n"
    assert host.run("local_stop", NAMES=("tiny",)).section("STOP").text("RESULT") == "STOPPED"
    assert not (other / "run/x.pid").exists()


def test_a_second_launch_elsewhere_is_refused_while_the_first_lives(host: ScratchHost) -> None:
    host.start("tiny", FOREVER, PID_DIR=str(host.root / "elsewhere"))

    assert host.run("local_start", NAME="tiny", COMMAND=FOREVER).answers.text("REASON") == "running"


def test_a_cache_that_cannot_be_written_is_refused(host: ScratchHost) -> None:
    # A file where a folder belongs: root may write everywhere else.
    host.cache.write_text("")

    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER)

    assert (ran.returncode, ran.answers.text("REASON")) == (7, "cache_not_writable")
    assert str(host.cache) in (ran.answers.text("MESSAGE") or "")


def test_a_log_that_cannot_be_written_is_refused(host: ScratchHost) -> None:
    ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER, LOG_FILE="/proc/nowhere/x.log")

    assert (ran.returncode, ran.answers.text("REASON")) == (7, "cache_not_writable")


def test_a_full_disk_starts_nothing(host: ScratchHost) -> None:
    marker = host.home / "ran"
    host.cache.joinpath("local/pids").mkdir(parents=True)
    host.file("tiny", ".labels").symlink_to("/dev/full")
    host.program("rm", "exit 0")

    ran = host.run("local_start", NAME="tiny", COMMAND=f"touch {marker}; {FOREVER}", LABELS="{}")

    assert (ran.returncode, ran.answers.text("REASON")) == (10, "not_started")
    assert not marker.exists()


def test_home_comes_from_the_user_database_when_the_session_has_none(host: ScratchHost) -> None:
    del host.env["HOME"]

    host.start("tiny", 'echo "$HOME"; exec sleep 600')

    eventually(lambda: host.log("tiny"))
    assert host.log("tiny") == f"{pwd.getpwuid(os.getuid()).pw_dir}\n"


def test_the_cache_is_where_this_hosts_own_variables_put_it(host: ScratchHost) -> None:
    del host.env["SPARKRUN_CACHE_DIR"]
    host.env["XDG_CACHE_HOME"] = str(host.root / "xdg")

    launch = host.start("tiny", "exit 0")

    assert launch.text("LOG_FILE") == str(host.root / "xdg/sparkrun/local/logs/tiny.log")


def test_a_start_that_is_killed_before_it_sends_the_command_starts_nothing(host: ScratchHost) -> None:
    marker = host.home / "ran"
    # mv is the last step before the command is sent.
    host.program("mv", 'kill -KILL "$PPID"')

    ran = host.run("local_start", NAME="tiny", COMMAND=f"touch {marker}; {FOREVER}")

    assert ran.returncode == -signal.SIGKILL
    assert host.run("local_status").section("WORKLOADS").text("COUNT") == "0"
    assert not marker.exists()


def test_a_start_that_is_killed_with_the_record_written_leaves_a_stale_one(host: ScratchHost) -> None:
    host.program("mv", '"$OLDMV" "$@"; kill -KILL "$PPID"')
    host.env["OLDMV"] = str(host.tools / "mv")

    host.run("local_start", NAME="tiny", COMMAND=f"touch ran; {FOREVER}")

    record = host.workload("tiny")
    pid = record.number("PID")
    assert pid is not None
    eventually(lambda: not is_alive(pid))
    assert host.workload("tiny").text("STATE") == "stale"
    assert not (host.home / "ran").exists()
    (host.bin / "mv").unlink()
    host.start("tiny", FOREVER)


def test_a_start_that_nobody_listens_to_any_more_starts_nothing(host: ScratchHost) -> None:
    host.program("base64", "until [[ -e $HOME/gone ]]; do read -r -t 0.01 <> <(:) || :; done; echo e30K")
    process = host.process("local_start", NAME="tiny", COMMAND=f"touch ran; {FOREVER}", ALLOCATIONS="{}")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    (host.home / "gone").touch()

    assert process.wait(20) != 0
    assert not (host.home / "ran").exists()
    assert not host.file("tiny").exists()


def test_two_starts_of_one_name_at_once_start_one_engine(host: ScratchHost) -> None:
    starts = [host.begin("local_start", NAME="tiny", COMMAND=FOREVER) for _ in range(4)]

    reasons = sorted(start.result().answers.text("REASON") or "" for start in starts)

    assert reasons == ["", "running", "running", "running"]


@pytest.mark.parametrize("missing", ["flock", "setsid"])
def test_start_and_stop_work_without_an_optional_tool(host: ScratchHost, missing: str) -> None:
    (host.tools / missing).unlink()

    pid = pid_of(host.start("tiny", FOREVER))
    starts = [host.begin("local_start", NAME="tiny", COMMAND=FOREVER) for _ in range(2)]
    assert [start.result().answers.text("REASON") for start in starts] == ["running", "running"]
    assert host.run("local_stop", NAMES=("tiny",)).section("STOP").text("RESULT") == "STOPPED"

    assert session_members(pid) == []
    assert list((host.cache / "local/pids").iterdir()) == []


def test_the_lock_of_a_dead_holder_is_taken_over_without_flock(host: ScratchHost) -> None:
    (host.tools / "flock").unlink()
    host.cache.joinpath("local/pids").mkdir(parents=True)
    host.file("tiny", ".lock.held").symlink_to("999999999:1")

    host.start("tiny", FOREVER)


def test_a_held_lock_is_told_as_busy(host: ScratchHost) -> None:
    host.program("flock", "exit 1")
    host.cache.joinpath("local/pids").mkdir(parents=True)
    with host.file("tiny", ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        ran = host.run("local_start", NAME="tiny", COMMAND=FOREVER)

    assert (ran.returncode, ran.answers.text("REASON")) == (8, "busy")


def test_a_signal_for_the_supervisor_reaches_the_engine_once(host: ScratchHost) -> None:
    command = "trap 'echo told' TERM; : >ready; while [[ ! -e end ]]; do read -r -t 0.02 <> <(:) || :; done; exit 5"
    pid = pid_of(host.start("tiny", command))
    eventually((host.home / "ready").exists)

    end_process(pid, signal.SIGTERM)
    eventually(lambda: "told" in host.log("tiny"))
    (host.home / "end").touch()
    eventually(lambda: not is_alive(pid))

    assert host.log("tiny") == "told\n"
    assert host.workload("tiny").text("EXIT_CODE") == "5"


def test_an_engine_can_be_interrupted(host: ScratchHost) -> None:
    pid = pid_of(host.start("tiny", ": >ready; exec sleep 600"))
    eventually((host.home / "ready").exists)

    end_process(pid, signal.SIGINT)

    eventually(lambda: not is_alive(pid))
    assert host.workload("tiny").text("EXIT_CODE") == "130"


def test_what_the_engine_leaves_behind_is_ended_with_it(host: ScratchHost) -> None:
    deaf = "(trap '' TERM; : >deaf; while :; do read -r -t 1 <> <(:) || :; done)"
    pid = pid_of(host.start("tiny", f"{deaf} & sleep 600 & until [[ -e deaf ]]; do :; done; exit 3"))

    eventually(lambda: session_members(pid) == [], "end of the session")
    assert host.workload("tiny").text("EXIT_CODE") == "3"
