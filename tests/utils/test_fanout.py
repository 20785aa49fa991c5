from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.utils.fanout import NOT_RUN, Batch, Finished, Opening, Pipes, Task, run_batch
from sparkrun.utils.proc import ChildProcess
from tests.pace import slowness


def bash(text: str, **settings: object) -> Task:
    return Task(lambda: ChildProcess(["bash", "-c", text]), **{"timeout_s": 20, **settings})  # type: ignore[arg-type]


def run_all(*tasks: Task, limit: int = 20) -> list[Finished]:
    return run_batch(Batch(len(tasks), lambda number, before: None if before else tasks[number], limit))


def ends(pid: int) -> bool:
    """Whether a process is gone, or goes within a few seconds."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 5)[0])
    finally:
        os.close(fd)


def open_files() -> set[str]:
    """What this process holds open: each pipe and process by its own name."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{link.name} {link.readlink()}")
    return {name for name in found if "pipe:" in name or "pidfd" in name}


class Pretended:
    """Something that ends when it is looked at for the second time."""

    exit_fd = None
    alive = 0
    most = 0

    def __init__(self) -> None:
        self.pipes = Pipes()
        self.looks = 0
        Pretended.alive += 1
        Pretended.most = max(Pretended.most, Pretended.alive)

    def ended(self) -> int | None:
        self.looks += 1
        if self.looks < 2:
            return None
        Pretended.alive -= 1
        return 0

    def kill(self) -> None:
        pass


def test_results_come_in_the_given_order() -> None:
    ended = run_all(bash("read -r x; echo $x", stdin=b"one\n"), bash("echo two; echo err >&2; exit 3"))
    assert [(each.returncode, each.stdout, each.stderr) for each in ended] == [(0, "one\n", ""), (3, "two\n", "err\n")]


def test_nothing_to_run_is_nothing() -> None:
    assert run_all() == []


def test_no_more_run_at_once_than_allowed_and_no_fewer() -> None:
    Pretended.alive = Pretended.most = 0
    ended = run_all(*[Task(Pretended) for _ in range(7)], limit=3)
    assert ([each.returncode for each in ended], Pretended.most) == ([0] * 7, 3)


def test_one_that_hangs_delays_no_other(tmp_path: Path) -> None:
    order: list[str] = []
    hangs = bash("exec sleep 300", timeout_s=0.5, on_line=order.append)
    ended = run_all(hangs, *[bash("echo done", on_line=order.append) for _ in range(3)], limit=2)
    assert [each.timed_out for each in ended] == [True, False, False, False]
    assert order == ["done"] * 3


def test_what_cannot_be_started_is_told_and_others_run() -> None:
    missing = Task(lambda: ChildProcess(["/no/such/program"]))
    ended = run_all(missing, bash("echo fine"))
    assert isinstance(ended[0].error, FileNotFoundError)
    assert (ended[1].stdout, ended[1].error) == ("fine\n", None)


def test_what_is_planned_after_an_end_runs_in_its_place() -> None:
    def plan(number: int, before: Finished | None) -> Task | None:
        if before is None:
            return bash("exit 9")
        return bash("echo again") if before.returncode == 9 else None

    assert [each.stdout for each in run_batch(Batch(2, plan, limit=1))] == ["again\n", "again\n"]


def test_what_is_not_planned_is_not_run() -> None:
    assert run_batch(Batch(1, lambda _number, _before: None, limit=1)) == [NOT_RUN]


def test_in_one_lane_the_next_begins_after_the_opening_of_the_one_before(tmp_path: Path) -> None:
    nap = "read -r -t 0.05 _ <> <(:) || :"
    first = bash(f"{nap}; touch {tmp_path}/late; echo OPEN; until test -e {tmp_path}/second; do {nap}; done", opening=Opening("OPEN", 20))
    second = bash(f"test -e {tmp_path}/late; found=$?; touch {tmp_path}/second; echo OPEN; echo $found", opening=Opening("OPEN", 20))
    tasks = (first, second)
    ended = run_batch(Batch(2, lambda number, before: None if before else tasks[number], limit=2, lane=lambda _number: "lane"))
    assert (ended[0].returncode, ended[1].stdout) == (0, "0\n")


def test_what_is_printed_before_the_opening_is_dropped() -> None:
    (ended,) = run_all(bash("echo noise OPEN; echo; echo OPEN; echo kept", opening=Opening("OPEN", 20)))
    assert (ended.stdout, ended.opened) == ("kept\n", True)


def test_the_rest_is_sent_only_after_the_opening() -> None:
    text = 'read -r first; if read -r -t 0; then echo early; fi; echo OPEN; read -r second; echo "$first $second"'
    (ended,) = run_all(bash(text, stdin=b"one\n", rest=b"two\n", opening=Opening("OPEN", 20)))
    assert ended.stdout == "one two\n"


def test_an_opening_that_does_not_come_ends_the_program() -> None:
    (ended,) = run_all(bash("exec sleep 300", opening=Opening("OPEN", 0.2)))
    assert (ended.timed_out, ended.opened) == (True, False)


class Answering(Pretended):
    """Something that answers at once, and ends after a while."""

    def __init__(self) -> None:
        super().__init__()
        os.write(self.pipes.far[1], b"answer\nmore")
        self.begun = time.monotonic()

    def ended(self) -> int | None:
        return 0 if time.monotonic() - self.begun > 0.15 else None


def test_whoever_answers_without_the_opening_line_is_heard_to_the_end() -> None:
    lines: list[str] = []
    kept, streamed = run_all(
        Task(Answering, opening=Opening("OPEN", 0.1)), Task(Answering, opening=Opening("OPEN", 0.1), on_line=lines.append)
    )
    assert (kept.stdout, kept.opened, kept.timed_out) == ("answer\nmore", False, False)
    assert (lines, streamed.stdout) == (["answer", "more"], "")


def test_a_refused_opening_closes_stdin() -> None:
    text = "echo 'Sorry, try again.' >&2; read -r _; test $? -ne 0 && exit 7"
    (ended,) = run_all(bash(text, rest=b"never\n", opening=Opening("OPEN", 20, refusal="try again")))
    assert (ended.returncode, ended.stderr) == (7, "Sorry, try again.\n")


def test_lines_come_whole_and_the_last_needs_no_line_end() -> None:
    lines: list[str] = []
    (ended,) = run_all(bash("printf 'a'; printf 'b\\n\\nl\\xc3\\xa4st'", on_line=lines.append))
    assert (lines, ended.stdout) == (["ab", "", "läst"], "")


def test_large_input_and_output_pass_through() -> None:
    data = b"x" * 3_000_000
    (ended,) = run_all(bash("cat; cat <&- 2>/dev/null; head -c 100000 /dev/zero >&2", stdin=data))
    assert (len(ended.stdout), len(ended.stderr)) == (len(data), 100_000)


def test_a_program_that_reads_nothing_is_no_error() -> None:
    (ended,) = run_all(bash("exec <&-; echo ok", stdin=b"x" * 1_000_000))
    assert (ended.returncode, ended.stdout) == (0, "ok\n")


def test_what_a_program_leaves_running_is_not_waited_for() -> None:
    started = time.monotonic()
    (ended,) = run_all(bash("sleep 30 & echo $!"))
    os.kill(int(ended.stdout), 9)
    assert time.monotonic() - started < 20 * slowness()


def test_stop_ends_what_runs_and_begins_nothing_new(tmp_path: Path) -> None:
    stop = threading.Event()

    def plan(number: int, before: Finished | None) -> Task | None:
        text = f"touch {tmp_path}/{number}; echo up; exec sleep 300"
        return None if before else bash(text, on_line=lambda _line: stop.set(), timeout_s=None)

    ended = run_batch(Batch(2, plan, limit=1, stop=stop))
    assert [(each.returncode, each.timed_out) for each in ended] == [(-9, False), (-9, False)]
    assert [(tmp_path / name).exists() for name in "01"] == [True, False]


def test_leaving_early_kills_everything(tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    waits = bash("exec sleep 300")
    speaks = bash(f"exec sleep 300 & echo $! >{tmp_path}/pid; echo up; wait", on_line=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(waits, speaks)
    assert ends(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("end", ["exit 0", "exec sleep 300", "exec >&- 2>&-; exit 1"])
def test_no_file_descriptor_is_left_open(end: str) -> None:
    before = open_files()
    run_all(*[bash(end, timeout_s=0.2) for _ in range(5)], Task(lambda: ChildProcess(["/no/such/program"])))
    assert open_files() - before == set()


def test_pipes_are_closed_once() -> None:
    pipes = Pipes()
    pipes.close(pipes.stdin)
    pipes.close(pipes.stdin)
    assert not pipes.is_open(pipes.stdin)
    assert pipes.is_open(pipes.stdout)
    pipes.close()
    assert not pipes.is_open(pipes.stdout)


def test_many_programs_one_after_the_other_keep_apart() -> None:
    def echo(number: int) -> Callable[[], ChildProcess]:
        return lambda: ChildProcess(["bash", "-c", f"echo {number}; echo e{number} >&2; exit {number % 7}"])

    ended = run_all(*[Task(echo(number), timeout_s=20) for number in range(60)], limit=7)
    assert [(each.stdout, each.stderr, each.returncode) for each in ended] == [(f"{n}\n", f"e{n}\n", n % 7) for n in range(60)]
