"""One stream of bytes of this machine into scripts on many hosts: read once, written to all, counted on the way."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from sparkrun.utils.proc import kill_group

CHUNK_BYTES = 1024 * 1024
FINISH_S = 1800.0
"""What a host may take to put away what it has got, when there is no more to come."""


class Sink(NamedTuple):
    """What takes the stream: a program, and what it is sent before the first byte."""

    words: tuple[str, ...]
    opening: bytes


class Poured(NamedTuple):
    """How a sink ended. ``idle``: it took nothing for too long. ``feed_error``: why the stream itself did not come to its end."""

    returncode: int
    stdout: str = ""
    stderr: str = ""
    idle: bool = False
    feed_error: str = ""


def pour(feed: Sequence[str], sinks: Sequence[Sink], on_bytes: Callable[[int], None], *, idle_s: float) -> tuple[Poured, ...]:
    """Run ``feed`` and write what it prints to every sink; results in the given order. Whatever ends this early ends all programs."""
    with tempfile.TemporaryFile() as said:
        try:
            source = subprocess.Popen(feed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
        except OSError as error:
            return tuple(Poured(-1, feed_error=f"cannot start {feed[0]}: {error.strerror}") for _ in sinks)
        opened: list[_Open] = []
        try:
            opened.extend(_Open(sink) for sink in sinks)
            _copy(source, opened, on_bytes, idle_s)
            return _ended(source, opened, f"{' '.join(feed[:2])}: {{}}", said)
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

    def write(self, chunk: bytes, idle_s: float) -> None:
        """All of it, unless the other side is gone or takes nothing for ``idle_s``."""
        assert self._process is not None
        assert self._process.stdin is not None
        unsent, self._begun = memoryview(self._begun + chunk), b""
        fd = self._process.stdin.fileno()
        os.set_blocking(fd, False)
        while unsent:
            if not select.select([], [fd], [], idle_s)[1]:
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

    def result(self, deadline: float) -> Poured:
        """How it ended, at the latest at ``deadline``."""
        if self._process is None:
            return Poured(255, stderr=self.error)
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
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


def _copy(source: subprocess.Popen[bytes], sinks: Sequence[_Open], on_bytes: Callable[[int], None], idle_s: float) -> None:
    assert source.stdout is not None
    fd, done = source.stdout.fileno(), 0
    for sink in sinks:
        if sink.takes:
            sink.write(b"", idle_s)
    while any(sink.takes for sink in sinks):
        if not select.select([fd], [], [], idle_s)[0]:
            return kill_group(source)
        chunk = os.read(fd, CHUNK_BYTES)
        if not chunk:
            return None
        for sink in sinks:
            if sink.takes:
                sink.write(chunk, idle_s)
        done += len(chunk)
        on_bytes(done)
    return None


def _ended(source: subprocess.Popen[bytes], sinks: Sequence[_Open], complaint: str, said: IO[bytes]) -> tuple[Poured, ...]:
    """How every sink ended. When the stream came to its own end, but not to a good one, none has got all of it."""
    wanted = any(sink.takes for sink in sinks)
    if wanted and source.wait(FINISH_S):
        lines = _text(said).split("\n")
        reason = next((line.strip() for line in reversed(lines) if line.strip()), f"ended with exit code {source.returncode}")
        return tuple(Poured(-1, feed_error=complaint.format(reason)) for _ in sinks)
    for sink in sinks:
        sink.close()
    deadline = time.monotonic() + FINISH_S
    return tuple(sink.result(deadline) for sink in sinks)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
