"""Nearest names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sparkrun.utils.text import QUOTED_CHARS, did_you_mean, nearest, quoted_lines, size_text


@pytest.mark.parametrize(
    ("name", "candidates", "meant"),
    [
        ("gpu_memory_utilisation", ["gpu_memory_utilization", "port"], "gpu_memory_utilization"),
        ("max-model-len", ["port", "max_model_len"], "max_model_len"),
        ("--Max_Model_Len", ["--max-model-len"], "--max-model-len"),
        ("port", ["PORT", "port"], "PORT"),
        ("zzz", ["port"], None),
        ("x", [], None),
    ],
)
def test_nearest(name: str, candidates: list[str], meant: str | None) -> None:
    assert nearest(name, candidates) == meant


def test_hint_names_the_nearest_or_is_empty() -> None:
    assert did_you_mean("prot", ["port"]) == "did you mean 'port'?"
    assert did_you_mean("zzz", ["port"]) == ""


def test_import_is_cheap() -> None:
    """Matching is loaded for wrong names only."""
    code = "import sys, sparkrun.utils.text; print('difflib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (12_400, "12 kB"), (310_000_000, "310 MB"), (4_200_000_000, "4.2 GB"), (2 * 10**12, "2.0 TB")],
)
def test_a_size_is_told_in_the_unit_that_suits_it(size: int, text: str) -> None:
    assert size_text(size) == text


def test_what_others_have_printed_moves_no_cursor_and_fills_no_screen() -> None:
    assert (
        quoted_lines(["\x1b[31mred\x1b[0m", "a\tb", "bell\x07 up\x1b[2J", "日本 ü"])
        == "\n  | red\n  | a    b\n  | bell\\x07 up\\x1b[2J\n  | 日本 ü"
    )
    assert quoted_lines(["x" * (QUOTED_CHARS + 1)]) == f"\n  | {'x' * QUOTED_CHARS}…"
    assert quoted_lines([]) == ""
