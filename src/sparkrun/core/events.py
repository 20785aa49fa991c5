"""What a long operation tells about itself while it runs. ``sparkrun.api`` never prints: it emits these, and a caller renders them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sparkrun.core.remote import ScriptCall


class Phase(msgspec.Struct, frozen=True, tag=True):
    """One of the numbered phases of a launch begins; ``skipped`` says why nothing is done in it."""

    number: int
    total: int
    title: str
    skipped: str | None = None


class Step(msgspec.Struct, frozen=True, tag=True):
    """A numbered step inside the current phase begins."""

    number: int
    total: int
    title: str


class Bytes(msgspec.Struct, frozen=True, tag=True):
    """How much of the current step's data has gone out. ``total`` is ``None`` where nobody knows it."""

    title: str
    done: int
    total: int | None
    seconds: float


class Done(msgspec.Struct, frozen=True, tag=True):
    """The current phase ended after ``seconds``."""

    seconds: float


class Detail(msgspec.Struct, frozen=True, tag=True):
    """Something worth a line only for those who ask (``-v``)."""

    text: str


class Script(msgspec.Struct, frozen=True, tag=True):
    """A script is sent to a host (``-vvv``); secrets are masked."""

    host: str
    call: ScriptCall


class Note(msgspec.Struct, frozen=True, tag=True):
    """A decision the user should know of."""

    text: str


class Warn(msgspec.Struct, frozen=True, tag=True):
    """Something is probably not what the user wants; the operation goes on."""

    text: str


class EngineLine(msgspec.Struct, frozen=True, tag=True):
    """A line of the engine's own log."""

    text: str


Event = Phase | Step | Bytes | Done | Detail | Script | Note | Warn | EngineLine
EventSink = Callable[[Event], None]


def ignore_events(_event: Event) -> None:
    """The sink of a caller who does not want to know."""
