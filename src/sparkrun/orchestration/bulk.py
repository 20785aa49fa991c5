"""One stream of bytes of this machine into scripts on many hosts: read once, written to all, counted on the way."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import IO, NamedTuple

from sparkrun.utils.proc import kill_group

CHUNK_BYTES = 1024 * 1024
LOOK_UP_S = 0.5
"""How often to see whether it is to stop."""
FINISH_S = 1800.0
"""What a host may take to put away what it has got, when there is no more to come."""


class Sink(NamedTuple):
    """What takes the stream: a program, and what it is sent before the first byte."""

    words: tuple[str, ...]
    opening: bytes


class Patience(NamedTuple):
    """How long nothing may move, and what ends the waiting at once."""

    idle_s: float
    stop: Event

    def ready(self, *, read: int | None = None, write: int | None = None) -> bool:
        """Whether a file becomes ready in time."""
        deadline = time.monotonic() + self.idle_s
        while not self.stop.is_set() and (left_s := deadline - time.monotonic()) > 0:
            found = select.select([] if read is None else [read], [] if write is None else [write], [], min(left_s, LOOK_UP_S))
            if found[0] or found[1]:
                return True
        return False


class Poured(NamedTuple):
    """How a sink ended. ``idle``: it took nothing for too long. ``feed_error``: why the stream itself did not come to its end."""

    returncode: int
    stdout: str = ""
    stderr: str = ""
    idle: bool = False
    feed_error: str = ""


def pour(
    feed: Sequence[str], sinks: Sequence[Sink], on_bytes: Callable[[int], None], *, idle_s: float, stop: Event | None = None
) -> tuple[Poured, ...]:
    """Run ``feed`` and write what it prints to every sink; results in the given order. Whatever ends this early, such as ``stop``, ends
    all programs."""
    stop = stop or Event()
    with tempfile.TemporaryFile() as said:
        try:
            source = subprocess.Popen(feed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
        except OSError as error:
            return tuple(Poured(-1, feed_error=f"cannot start {feed[0]}: {error.strerror}") for _ in sinks)
        opened: list[_Open] = []
        try:
            opened.extend(_Open(sink) for sink in sinks)
            why = _copy(source, opened, on_bytes, Patience(idle_s, stop)) or _failure(source, opened, said, stop)
            return tuple(Poured(-1, feed_error=f"{feed[0]}: {why}") for _ in sinks) if why else _ended(opened, stop)
        finally:
            kill_group(source)
            for sink in opened:
                sink.end()
            if source.stdout:
                source.stdout.close()


class _Open:
    """A sink at work."""

    def __init__(self, sink: Sink) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed in end
        self.error = ""
        self.idle = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                sink.words, stdin=subprocess.PIPE, stdout=self._out, stderr=self._err, start_new_session=True, bufsize=0
            )
        except OSError as error:
            self.error = f"cannot start {sink.words[0]}: {error.strerror}"
        self.takes = self._process is not None
        self._begun = sink.opening

    def write(self, chunk: bytes, patience: Patience) -> None:
        """All of it, unless the other side is gone or takes nothing for too long."""
        assert self._process is not None
        assert self._process.stdin is not None
        unsent, self._begun = memoryview(self._begun + chunk), b""
        fd = self._process.stdin.fileno()
        os.set_blocking(fd, False)
        while unsent:
            if not patience.ready(write=fd):
                self.idle, self.takes = True, False
                return kill_group(self._process)
            try:
                unsent = unsent[os.write(fd, unsent) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:  # its exit code tells why
                self.takes = False
                return None
        return None

    def close(self) -> None:
        """There is no more to come."""
        if self._process and self._process.stdin:
            self._process.stdin.close()

    def result(self, deadline: float, stop: Event) -> Poured:
        """How it ended, at the latest at ``deadline``."""
        if self._process is None:
            return Poured(255, stderr=self.error)
        if not _ends(self._process, deadline, stop):
            self.idle = True
            kill_group(self._process)
        return Poured(self._process.returncode or 0, _text(self._out), _text(self._err), self.idle)

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process:
            kill_group(self._process)
            self.close()
        self._out.close()
        self._err.close()


def _ends(process: subprocess.Popen[bytes], deadline: float, stop: Event) -> bool:
    """Whether a program ends by itself before ``deadline`` and ``stop``."""
    while not stop.is_set() and (left_s := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(left_s, LOOK_UP_S))
            return True
    return False


def _copy(source: subprocess.Popen[bytes], sinks: Sequence[_Open], on_bytes: Callable[[int], None], patience: Patience) -> str:
    """Until the stream ends, or nobody takes any more of it. Why it was given up before that; empty when it was not."""
    assert source.stdout is not None
    fd, done = source.stdout.fileno(), 0
    for sink in sinks:
        if sink.takes:
            sink.write(b"", patience)
    while any(sink.takes for sink in sinks):
        if not patience.ready(read=fd):
            return "it was stopped" if patience.stop.is_set() else f"nothing came of it for {patience.idle_s:g} s"
        chunk = os.read(fd, CHUNK_BYTES)
        if not chunk:
            break
        for sink in sinks:
            if sink.takes:
                sink.write(chunk, patience)
        done += len(chunk)
        on_bytes(done)
    return ""


def _failure(source: subprocess.Popen[bytes], sinks: Sequence[_Open], said: IO[bytes], stop: Event) -> str:
    """Why a stream came to its own end but not to a good one, so that nobody has got all of it; empty when it did, or nobody wants it."""
    if not any(sink.takes for sink in sinks):
        return ""
    if not _ends(source, time.monotonic() + FINISH_S, stop):
        return "it does not end"
    lines = _text(said).split("\n") if source.returncode else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"ended with exit code {source.returncode}")
    return last if source.returncode else ""


def _ended(sinks: Sequence[_Open], stop: Event) -> tuple[Poured, ...]:
    """How every sink ended, when there is no more to come."""
    for sink in sinks:
        sink.close()
    deadline = time.monotonic() + FINISH_S
    return tuple(sink.result(deadline, stop) for sink in sinks)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
