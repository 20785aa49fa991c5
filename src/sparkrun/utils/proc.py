"""Child processes that never outlive their deadline or their caller."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Finished(NamedTuple):
    """How a child process ended. ``timed_out``: it was killed at its deadline."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


def run_process(words: Sequence[str], *, stdin: str, timeout_s: float) -> Finished:
    """Run to the end in a session of its own, so that a Ctrl-C reaches only the caller. Raises ``OSError`` when it cannot start."""
    process = _start(words)
    try:
        out, err = process.communicate(stdin, timeout=timeout_s)
        return Finished(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        kill_group(process)
        out, err = process.communicate()
        return Finished(-1, out, err, timed_out=True)
    except BaseException:
        kill_group(process)
        raise


def stream_process(
    words: Sequence[str],
    *,
    stdin: str,
    on_line: Callable[[str], None],
    timeout_s: float | None,
    stop: threading.Event | None = None,
) -> Finished:
    """Run and hand on each line of stdout as it comes. ``stop``, the deadline, or leaving by an exception ends the process.

    Its stdin stays open after ``stdin`` was written: a script on the far side of ssh learns from its end that nobody listens any more.
    """
    process = _start(words)
    assert process.stdin is not None
    assert process.stdout is not None
    errors: list[str] = []
    ended = threading.Event()
    late = threading.Event()
    helpers = [
        threading.Thread(target=_drain, args=(process.stderr, errors), daemon=True),
        threading.Thread(target=_kill_when, args=(process, ended, stop or ended, timeout_s, late), daemon=True),
    ]
    for helper in helpers:
        helper.start()
    try:
        _feed(process, stdin)
        for line in process.stdout:
            on_line(line.rstrip("\n"))
        process.wait()
    except BaseException:
        kill_group(process)
        raise
    finally:
        ended.set()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    helpers[0].join(timeout=1)
    return Finished(process.returncode, "", "".join(errors), timed_out=late.is_set())


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process and all it started, and reap it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _start(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _feed(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(text)
        process.stdin.flush()


def _kill_when(
    process: subprocess.Popen[str], ended: threading.Event, stop: threading.Event, timeout_s: float | None, late: threading.Event
) -> None:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while not ended.wait(0.05):
        if deadline is not None and time.monotonic() >= deadline:
            late.set()
        if late.is_set() or stop.is_set():
            kill_group(process)
            return


def _drain(stream: Iterable[str], into: list[str]) -> None:
    into.extend(stream)
