"""Values go into bash and answers come out of it unchanged."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkrun.scripts import load_script
from sparkrun.utils.shell import assignments, parse_answers, quote

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NASTY = st.text("ab'\"\\$`!&*?[](){}<>|;~# \t\n\r=é\u2028\x1c", max_size=30)
# A process for each example: few, and each with many values.
REAL_BASH = settings(max_examples=25, deadline=None)


def bash(text: str) -> str:
    return subprocess.run(["bash", "-s"], input=text.encode(), capture_output=True, check=True).stdout.decode()


@given(TEXT)
def test_quoted_text_is_one_word(text: str) -> None:
    assert shlex.split(quote(text)) == [text]


@REAL_BASH
@given(st.lists(TEXT | NASTY, max_size=20), TEXT | NASTY)
def test_assigned_values_arrive_in_bash_and_answers_come_back_unchanged(items: list[str], text: str) -> None:
    program = 'answer TEXT "$TEXT"; answer COUNT "${#ITEMS[@]}"; for item in "${ITEMS[@]}"; do answer ITEM "$item"; done'

    answers = parse_answers(bash(load_script("common") + assignments({"TEXT": text, "ITEMS": items}) + program)).section("")

    assert (answers.text("TEXT"), answers.number("COUNT"), list(answers.all("ITEM"))) == (text, len(items), items)


@REAL_BASH
@given(st.lists(TEXT | NASTY, min_size=1, max_size=20))
def test_bash_makes_the_same_json_text(items: list[str]) -> None:
    program = '\nfor item in "${ITEMS[@]}"; do json_escape "$item"; answer ITEM "$REPLY"; done'

    answers = parse_answers(bash(load_script("common") + load_script("http") + assignments({"ITEMS": items}) + program))

    assert [json.loads(f'"{item}"') for item in answers.section("").all("ITEM")] == items


def test_text_is_always_quoted_in_an_assignment() -> None:
    assert assignments({"A": "plain", "B": ["x", "it's"]}) == "A='plain'\nB=( 'x' 'it'\"'\"'s' )\n"


def test_an_empty_sequence_is_an_empty_array() -> None:
    assert assignments({"A": ()}) == "A=( )\n"


@pytest.mark.parametrize("name", ["", "a", "1A", "A-B", "A B", "A=1;B", "É", "A\n"])
def test_a_name_that_is_no_parameter_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a parameter name"):
        assignments({name: "x"})


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


@pytest.mark.parametrize("value", [1, None, b"x", [1], {"a": "b"}, {"a"}])
def test_a_value_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="parameter A"):
        assignments({"A": value})  # type: ignore[dict-item]


def test_answers_are_kept_by_section_in_order() -> None:
    answers = parse_answers("X=0\nSPARKRUN_A_START\nK=1\nK=2\nL=\nSPARKRUN_A_END\nY=9\n")

    assert answers.section("A").pairs == (("K", "1"), ("K", "2"), ("L", ""))
    assert answers.section("A").all("K") == ("1", "2")
    assert [answers.text(key) for key in ("X", "K", "L", "Y", "Z")] == ["0", "2", "", "9", None]


def test_sections_of_one_name_stay_apart() -> None:
    text = "".join(f"SPARKRUN_WORKLOAD_START\nNAME={name}\nSPARKRUN_WORKLOAD_END\n" for name in "ab")

    assert [section.text("NAME") for section in parse_answers(text).sections("WORKLOAD")] == ["a", "b"]


def test_a_section_that_was_cut_off_is_not_complete() -> None:
    answers = parse_answers("SPARKRUN_A_START\nK=1\nSPARKRUN_A_END\nSPARKRUN_B_START\nK=2\n")

    assert [answers.section(name).complete for name in "ABC"] == [True, False, False]


def test_a_section_that_begins_inside_another_ends_that_one_unfinished() -> None:
    answers = parse_answers("SPARKRUN_A_START\nK=1\nSPARKRUN_B_START\nK=2\nSPARKRUN_B_END\nSPARKRUN_A_END\n")

    assert not answers.section("A").complete
    assert answers.section("B").complete


def test_lines_of_a_login_shell_are_noise() -> None:
    answers = parse_answers("Welcome!\n\nSPARKRUN_A_START\nK=1\nlast login=never\nSPARKRUN_A_END\n")

    assert answers.noise == ("Welcome!", "last login=never")
    assert answers.section("A").pairs == (("K", "1"),)


def test_a_value_cannot_pass_for_a_marker_or_another_answer() -> None:
    said = bash(load_script("common") + "section A\nanswer K $'x\\nSPARKRUN_A_END\\nL=1'\nend_section\n")

    assert parse_answers(said).section("A").pairs == (("K", "x\nSPARKRUN_A_END\nL=1"),)


def test_numbers_and_flags_are_unknown_unless_they_are_said() -> None:
    section = parse_answers("N=-12\nBAD=[N/A]\nEMPTY=\nYES=1\nNO=0\n").section("")

    assert [section.number(key) for key in ("N", "BAD", "EMPTY", "MISSING")] == [-12, None, None, None]
    assert [section.flag(key) for key in ("YES", "NO", "BAD", "MISSING")] == [True, False, None, None]
