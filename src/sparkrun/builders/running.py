"""Doing what builders planned: their scripts at work, the log kept in memory, and what a failure looked like."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sparkrun.builders.base import BuilderPlugin
from sparkrun.core.errors import BuildFailedError, HostUnreachableError, SparkrunError
from sparkrun.core.events import Detail, EventSink, Note, Step, Warn
from sparkrun.core.paths import Paths
from sparkrun.core.pending_ops import telling
from sparkrun.core.plan import Build, HostAction
from sparkrun.core.remote import HostRunner, RemoteResult
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.streams import Stream, stream_all
from sparkrun.utils.files import write_atomic
from sparkrun.utils.shell import parse_answers
from sparkrun.utils.text import quoted_lines

KEPT_LINES = 20_000
"""Lines of a build that are kept in memory; a build of an hour prints about five thousand."""
SHOWN_LINES = 20
"""The last ones, which an error shows."""


def run_builds(builds: Sequence[Build], builder: BuilderPlugin, runner: HostRunner, emit: EventSink, paths: Paths) -> None:
    """Do all of it, one after the other. Raises ``BuildFailedError`` with the stage that failed and the last lines of its log."""
    for number, build in enumerate(builds, start=1):
        emit(Step(number, len(builds), build.title))
        logs = {action.host: _BuildLog(action, builder, emit) for action in build.actions}
        streams = [Stream(action.host, action.call, logs[action.host].hear) for action in build.actions]
        try:
            with telling("image_pull", paths, image=build.image, hosts=build.hosts):
                results = stream_all(streams, runner, timeout_s=None)
        finally:
            if build.save_log:
                _save(build, logs.values(), paths.cache_dir, emit)
        failed = [(logs[result.host], result) for result in results if not result.ok]
        if failed:
            raise _failure(build, failed, builder)


class _BuildLog:
    """What a build on one host says."""

    def __init__(self, action: HostAction, builder: BuilderPlugin, emit: EventSink) -> None:
        self._builder, self._emit = builder, emit
        self.host = action.host
        self.stage = builder.stages[0] if builder.stages else ""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.answers: list[str] = []
        self._told: set[str] = set()

    def hear(self, text: str) -> None:
        """A line of the script."""
        key, _equals, _value = text.partition("=")
        if key == "LINE":
            self._take(parse_answers(text).text("LINE") or "")
        elif key == "STAGE":
            self._enter(parse_answers(text).text("STAGE") or "")
        elif key == "LAYERS":
            self._emit(Detail(f"{self.host}: {text.partition('=')[2]} layers"))
        else:
            self.answers.append(text)
            if key == "WAITING":
                self._emit(Note(f"another build is at work on {self.host}: waiting for it"))

    def of(self, result: RemoteResult) -> RemoteResult:
        """The end of the script with what it answered."""
        return msgspec.structs.replace(result, stdout="\n".join(self.answers))

    def _take(self, line: str) -> None:
        self.lines.append(line)
        if stage := self._builder.stage_of(line):
            self._enter(stage)
        self._emit(Detail(f"{self.host}: {line}"))

    def _enter(self, stage: str) -> None:
        """Each stage is told once: wheels may be downloaded again and again."""
        self.stage = stage
        stages = self._builder.stages
        if stage not in self._told and stage in stages:
            self._told.add(stage)
            self._emit(Note(f"{self.host}: {stage} ({stages.index(stage) + 1}/{len(stages)})"))


def _failure(build: Build, failed: Sequence[tuple[_BuildLog, RemoteResult]], builder: BuilderPlugin) -> SparkrunError:
    """The error of the host that says most; the others are named with it."""
    (log, first), *others = sorted(failed, key=lambda pair: pair[1].unreachable)
    told, hint = failure_text(log.of(first)), failure_hint(log.of(first))
    rest = "".join(f"\n  {other.host}: {failure_text(other.of(result))}" for other, result in others)
    if first.unreachable:
        return HostUnreachableError(f"cannot make {build.image}: {log.host}: {told}{rest}", hint=hint)
    tail = list(log.lines)[-SHOWN_LINES:]
    where = f" in the stage '{log.stage}'" if log.stage in builder.stages and log.lines else ""
    shown = quoted_lines(tail)
    message = f"cannot make {build.image} on {log.host}: it failed{where}: {told}{rest}{shown}"
    return BuildFailedError(message, hint=hint or builder.way_out(log.stage, "\n".join((*tail, told))))


def _save(build: Build, logs: Iterable[_BuildLog], cache_dir: Path, emit: EventSink) -> None:
    """One file a host. That it cannot be written ends no build."""
    for log in logs:
        moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = re.sub(r"[^\w.-]+", "_", f"{build.image}-{log.host}-{moment}", flags=re.ASCII)
        path = cache_dir / f"{build.builder}-builds" / f"{name}.log"
        try:
            write_atomic(path, "".join(f"{line}\n" for line in log.lines))
        except OSError as error:
            emit(Warn(f"cannot write the log of the build to {path}: {error.strerror}"))
        else:
            emit(Note(f"log of the build: {path}"))
