"""Child processes that never outlive their deadline or their caller."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from sparkrun.utils.fanout import Batch, Finished, Pipes, Task, run_batch

__all__ = ["ChildProcess", "Finished", "kill_group", "run_process", "stream_process"]

REAP_TIMEOUT_S = 2
"""How long to wait for a killed process: one in an uninterruptible call of the kernel is left to it."""


class ChildProcess:
    """A process in a session of its own, so that a Ctrl-C reaches only the caller. Raises ``OSError`` when it cannot start."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.pipes = Pipes()
        stdin, stdout, stderr = self.pipes.far
        try:
            self._process = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=stderr, env=env, start_new_session=True)
        except BaseException:
            self.pipes.close()
            raise
        self.pipes.close(*self.pipes.far)
        self.exit_fd = _pidfd(self._process.pid)

    def ended(self) -> int | None:
        """Its exit code, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill it and all it started that stayed in its session, and reap it."""
        kill_group(self._process)
        if self.exit_fd is not None:
            os.close(self.exit_fd)
            self.exit_fd = None


def run_process(words: Sequence[str], *, stdin: str, timeout_s: float) -> Finished:
    """Run to the end. Raises ``OSError`` when it cannot start."""
    return _run(Task(lambda: ChildProcess(words), stdin=_bytes(stdin), timeout_s=timeout_s))


def stream_process(
    words: Sequence[str],
    *,
    stdin: str,
    on_line: Callable[[str], None],
    timeout_s: float | None,
    stop: Event | None = None,
) -> Finished:
    """Run and hand on each line of stdout as it comes. ``stop``, the deadline, or leaving by an exception ends the process.

    Its stdin stays open after ``stdin`` was written: a script on the far side of ssh learns from its end that nobody listens any more.
    """
    task = Task(lambda: ChildProcess(words), stdin=_bytes(stdin), timeout_s=timeout_s, on_line=on_line, keep_stdin=True)
    return _run(task, stop)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all it started, and reap it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP_TIMEOUT_S)


def _run(task: Task, stop: Event | None = None) -> Finished:
    finished = run_batch(Batch(1, lambda _number, before: None if before else task, limit=1, stop=stop))[0]
    if finished.error:
        raise finished.error
    return finished


def _pidfd(pid: int) -> int | None:
    """A file descriptor that becomes readable when the process ends (pidfd_open(2)), where the system has that."""
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
