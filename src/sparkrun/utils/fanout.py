"""Many programs at once, in one thread: none outlives its deadline or the caller's Ctrl-C, and none waits for a slower one."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from threading import Event

CHUNK_BYTES = 65536
DRAIN_CHUNKS = 64
STOP_TICK_S = 0.05
"""How often to look for ``stop``: an event wakes nobody who waits for pipes."""
LOOK_UP_S = 0.5
"""How long to wait at a stretch, so that Ctrl-C is seen that came just before a wait began, or to another thread."""
EXIT_TICK_S = 0.01
"""How often to look for the end of a process on systems without pidfd."""
KILLED = -9
_FOREVER = float("inf")
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class Finished(NamedTuple):
    """How a program ended. ``timed_out``: it was killed at a deadline; ``opened``: its opening came; ``error``: it could not be started."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    opened: bool = True
    error: OSError | None = None


NOT_RUN = Finished(KILLED, "", "", opened=False)


class Running(Protocol):
    """Something that runs behind three pipes."""

    @property
    def pipes(self) -> Pipes:
        """Our ends."""
        ...

    @property
    def exit_fd(self) -> int | None:
        """Becomes readable when ``ended`` may have changed; ``None`` where there is no such thing."""
        ...

    def ended(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        ...

    def kill(self) -> None:
        """End it, and all it started, now. Harmless when it has ended."""
        ...


class Opening(NamedTuple):
    """A line that the program has to print before it counts as begun. What it printed before that line is dropped.

    The program is killed when it has printed nothing at all after ``timeout_s``. ``refusal`` is a text on stderr that says that the line
    will not come: the program's stdin is closed then.
    """

    line: str
    timeout_s: float
    refusal: str = ""


class Task(NamedTuple):
    """A program to run. ``stdin`` is sent at once, ``rest`` only after the opening.

    With ``on_line`` each line of stdout is handed on as it comes, and none is kept. ``keep_stdin`` leaves stdin open until the end: a
    script on the far side of ssh learns from its end that nobody listens any more.
    """

    start: Callable[[], Running]
    stdin: bytes = b""
    rest: bytes = b""
    timeout_s: float | None = None
    opening: Opening | None = None
    on_line: Callable[[str], None] | None = None
    keep_stdin: bool = False


class Batch(NamedTuple):
    """``size`` programs, at most ``limit`` at the same time.

    ``plan`` gives the task of a number when its turn comes (``None``: it is not run), and what to try after an attempt has ended
    (``None``: that was it). Of the numbers with the same ``lane`` one begins after the other's opening.
    """

    size: int
    plan: Callable[[int, Finished | None], Task | None]
    limit: int
    lane: Callable[[int], str | None] = lambda _number: None
    stop: Event | None = None


def run_batch(batch: Batch) -> list[Finished]:
    """Run all of it in this thread and return how each ended, in order. Whatever ends this early kills every program that runs."""
    loop = _Loop(batch)
    try:
        return loop.run()
    finally:
        loop.kill_all()


class Pipes:
    """Three pipes to something that runs. Our ends do not block; ``far`` are the ends to hand over."""

    def __init__(self) -> None:
        far_in, self.stdin = os.pipe()
        self.stdout, far_out = os.pipe()
        self.stderr, far_err = os.pipe()
        self.far = (far_in, far_out, far_err)
        self._open = {self.stdin, self.stdout, self.stderr, *self.far}
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)

    def is_open(self, fd: int) -> bool:
        """Whether one of these ends is still ours: its number may be somebody else's by now."""
        return fd in self._open

    def close(self, *fds: int) -> None:
        """Close these ends, or all when none is named; twice is harmless."""
        for fd in fds or tuple(self._open):
            if fd in self._open:
                self._open.remove(fd)
                os.close(fd)


class _Live:
    """One program that runs: its pipes, what it said, and its deadlines."""

    def __init__(self, number: int, lane: str | None, task: Task) -> None:
        self.number, self.lane, self.task = number, lane, task
        begun = time.monotonic()
        self.running = task.start()
        self.exit_fd = self.running.exit_fd
        self.opened = task.opening is None
        self.out, self.err = bytearray(), bytearray()
        self.unsent = memoryview(task.stdin + (task.rest if self.opened else b""))
        self.silent = True
        self.timed_out = False
        self._deadline = begun + (_FOREVER if task.timeout_s is None else task.timeout_s)
        self._opening_deadline = begun + task.opening.timeout_s if task.opening else _FOREVER

    @property
    def deadline(self) -> float:
        """When to kill it, on the monotonic clock."""
        return min(self._deadline, self._opening_deadline) if self.silent and not self.opened else self._deadline

    def take_out(self, chunk: bytes) -> None:
        """Part of its stdout."""
        self.silent = False
        self.out += chunk
        if not self.opened:
            self._look_for_opening()
        if self.opened and self.task.on_line:
            self._hand_on(self.task.on_line)

    def take_err(self, chunk: bytes) -> bool:
        """Part of its stderr; whether that refuses the opening."""
        self.err += chunk
        refusal = self.task.opening.refusal.encode() if self.task.opening else b""
        return bool(refusal) and not self.opened and refusal in self.err

    def finished(self, returncode: int) -> Finished:
        """How it ended. A program that never printed its opening may still have answered: its lines count then."""
        if self.task.on_line and self.out:
            self.out += b"" if self.out.endswith(b"\n") else b"\n"
            self._hand_on(self.task.on_line)
        return Finished(returncode, _text(self.out), _text(self.err), self.timed_out, self.opened)

    def _look_for_opening(self) -> None:
        assert self.task.opening is not None
        line = self.task.opening.line.encode() + b"\n"
        at = 0 if self.out.startswith(line) else self.out.find(b"\n" + line) + 1
        if at or self.out.startswith(line):
            del self.out[: at + len(line)]
            self.opened = True
            self.unsent = memoryview(bytes(self.unsent) + self.task.rest)

    def _hand_on(self, on_line: Callable[[str], None]) -> None:
        *lines, rest = self.out.split(b"\n")
        self.out = bytearray(rest)
        for line in lines:
            on_line(_text(line))


class _Loop:
    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._waiting: list[int] = list(range(batch.size))
        self._results: dict[int, Finished] = {}
        self._live: list[_Live] = []
        self._maybe_ended: list[_Live] = []
        self._handlers: dict[int, Callable[[], object]] = {}
        self._poll = select.poll()

    def run(self) -> list[Finished]:
        """Until everything has ended."""
        while self._fill() or self._live:
            for fd, _events in self._poll.poll(self._wait_ms()):
                if handler := self._handlers.get(fd):  # the one before may have closed it
                    handler()
            self._settle()
        return [self._results[number] for number in range(self._batch.size)]

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for live in self._live:
            live.running.kill()
            live.running.pipes.close()

    def _fill(self) -> bool:
        """Begin what may begin now; whether anything is left to begin."""
        for number in tuple(self._waiting):
            if len(self._live) >= self._batch.limit:
                break
            lane = self._batch.lane(number)
            if lane is None or not any(live.lane == lane and not live.opened for live in self._live):
                self._waiting.remove(number)
                self._begin(number, lane, self._batch.plan(number, None))
        return bool(self._waiting)

    def _begin(self, number: int, lane: str | None, task: Task | None) -> None:
        """Start a task; one that cannot be started has ended, and may have something to follow it."""
        if task is None:
            self._results.setdefault(number, NOT_RUN)
        while task is not None:
            try:
                live = _Live(number, lane, task)
            except OSError as error:
                self._results[number] = Finished(-1, "", "", opened=False, error=error)
                task = self._batch.plan(number, self._results[number])
            else:
                self._live.append(live)
                self._attach(live)
                return

    def _attach(self, live: _Live) -> None:
        pipes = live.running.pipes
        self._handle(pipes.stdout, _READABLE, lambda: self._read_out(live))
        self._handle(pipes.stderr, _READABLE, lambda: self._read_err(live))
        self._write(live)
        if live.exit_fd is not None:
            self._handle(live.exit_fd, _READABLE, lambda: self._maybe_ended.append(live))

    def _handle(self, fd: int, events: int, handler: Callable[[], object]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def _close(self, live: _Live, fd: int) -> None:
        if live.running.pipes.is_open(fd):
            self._forget(fd)
            live.running.pipes.close(fd)

    def _forget(self, fd: int | None) -> None:
        if fd in self._handlers:
            del self._handlers[fd]
            self._poll.unregister(fd)

    def _read_out(self, live: _Live) -> bool:
        opened = live.opened
        if chunk := self._read(live, live.running.pipes.stdout):
            live.take_out(chunk)
        if live.opened is not opened:
            self._write(live)
        return bool(chunk)

    def _read_err(self, live: _Live) -> bool:
        chunk = self._read(live, live.running.pipes.stderr)
        if chunk and live.take_err(chunk):
            self._close(live, live.running.pipes.stdin)
        return bool(chunk)

    def _read(self, live: _Live, fd: int) -> bytes:
        """What can be read now; the end of the stream closes our end."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not chunk:
            self._close(live, fd)
        return chunk

    def _write(self, live: _Live) -> None:
        fd = live.running.pipes.stdin
        if not live.running.pipes.is_open(fd):
            return
        try:
            while live.unsent:
                live.unsent = live.unsent[os.write(fd, live.unsent) :]
        except BlockingIOError:
            self._handle(fd, select.POLLOUT, lambda: self._write(live))
            return
        except BrokenPipeError:  # nobody reads it any more: its exit code tells why
            self._close(live, fd)
            return
        self._forget(fd)
        if (live.opened or not live.task.rest) and not live.task.keep_stdin:
            self._close(live, fd)

    def _settle(self) -> None:
        """Take leave of what has ended, and end what is late."""
        now = time.monotonic()
        stopped = self._batch.stop is not None and self._batch.stop.is_set()
        for live in tuple(self._live):
            if live.exit_fd is None or live in self._maybe_ended:
                self._end(live, live.running.ended())
            if live in self._live and (stopped or now >= live.deadline):
                live.timed_out = not stopped
                self._end(live, KILLED)
        self._maybe_ended.clear()
        if stopped:
            self._skip_waiting()

    def _skip_waiting(self) -> None:
        for number in self._waiting:
            self._results[number] = NOT_RUN
        self._waiting.clear()

    def _end(self, live: _Live, returncode: int | None) -> None:
        if returncode is None:
            return
        pipes = live.running.pipes
        self._forget(live.exit_fd)
        live.running.kill()
        for fd, read in ((pipes.stdout, self._read_out), (pipes.stderr, self._read_err)):
            self._drain(live, fd, read)
        for fd in (pipes.stdin, pipes.stdout, pipes.stderr):
            self._close(live, fd)
        self._live.remove(live)
        finished = live.finished(returncode)
        self._results[live.number] = finished
        self._begin(live.number, live.lane, self._batch.plan(live.number, finished))

    def _drain(self, live: _Live, fd: int, read: Callable[[_Live], bool]) -> None:
        """Take what a pipe still holds. Something that the program left behind may go on writing: that is not waited for."""
        for _chunk in range(DRAIN_CHUNKS):
            if not live.running.pipes.is_open(fd) or not read(live):
                return

    def _wait_ms(self) -> float:
        waits = [live.deadline for live in self._live]
        wait_s = min(LOOK_UP_S, max(0.0, min(waits, default=_FOREVER) - time.monotonic()))
        if any(live.exit_fd is None for live in self._live):
            wait_s = min(wait_s, EXIT_TICK_S)
        elif self._batch.stop is not None:
            wait_s = min(wait_s, STOP_TICK_S)
        return wait_s * 1000 + 1


def _text(raw: bytes | bytearray) -> str:
    return raw.decode("utf-8", "replace")
