"""How the stand-in is told to behave: `BED_LOAD_S=2` in its environment, or `--bed-load-s=2` on its command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.e2e.bed.engine.arguments import EngineError


class Knobs(NamedTuple):
    """Times are seconds; one of -1 never comes."""

    load_s: float = 0.2
    """How long it loads before its port opens."""
    unhealthy_s: float = 0.0
    """How long it answers 503 once its port is open."""
    crash_after_s: float = -1.0
    """It ends that long after it began, whatever it is doing."""
    crash_ready_s: float = -1.0
    """It ends that long after its port opened."""
    silent_after_s: float = -1.0
    """That long after its port opened it takes requests and never answers."""
    hang: bool = False
    """It loads for ever."""
    ignore_term: bool = False
    """Only SIGKILL ends it."""
    code: int = 1
    """Exit code of a crash."""
    text: str = "RuntimeError: the stand-in engine was told to fail"
    """Its last words."""
    rank: int = -1
    """All of the above but ``load_s`` is for this rank only; -1 is every rank."""
    join_s: float = 30.0
    """How long ranks wait for each other."""
    log_lines: int = 0
    """How many lines it prints as it loads."""
    gpus: int = -1
    """How many accelerators it finds; -1: as many as there are."""
    any_flag: bool = False
    """It takes flags that the real engine does not know."""
    any_model: bool = False
    """It serves models that are not there."""


def take_knobs(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Knobs, list[str]]:
    """The knobs, and the command line without them. A name that is no knob is an error: a test
    that sets it would prove nothing."""
    told = {name.removeprefix("BED_").lower(): value for name, value in environ.items() if name.startswith("BED_")}
    rest = []
    for word in argv:
        if match := re.fullmatch(r"--bed-([a-z-]+)(?:=(.*))?", word, re.DOTALL):
            told[match[1].replace("-", "_")] = "1" if match[2] is None else match[2]
        else:
            rest.append(word)
    values: dict[str, Any] = {name: _value(name, text) for name, text in told.items()}
    return Knobs()._replace(**values), rest


def misbehaviour(knobs: Knobs, rank: int) -> Knobs:
    """What a rank does: only one may be meant."""
    if knobs.rank in {-1, rank}:
        return knobs
    return Knobs(load_s=knobs.load_s, join_s=knobs.join_s, log_lines=knobs.log_lines)


def _value(name: str, text: str) -> bool | float | int | str:
    default = Knobs._field_defaults.get(name)
    if default is None:
        raise EngineError(f"no knob '{name}': {', '.join(Knobs._fields)}")
    if isinstance(default, bool):
        return text not in {"", "0"}
    kind = type(default)
    try:
        return float(text) if kind is float else int(text) if kind is int else text
    except ValueError:
        raise EngineError(f"knob '{name}' is no number: {text}") from None
