"""What a hook printed, as it is shown when it fails."""

from __future__ import annotations

from sparkrun.orchestration.hooks import KEPT_LINES, hook_output


def answers(head: int, omitted: int, tail: int) -> str:
    lines = [f"HEAD=first {number}" for number in range(head)]
    lines += [f"OMITTED={omitted}"] if omitted else []
    lines += [f"TAIL=last {number}" for number in range(tail)]
    return "\n".join(["SPARKRUN_EXEC_START", *lines, "EXIT_CODE=3", "SPARKRUN_EXEC_END"])


def test_a_short_output_is_shown_whole() -> None:
    assert hook_output(answers(2, 0, 1)) == "\n  | first 0\n  | first 1\n  | last 0"


def test_of_a_long_one_the_beginning_and_the_end_are_shown() -> None:
    shown = hook_output(answers(20, 400, 80)).splitlines()
    assert (shown[1], shown[21], shown[-1]) == ("  | first 0", f"  | … {400 + 80 - KEPT_LINES} lines left out …", "  | last 79")
    assert len(shown) == 1 + 20 + 1 + KEPT_LINES


def test_of_nothing_nothing_is_shown() -> None:
    assert hook_output("") == ""
