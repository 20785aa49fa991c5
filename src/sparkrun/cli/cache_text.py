"""What the pages of models and of images have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sparkrun.api import Unreachable
from sparkrun.core.pins import Pin
from sparkrun.utils.text import counted, printable, size_text

NOTHING = "-"


def joined_blocks(blocks: Iterable[list[str]]) -> str:
    """With an empty line between blocks. Names come from repositories: none of them gets to steer the terminal."""
    return "\n\n".join("\n".join(printable(line) for line in block) for block in blocks if block)


def unknown_lines(hosts: Iterable[Unreachable]) -> list[str]:
    """Hosts that could not tell."""
    lines = []
    for host in hosts:
        lines += [f"Unknown: {host.host} ({host.reason})", *(f"  hint: {line}" for line in (host.hint or "").splitlines())]
    return lines


def room_text(free_bytes: int | None, total_bytes: int | None) -> str:
    """``, 1.2 TB of 4.0 TB free``; nothing where that is unknown."""
    if free_bytes is None:
        return ""
    total = f" of {size_text(total_bytes)}" if total_bytes else ""
    return f", {size_text(free_bytes)}{total} free"


def freed_lines(amount: str, *, going: bool, applied: bool) -> list[str]:
    """The last line of what removes something, or would."""
    if not going:
        return ["Nothing was removed." if applied else "Nothing would be removed."]
    return [f"Freed {amount}." if applied else f"Would free {amount}. Nothing was removed; --apply does it."]


def pin_lines(pin: Pin | None) -> list[str]:
    """Who pinned something, how long ago, and why."""
    if pin is None:
        return []
    return [f"    pinned by {pin.by or 'somebody'} {age_text(pin.at)}" + (f": {pin.reason}" if pin.reason else "")]


def age_text(moment: str | None) -> str:
    """How long ago a moment (ISO 8601, UTC unless it says so) was; text that is none, as somebody may write into a pin, as it is."""
    if not moment:
        return NOTHING
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    seconds = (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
    for unit, factor in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= factor:
            return f"{counted(int(seconds // factor), unit)} ago"
    return "just now"
