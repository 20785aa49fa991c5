from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from sparkrun.utils.proc import run_process, stream_process
from tests.pace import slowness


def ends_within(pid: int, limit_s: float) -> bool:
    """A killed process is gone, or waits for its parent, as soon as the kernel next runs it."""
    deadline = time.monotonic() + limit_s
    while state_of(pid) not in ("gone", "Z", "X"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def test_output_errors_and_code_come_back() -> None:
    ended = run_process(["bash", "-s"], stdin="echo out; echo err >&2; exit 3", timeout_s=10)
    assert (ended.returncode, ended.stdout, ended.stderr, ended.timed_out) == (3, "out\n", "err\n", False)


def test_a_process_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    ended = run_process(["bash", "-s"], stdin=f"sleep 300 & echo $! >{tmp_path}/pid; wait", timeout_s=1)
    assert ended.timed_out
    assert ends_within(int((tmp_path / "pid").read_text()), 10)


def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_process(["no-such-program"], stdin="", timeout_s=1)


def test_lines_are_handed_on_while_it_runs() -> None:
    seen: list[tuple[str, bool]] = []
    gate_r, gate_w = os.pipe()
    os.set_inheritable(gate_r, True)
    script = f"echo one; read -r _ </proc/{os.getpid()}/fd/{gate_r}; echo two"

    def take(line: str) -> None:
        seen.append((line, True))
        if line == "one":
            os.write(gate_w, b"\n")

    ended = stream_process(["bash", "-c", script], stdin="", on_line=take, timeout_s=10)
    assert ([line for line, _ in seen], ended.returncode) == (["one", "two"], 0)


def test_stdin_stays_open_for_as_long_as_somebody_listens() -> None:
    ended = stream_process(
        ["bash", "-c", "read -r first; echo $first; read -t 0.2 -r second; echo $?"], stdin="hello\n", on_line=print, timeout_s=10
    )
    assert ended.returncode == 0


def test_a_stream_is_stopped_from_outside() -> None:
    stop = threading.Event()
    started = time.monotonic()
    ended = stream_process(["bash", "-c", "echo x; sleep 300"], stdin="", on_line=lambda _line: stop.set(), timeout_s=None, stop=stop)
    assert ended.returncode != 0
    assert time.monotonic() - started < 5 * slowness()


def test_a_stream_ends_at_its_deadline() -> None:
    ended = stream_process(["bash", "-c", "sleep 300"], stdin="", on_line=print, timeout_s=0.2)
    assert ended.timed_out
