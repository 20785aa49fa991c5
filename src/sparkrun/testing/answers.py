"""How fakes write what scripts print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sparkrun.core.remote import ScriptCall

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]


def lines(answers: Pairs) -> str:
    """``KEY=value`` lines. Pairs may repeat a key."""
    pairs = answers.items() if isinstance(answers, Mapping) else answers
    return "".join(f"{key}={value}\n" for key, value in pairs)


def section(name: str, answers: Pairs) -> str:
    """The same between markers."""
    return f"SPARKRUN_{name}_START\n{lines(answers)}SPARKRUN_{name}_END\n"


def change_pins(call: ScriptCall, pins: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pin and unpin what a change of a cache asks for, and say so."""
    if pinned := str(call.params.get("PIN") or ""):
        pins[pinned] = str(call.params["NOTE"])
        yield "PINNED", "1"
    if unpinned := str(call.params.get("UNPIN") or ""):
        yield "UNPINNED", "0" if pins.pop(unpinned, None) is None else "1"
