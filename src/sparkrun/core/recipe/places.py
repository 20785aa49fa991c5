"""What a recipe's text says and where, without the YAML that it is read with."""

from __future__ import annotations

from typing import Any, NamedTuple

KeyPath = tuple[str | int, ...]


class Position(NamedTuple):
    """A place in a file, counted from 1; ``file`` where it is not the recipe's own (an included one)."""

    line: int
    column: int
    file: str | None = None


class Duplicate(NamedTuple):
    """A key that stands twice in one mapping; YAML keeps the last one."""

    path: KeyPath
    first: Position
    second: Position


class Document(NamedTuple):
    """A YAML mapping, where its keys stand, what was said twice, and how numbers and switches were spelt."""

    name: str
    value: dict[str, Any]
    positions: dict[KeyPath, Position]
    duplicates: tuple[Duplicate, ...]
    spellings: dict[KeyPath, str] = {}  # noqa: RUF012 - never changed
    """The text of each scalar that YAML reads as something else: ``1.10`` is a number, but a version when a text is wanted."""

    def where(self, *path: str | int) -> str:
        """``file:line:col`` of a key, of the nearest outer key that is known, or of the file."""
        return place(self.name, self.positions, path)


def place(file: str, positions: dict[KeyPath, Position], path: KeyPath) -> str:
    """``file:line:col`` of a key, of the nearest outer key that is known, or just the file."""
    for end in range(len(path), 0, -1):
        if position := positions.get(path[:end]):
            return f"{position.file or file}:{position.line}:{position.column}"
    return file
