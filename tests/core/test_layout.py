"""A recipe's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from sparkrun.core.layout import LayoutError, LayoutPlace, LayoutRequiredError, RecipeLayout, check_vendors, parse_layout
from sparkrun.core.values import ConfigValue

TWO: ConfigValue = {
    "requires": [{"capability": "cuda"}],
    "placements": [{"host": "a", "ranks": [0, 2], "local_gpus": [1, 0]}, {"host": "b", "ranks": [1], "local_gpus": [0]}],
}
HOSTS: Mapping[str, Sequence[str]] = {"a": ("cuda", "gb10"), "b": ("cuda",), "c": ("rocm",)}


def layout(*places: tuple[str, tuple[int, ...]]) -> RecipeLayout:
    return RecipeLayout(tuple(LayoutPlace(host, ranks, tuple(range(len(ranks)))) for host, ranks in places))


def test_a_layout_is_read() -> None:
    assert parse_layout(TWO) == RecipeLayout((LayoutPlace("a", (0, 2), (1, 0)), LayoutPlace("b", (1,), (0,))), ("cuda",))


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_layout_is_none(nothing: ConfigValue) -> None:
    assert parse_layout(nothing) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "layout must be a mapping"),
        ({"placement": []}, "unknown key 'placement'"),
        ({"placements": []}, "no placements"),
        ({"placements": {"host": "a"}}, "layout.placements must be a list"),
        ({"placements": [{"ranks": [0], "local_gpus": [0]}]}, r"layout.placements\[1\]: host must be"),
        ({"placements": [{"host": "a", "ranks": [0, 1], "local_gpus": [0]}]}, "2 ranks and 1 local_gpus"),
        ({"placements": [{"host": "a", "ranks": [], "local_gpus": []}]}, "0 ranks and 0 local_gpus"),
        ({"placements": [{"host": "a", "ranks": [0, 1], "local_gpus": [0, 0]}]}, "GPU 0 is named twice"),
        ({"placements": [{"host": "a", "ranks": [-1], "local_gpus": [0]}]}, "whole numbers from 0 on, not -1"),
        ({"placements": [{"host": "a", "ranks": [True], "local_gpus": [0]}]}, "not True"),
        ({"placements": [{"host": "a", "ranks": [0], "local_gpus": [0]}] * 2}, "host a is named twice"),
        ({"requires": [{"tag": "x"}], "placements": [{"host": "a", "ranks": [0], "local_gpus": [0]}]}, "unknown key 'tag'"),
        ({"requires": [3], "placements": [{"host": "a", "ranks": [0], "local_gpus": [0]}]}, r"requires\[1\] must be a mapping"),
    ],
)
def test_a_malformed_layout_is_refused(value: ConfigValue, told: str) -> None:
    with pytest.raises(LayoutError, match=told):
        parse_layout(value)


def test_messages_begin_with_where_the_layout_stands() -> None:
    with pytest.raises(LayoutError, match=r"^r\.yaml:4:3: no placements"):
        parse_layout({"requires": []}, "r.yaml:4:3")


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ((("a", (0,)),), "without 1"),
        ((("a", (0, 1)), ("b", (1,))), "twice 1"),
        ((("a", (0, 1)), ("b", (2,))), "beyond the world size 2"),
        ((("a", (1, 2)),), "without 0; beyond the world size 2"),
    ],
)
def test_ranks_are_covered_once(places: tuple[tuple[str, tuple[int, ...]], ...], told: str) -> None:
    with pytest.raises(LayoutError, match="layout does not cover 2 ranks") as refused:
        layout(*places).check(2, HOSTS)

    assert told in refused.value.message


def test_a_host_that_was_not_given_is_refused() -> None:
    with pytest.raises(LayoutError, match="spark is none of the given hosts"):
        layout(("spark", (0,))).check(1, HOSTS)


def test_a_host_without_a_required_capability_is_refused() -> None:
    wanted = RecipeLayout((LayoutPlace("c", (0,), (0,)),), ("cuda",))

    with pytest.raises(LayoutError, match="c lacks cuda") as refused:
        wanted.check(1, HOSTS)
    assert refused.value.hint == "it has rocm"


def test_a_layout_that_fits_is_accepted() -> None:
    parsed = parse_layout(TWO)
    assert parsed is not None
    parsed.check(3, HOSTS)


@pytest.mark.parametrize("vendors", [{"a": ("nvidia",), "b": ("amd",)}, {"a": ("nvidia", "amd")}])
def test_several_vendors_need_a_layout_across_hosts_and_on_one(vendors: Mapping[str, Sequence[str]]) -> None:
    with pytest.raises(LayoutRequiredError, match="several vendors need a layout: a has nvidia") as refused:
        check_vendors(vendors)
    assert "layout: {placements:" in (refused.value.hint or "")


@pytest.mark.parametrize("vendors", [{}, {"a": ("nvidia",), "b": ("nvidia",)}, {"a": (), "b": ("amd",)}])
def test_one_vendor_needs_no_layout(vendors: Mapping[str, Sequence[str]]) -> None:
    check_vendors(vendors)
