"""How much memory a launch may use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.core.limits import (
    Cap,
    Fit,
    MemoryBudget,
    MemoryCaps,
    MemoryExceededError,
    MemoryNeed,
    PlatformMemory,
    choose_cap,
    gpu_budgets,
    judge_fit,
    memory_budget,
    refuse_excess,
    smallest_budget,
    unmatched_limits,
)

SPARK = PlatformMemory(0.90, 121.0)
CAPS = MemoryCaps(models={"gb10": 0.7}, cluster=0.8, platform=SPARK)
GIB = 1024**3


def gb10(own: float | None = None, memory: float | None = 121.0) -> AcceleratorSpec:
    return AcceleratorSpec("nvidia", "gb10", 1, memory, max_gpu_memory_utilization=own)


@pytest.mark.parametrize(
    ("own", "caps", "cap"),
    [
        (0.6, CAPS, Cap(0.6, "accelerator")),
        (None, CAPS, Cap(0.7, "model")),
        (None, MemoryCaps(models={"GB10": 0.7}), Cap(0.7, "model")),
        (None, MemoryCaps(models={"h100": 0.7}, cluster=0.8, platform=SPARK), Cap(0.8, "cluster")),
        (None, MemoryCaps(platform=SPARK), Cap(0.9, "platform")),
        (None, MemoryCaps(), Cap(1.0, "none")),
        (1.0, CAPS, Cap(1.0, "accelerator")),
    ],
)
def test_the_first_cap_that_is_given_holds(own: float | None, caps: MemoryCaps, cap: Cap) -> None:
    assert choose_cap(gb10(own), caps) == cap


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.01, 90.0])
def test_a_cap_that_is_no_share_is_passed_over_with_a_warning(bad: float) -> None:
    cap = choose_cap(gb10(bad), MemoryCaps(models={"gb10": bad}, cluster=0.8))

    assert (cap.fraction, cap.origin) == (0.8, "cluster")
    assert cap.warnings == (
        f"max_gpu_memory_utilization of gb10 is {bad:g}, not above 0 and at most 1; it is ignored",
        f"accelerator_memory_limits.gb10 is {bad:g}, not above 0 and at most 1; it is ignored",
    )


def test_weights_beyond_the_budget_are_refused_with_both_numbers() -> None:
    """470e9 parameters at half a byte over two Sparks, utilization 0.87."""
    need = MemoryNeed(470e9 * 0.5 / GIB / 2)
    budget = memory_budget(gb10(), MemoryCaps(platform=SPARK), 0.87)

    with pytest.raises(MemoryExceededError) as refused:
        refuse_excess(need, budget)
    assert refused.value.message == "weights 109.4 GiB per GPU, allowed 105.3 (0.87 of 121 GiB, gpu_memory_utilization)"
    assert "--force" in (refused.value.hint or "")


def test_a_cap_below_the_utilization_decides_and_is_named() -> None:
    budget = memory_budget(gb10(), MemoryCaps(cluster=0.5, platform=SPARK), 0.87)

    assert budget.allowed_gib == 60.5
    assert budget.why == "0.5 of 121 GiB, max_gpu_memory_utilization of the cluster"


def test_a_kv_cache_is_told_beside_the_weights() -> None:
    with pytest.raises(MemoryExceededError, match=r"weights 80\.0 \+ KV cache 30\.0 = 110\.0 GiB per GPU, allowed 108\.9") as refused:
        refuse_excess(MemoryNeed(80, 30), memory_budget(gb10(), MemoryCaps(platform=SPARK)))
    assert "--max-model-len" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("need", "budget", "fit"),
    [
        (MemoryNeed(10), MemoryBudget(10), Fit.FITS),
        (MemoryNeed(10.1), MemoryBudget(10), Fit.EXCEEDS),
        (MemoryNeed(None, 5), MemoryBudget(10), Fit.UNKNOWN),
        (MemoryNeed(500), MemoryBudget(None), Fit.UNKNOWN),
    ],
)
def test_unknown_is_never_a_refusal(need: MemoryNeed, budget: MemoryBudget, fit: Fit) -> None:
    assert judge_fit(need, budget) is fit
    if fit is not Fit.EXCEEDS:
        refuse_excess(need, budget)


def test_the_platform_tells_the_memory_that_nobody_measured() -> None:
    assert memory_budget(gb10(memory=None), MemoryCaps(platform=SPARK)).capacity_gib == 121.0
    assert memory_budget(gb10(memory=119.7), MemoryCaps(platform=SPARK)).capacity_gib == 119.7
    assert memory_budget(gb10(memory=None), MemoryCaps()).allowed_gib is None


def test_each_gpu_of_a_host_has_a_budget_of_its_own() -> None:
    hardware = HostHardware((AcceleratorSpec("nvidia", "h100", 2, 80.0), AcceleratorSpec("nvidia", "l4", 1, 24.0)))

    budgets = gpu_budgets(hardware, MemoryCaps(models={"l4": 0.5}))

    assert [budget.allowed_gib for budget in budgets] == [80.0, 80.0, 12.0]
    assert smallest_budget(budgets).allowed_gib == 12.0


def test_one_unknown_gpu_makes_the_whole_unknown() -> None:
    assert smallest_budget([MemoryBudget(10), MemoryBudget(None)]).allowed_gib is None
    assert smallest_budget([]).allowed_gib is None


def test_limits_for_models_that_are_not_there_are_told_with_the_nearest() -> None:
    warnings = unmatched_limits({"gb10": 0.8, "gb-10": 0.7, "h100": 0.9}, [HostHardware((gb10(),))])

    assert len(warnings) == 2
    assert "accelerator_memory_limits.gb-10" in warnings[0]
    assert "did you mean 'gb10'?" in warnings[0]
    assert unmatched_limits({"h100": 0.9}, []) == ()


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(1, 1000))
def test_a_launch_never_gets_more_than_the_cap_or_what_it_asks_for(cap: float, asked: float, capacity: float) -> None:
    allowed = memory_budget(gb10(memory=capacity), MemoryCaps(cluster=cap), asked).allowed_gib

    assert allowed == pytest.approx(capacity * min(cap, asked))
