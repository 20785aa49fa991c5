"""Which rank ended first, over hosts whose clocks may not agree."""

from __future__ import annotations

from sparkrun.core.waiting import ends_in_common, first_cause
from sparkrun.orchestration.ready import Evidence

INFINITE = float("inf")


def test_clocks_that_agree_with_ours_are_taken_as_they_are() -> None:
    seen = [Evidence(1, ended_ms=900, now_ms=1100), Evidence(7, ended_ms=800, now_ms=1010), Evidence()]
    assert ends_in_common(seen, 1000, 1200) == [900, 800, INFINITE]


def test_a_clock_that_is_off_makes_all_count_backwards() -> None:
    seen = [Evidence(1, ended_ms=900, now_ms=1100), Evidence(7, ended_ms=99_700, now_ms=100_000)]
    assert ends_in_common(seen, 1000, 1200) == [-200, -300]


def test_nothing_that_ended() -> None:
    assert ends_in_common([Evidence(), Evidence()], 0, 1) == [INFINITE, INFINITE]


def test_a_rank_that_speaks_of_its_peer_is_not_the_cause() -> None:
    seen = [Evidence(1, ("NCCL error: remote process exited",)), Evidence(7, ("ValueError: no such layer",))]
    assert first_cause(seen, [1000, 1040], seen_first=0) == 1


def test_a_rank_that_ended_long_before_is_the_cause_whatever_it_says() -> None:
    seen = [Evidence(1, ("connection refused",)), Evidence(7, ("ValueError",))]
    assert first_cause(seen, [1000, 9000], seen_first=1) == 0


def test_of_equals_the_one_that_was_seen_first() -> None:
    assert first_cause([Evidence(1), Evidence(1)], [INFINITE, INFINITE], seen_first=1) == 1
