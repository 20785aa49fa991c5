"""Plain tables, aligned, without a line more than their rows."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of equal length in columns two blanks apart; the first row is the heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
