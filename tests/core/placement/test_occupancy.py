"""What running workloads say about the GPUs they hold."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.placement import Allocation, Placement, Slot, allocations_label, allocations_of, parse_allocations

ALLOCATIONS = st.lists(
    st.builds(
        Allocation,
        rank=st.integers(0, 64),
        gpu_index=st.integers(0, 16),
        util_fraction=st.floats(0.01, 1),
        memory_gb=st.none() | st.floats(0, 500),
    )
)


@given(ALLOCATIONS)
def test_a_label_is_read_back(allocations: list[Allocation]) -> None:
    assert parse_allocations(allocations_label(allocations)) == tuple(allocations)


def test_a_label_has_the_documented_shape() -> None:
    label = allocations_label([Allocation(0, 1)])

    assert json.loads(base64.b64decode(label)) == {
        "schema": 1,
        "allocations": [{"rank": 0, "gpu_index": 1, "util_fraction": 1.0, "memory_gb": None}],
    }


def test_a_label_of_an_earlier_version_without_all_fields_is_read() -> None:
    text = base64.b64encode(b'{"schema": 1, "allocations": [{"rank": 0, "gpu_index": 1}], "more": 1}').decode()

    assert parse_allocations(text, "me") == (Allocation(0, 1, 1.0, None, "me"),)


@pytest.mark.parametrize(
    "text", ["", "?", "e30=", base64.b64encode(b'{"schema": 2, "allocations": []}').decode(), base64.b64encode(b"\xff").decode()]
)
def test_a_text_that_is_no_label_is_unknown(text: str) -> None:
    assert parse_allocations(text) is None


def test_line_ends_in_and_around_a_label_do_no_harm() -> None:
    text = base64.b64encode(b'{"schema": 1, "allocations": []}\n').decode()

    assert parse_allocations(f"{text}\n") == ()


def test_a_label_without_allocations_holds_nothing() -> None:
    assert parse_allocations(allocations_label([])) == ()


def test_a_placement_tells_what_its_ranks_hold_on_a_host() -> None:
    placement = Placement((Slot(0, "a", (0, 1)), Slot(1, "b", (0,))), "greedy")

    assert allocations_of(placement, "a", util_fraction=0.5, memory_gib=10) == (Allocation(0, 0, 0.5, 10), Allocation(0, 1, 0.5, 10))
