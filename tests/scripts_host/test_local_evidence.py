"""Why a workload ended."""

from __future__ import annotations

from tests.scripts_host.scratch_host import ScratchHost


def ended(host: ScratchHost, command: str) -> None:
    host.run("local_start", NAME="tiny", COMMAND=command, WAIT_EARLY_S="20")


def test_the_exit_code_and_the_last_lines_are_told(host: ScratchHost) -> None:
    ended(host, "echo old")
    ended(host, "for i in {1..30}; do echo line $i; done; exit 3")

    section = host.run("local_evidence", NAME="tiny", LINES="2").section("EVIDENCE")

    assert (section.text("STATE"), section.number("EXIT_CODE"), section.text("SIGNAL")) == ("exited", 3, None)
    assert section.all("LOG") == ("line 29", "line 30")


def test_twenty_lines_unless_another_number_is_asked_for_and_none_of_an_earlier_launch(host: ScratchHost) -> None:
    ended(host, "echo old")
    ended(host, "for i in {1..5}; do echo $i; done")

    assert host.run("local_evidence", NAME="tiny").section("EVIDENCE").all("LOG") == ("1", "2", "3", "4", "5")


def test_a_signal_is_named(host: ScratchHost) -> None:
    ended(host, "kill -SEGV $$")

    section = host.run("local_evidence", NAME="tiny").section("EVIDENCE")

    assert (section.number("EXIT_CODE"), section.text("SIGNAL")) == (139, "SEGV")


def test_lack_of_memory_in_the_log_is_a_hint(host: ScratchHost) -> None:
    ended(host, "echo 'CUDA error: Out of Memory (need 9 GiB)'; echo bye; exit 1")

    assert host.run("local_evidence", NAME="tiny").section("EVIDENCE").text("OOM_HINT") == "CUDA error: Out of Memory (need 9 GiB)"


def test_a_kill_while_the_kernel_ran_out_of_memory_is_a_hint(host: ScratchHost) -> None:
    ended(host, "kill -KILL $$")
    assert host.run("local_evidence", NAME="tiny").section("EVIDENCE").text("OOM_HINT") is None
    start = host.file("tiny", ".start")
    # As if the kernel had killed fewer when this began.
    start.write_text(" ".join([*start.read_text().split()[:3], "-2"]) + "\n")

    assert "lack of memory" in (host.run("local_evidence", NAME="tiny").section("EVIDENCE").text("OOM_HINT") or "")


def test_odd_bytes_and_long_lines_come_through(host: ScratchHost) -> None:
    ended(host, "printf 'a\\\\b\\rc\\n'; head -c 5000 /dev/zero | while IFS= read -r -n 1 -d '' _; do printf x; done; echo")

    log = host.run("local_evidence", NAME="tiny").section("EVIDENCE").all("LOG")

    assert log == ("a\\b\rc", "x" * 2000)


def test_a_log_without_a_record_is_told(host: ScratchHost) -> None:
    ended(host, "echo said")
    host.run("local_stop", NAMES=("tiny",))

    section = host.run("local_evidence", NAME="tiny").section("EVIDENCE")

    assert (section.text("STATE"), section.all("LOG")) == (None, ("said",))


def test_a_name_nobody_knows_is_refused(host: ScratchHost) -> None:
    ran = host.run("local_evidence", NAME="tiny")

    assert (ran.returncode, ran.answers.text("REASON")) == (3, "no_record")


def test_parameters_that_mean_nothing_are_refused(host: ScratchHost) -> None:
    assert host.run("local_evidence", NAME="a b").returncode == 2
    assert host.run("local_evidence", NAME="tiny", LINES="x").returncode == 2
