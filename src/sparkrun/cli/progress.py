"""Events as lines on stderr: plain everywhere, coloured and alive on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from datetime import datetime

import click

from sparkrun.core.events import Bytes, Detail, Done, EngineLine, Event, EventSink, Note, Phase, Script, Step, Warn
from sparkrun.utils.text import size_text

_LEVELS: dict[type, tuple[int, str]] = {
    Warn: (-1, "WARNING"),
    Phase: (0, "PROGRESS"),
    Step: (0, "PROGRESS"),
    Bytes: (0, "PROGRESS"),
    Done: (0, "PROGRESS"),
    Note: (0, "PROGRESS"),
    Detail: (1, "INFO"),
    Script: (3, "DEBUG"),
}


def progress_sink(verbosity: int) -> EventSink:
    """A sink for ``verbosity`` (see ``CliState``). Events may come from several threads.

    A reader that has gone (``| head``, a closed terminal) ends nothing of what is told.
    """
    lock = threading.Lock()

    def emit(event: Event) -> None:
        with lock, contextlib.suppress(OSError):
            if isinstance(event, EngineLine):
                click.echo(event.text)
            elif (line := _line(event, verbosity)) is not None:
                click.echo(line, err=True)

    return emit


def colour_wanted() -> bool:
    """Colours on a terminal only, and never against ``NO_COLOR``."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _line(event: Event, verbosity: int) -> str | None:
    level, name = _LEVELS[type(event)]
    if level > verbosity:
        return None
    text = _text(event)
    if verbosity < 2:
        return text
    return f"{datetime.now().astimezone():%H:%M:%S} [{name}] sparkrun: {text}"


def _text(event: Event) -> str:
    match event:
        case Phase(number, total, title, skipped):
            tail = f" — skipped ({skipped})" if skipped else ""
            return _bold(f"[{number}/{total}] {title}") + tail
        case Step(number, total, title):
            return f"  Step {number}/{total}: {title}"
        case Bytes(title, done, total, seconds):
            return f"    {title}: {_bytes_text(done, total, seconds)}"
        case Done(seconds):
            return f"  done ({seconds:.1f}s)"
        case Note(text):
            return f"Note: {text}"
        case Warn(text):
            return (click.style("warning:", fg="yellow") if colour_wanted() else "warning:") + f" {text}"
        case Script(host, call):
            from sparkrun.scripts import compose_scripts  # only for -vvv

            name = ", ".join(part.name for part in call.chain)
            text = compose_scripts([(part.name, {**part.params, **part.secrets}) for part in call.chain])
            return f"--- {name} on {host}\n{text}--- end of {name}"
        case Detail(text) | EngineLine(text):
            return text


def _bytes_text(done: int, total: int | None, seconds: float) -> str:
    """How far it is, how fast, and how long it takes yet. A total is that of the files, the stream may be a little more."""
    rate = done / seconds if seconds > 0 else 0
    speed = f"{size_text(round(rate))}/s"
    if total is None or done > total or not rate:
        return f"{size_text(done)}, {speed}"
    return f"{size_text(done)} of {size_text(total)}, {speed}, {(total - done) / rate:.0f} s left"


def _bold(text: str) -> str:
    return click.style(text, bold=True) if colour_wanted() else text
