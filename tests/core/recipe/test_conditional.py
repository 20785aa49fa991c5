"""Conditional overrides: verdicts and their reasons."""

from __future__ import annotations

import pytest

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.conditional import Facts, judge_overrides, matching_overrides
from sparkrun.core.recipe.schema import ConditionalOverride, Values

SPARK = Facts(
    tp=2,
    nodes=2,
    gpus_per_node=1,
    runtime="vllm-ray",
    platform="dgx-spark",
    vendor="nvidia",
    accelerator="gb10",
    arch="12.1",
    capability=("cuda", "unified-memory"),
    memory_gb=119.7,
    config={"kv_cache_dtype": "fp8", "trust_remote_code": True},
)


def matched(when: Values, facts: Facts = SPARK) -> bool:
    return judge_overrides((ConditionalOverride(when),), {"spark-1": facts})[0].matched


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, True),
        ({"tp": 2}, True),
        ({"tp": 1}, False),
        ({"tp": [1, 2]}, True),
        ({"tp": {"gt": 1, "lte": 2}}, True),
        ({"tp": {"gt": 2}}, False),
        ({"tp": {"ne": 2}}, False),
        ({"nodes": {"in": [1, 2]}}, True),
        ({"nodes": {"not_in": [1, 2]}}, False),
        ({"memory_gb": {"gte": 100}}, True),
        ({"runtime": "vllm"}, True),
        ({"runtime": "vllm-distributed"}, False),
        ({"runtime_family": "vllm"}, True),
        ({"accelerator": "GB10"}, True),
        ({"arch": 12.1}, True),
        ({"capability": "cuda"}, True),
        ({"capability": ["rocm", "cuda"]}, True),
        ({"capability": {"ne": "cuda"}}, False),
        ({"config.kv_cache_dtype": "fp8"}, True),
        ({"config.trust_remote_code": True}, True),
        ({"config.trust_remote_code": "true"}, True),
        ({"config.missing": None}, True),
        ({"config.missing": 1}, False),
        ({"config.missing": {"ne": 1}}, True),
        ({"tp": 2, "vendor": "amd"}, False),
        ({"colour": "red"}, False),
    ],
)
def test_condition(when: Values, expected: bool) -> None:
    assert matched(when) is expected


@pytest.mark.parametrize("when", [{"memory_gb": {"lt": 500}}, {"memory_gb": {"ne": 5}}, {"vendor": {"not_in": ["amd"]}}])
def test_nothing_holds_for_what_is_not_known(when: Values) -> None:
    assert not matched(when, Facts())


def test_reasons_name_the_deciding_condition() -> None:
    conditions: tuple[Values, ...] = ({"tp": {"gt": 3}}, {"nodes": [1, 2]}, {"colour": 1}, {"vendor": "amd"})
    overrides = tuple(map(ConditionalOverride, conditions))
    verdicts = judge_overrides(overrides, {"spark-1": SPARK})

    assert [str(verdict) for verdict in verdicts] == [
        "overrides[1] skipped: tp is 2, wanted > 3",
        "overrides[2] matched: nodes in [1, 2]",
        "overrides[3] skipped: unknown selector colour",
        "overrides[4] skipped: vendor is nvidia, wanted = amd",
    ]
    assert matching_overrides(overrides, verdicts) == (overrides[1],)


def test_hosts_that_disagree_are_an_error() -> None:
    other = Facts(vendor="amd")

    with pytest.raises(RecipeError, match=r"overrides\[1\] holds on a but not on b \(vendor is amd, wanted = nvidia\)"):
        judge_overrides((ConditionalOverride({"vendor": "nvidia"}),), {"a": SPARK, "b": other})


def test_hosts_may_fail_for_different_reasons() -> None:
    verdicts = judge_overrides((ConditionalOverride({"tp": 9}),), {"a": SPARK, "b": Facts(tp=4)})

    assert not verdicts[0].matched


def test_without_hosts_nothing_holds() -> None:
    assert not judge_overrides((ConditionalOverride({}),), {})[0].matched
