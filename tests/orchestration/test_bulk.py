"""One stream into many programs."""

from __future__ import annotations

import sys
from pathlib import Path

from sparkrun.orchestration.bulk import Poured, Sink, pour

BYTES = 5_000_000
FEED = ("head", "-c", str(BYTES), "/dev/zero")
COUNT = ("bash", "-c", "wc -c")


def bash(text: str) -> Sink:
    return Sink(("bash", "-c", text), b"")


def pour_into(*sinks: Sink, feed: tuple[str, ...] = FEED, idle_s: float = 10) -> tuple[tuple[Poured, ...], list[int]]:
    heard: list[int] = []
    return pour(feed, sinks, heard.append, idle_s=idle_s), heard


def test_everybody_gets_all_of_it_after_the_opening() -> None:
    ended, heard = pour_into(Sink(COUNT, b"12345"), Sink(COUNT, b""))

    assert [(one.returncode, int(one.stdout)) for one in ended] == [(0, BYTES + 5), (0, BYTES)]
    assert (heard[-1], heard == sorted(heard)) == (BYTES, True)


def test_the_stream_is_read_once(tmp_path: Path) -> None:
    feed = ("bash", "-c", f"echo x >>{tmp_path}/begun; echo data")

    pour_into(Sink(COUNT, b""), Sink(COUNT, b""), feed=feed)

    assert (tmp_path / "begun").read_text() == "x\n"


def test_one_that_ends_early_holds_up_no_other() -> None:
    (first, second), _ = pour_into(bash("echo no room >&2; exit 3"), Sink(COUNT, b""))

    assert (first.returncode, first.stderr, first.idle) == (3, "no room\n", False)
    assert int(second.stdout) == BYTES


def test_one_that_takes_nothing_is_given_up() -> None:
    (first, second), _ = pour_into(bash("exec sleep 600"), Sink(COUNT, b""), idle_s=0.3)

    assert (first.idle, int(second.stdout)) == (True, BYTES)


def test_when_all_have_ended_the_stream_is_not_waited_for() -> None:
    (only,), _ = pour_into(bash("exit 4"), feed=("yes",))

    assert only.returncode == 4


def test_a_stream_that_fails_is_a_failure_of_all() -> None:
    ended, _ = pour_into(
        Sink(COUNT, b""), Sink(COUNT, b""), feed=("bash", "-c", "echo part; echo warn >&2; echo 'cannot read x' >&2; exit 2")
    )

    assert [(one.returncode, one.feed_error) for one in ended] == [(-1, "bash: cannot read x")] * 2


def test_a_stream_that_stands_still_is_given_up_and_says_so() -> None:
    ended, _ = pour_into(Sink(COUNT, b""), feed=("bash", "-c", "echo part; exec sleep 600"), idle_s=0.3)

    assert [(one.returncode, one.feed_error) for one in ended] == [(-1, "bash: nothing came of it for 0.3 s")]


def test_a_program_that_is_not_here_is_told() -> None:
    (only,), _ = pour_into(Sink(COUNT, b""), feed=("/nowhere/docker", "save"))
    (other,), _ = pour_into(Sink(("/nowhere/ssh",), b""))

    assert only.feed_error == "cannot start /nowhere/docker: No such file or directory"
    assert (other.returncode, other.stderr) == (255, "cannot start /nowhere/ssh: No such file or directory")


def test_much_output_of_a_sink_blocks_nobody() -> None:
    noisy = Sink((sys.executable, "-c", "import sys; sys.stdout.write('x' * 10**6); sys.stdin.buffer.read()"), b"")

    ((only,), _heard) = pour_into(noisy)

    assert (only.returncode, len(only.stdout)) == (0, 10**6)
