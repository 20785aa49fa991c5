"""How fakes write what scripts print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]


def lines(answers: Pairs) -> str:
    """``KEY=value`` lines. Pairs may repeat a key."""
    pairs = answers.items() if isinstance(answers, Mapping) else answers
    return "".join(f"{key}={value}\n" for key, value in pairs)


def section(name: str, answers: Pairs) -> str:
    """The same between markers."""
    return f"SPARKRUN_{name}_START\n{lines(answers)}SPARKRUN_{name}_END\n"
