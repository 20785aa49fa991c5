"""Which rank goes where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.cluster_status import ClusterStatus, join_workloads
from sparkrun.core.errors import PlacementError
from sparkrun.core.facts import Unreachable, WorkloadFacts
from sparkrun.core.hardware import AcceleratorSpec, HostHardware
from sparkrun.core.layout import LayoutError, LayoutPlace, LayoutRequiredError, RecipeLayout
from sparkrun.core.limits import MemoryCaps, PlatformMemory
from sparkrun.core.placement import (
    Allocation,
    Conditions,
    Demand,
    InsufficientCapacity,
    Placement,
    PlacementRules,
    Policy,
    Preference,
    Slot,
    Why,
    allocations_label,
    compute_placement,
)

SPARSE = Policy("occupancy-sparse", Preference.IDLE)
DENSE = Policy("occupancy-dense", Preference.BUSY)


def host(gpus: int = 1, *, vendor: str = "nvidia", memory: float | None = 121.0) -> HostHardware:
    return HostHardware((AcceleratorSpec(vendor, "gb10", gpus, memory, ("cuda",)),) if gpus else ())


def cluster(**gpus: int) -> dict[str, HostHardware]:
    return {name: host(count) for name, count in gpus.items()}


def running(where: str, *shares: Allocation, intent: str = "a" * 16, rank: int = 0) -> WorkloadFacts:
    return WorkloadFacts(
        host=where,
        name=f"{where}-{intent}-{rank}",
        cluster_id=f"sparkrun_{intent}_{'0' * 12}",
        state="running",
        labels={"rank": rank, "gpu_allocations": allocations_label(shares)},
    )


def status(hosts: Sequence[str], *workloads: WorkloadFacts, lost: Sequence[str] = ()) -> ClusterStatus:
    return ClusterStatus(tuple(hosts), join_workloads(workloads), tuple(Unreachable(name, "timed out") for name in lost))


def place(
    demand: int | Demand, hardware: Mapping[str, HostHardware], policy: Policy = Policy(), conditions: Conditions = Conditions()
) -> Placement:
    return compute_placement(demand, tuple(hardware), hardware, PlacementRules(policy=policy, conditions=conditions))


def busy(hardware: Mapping[str, HostHardware], *workloads: WorkloadFacts, replacing: str | None = None) -> Conditions:
    return Conditions(status=status(tuple(hardware), *workloads), replacing=replacing)


def reasons(
    demand: Demand, hardware: Mapping[str, HostHardware], policy: Policy, conditions: Conditions
) -> list[tuple[str, Why, int | None]]:
    with pytest.raises(InsufficientCapacity) as refused:
        place(demand, hardware, policy, conditions)
    return [(reason.host, reason.why, reason.gpu) for reason in refused.value.reasons]


def test_greedy_takes_the_first_hosts_in_their_order() -> None:
    placement = place(2, cluster(c=1, a=1, b=1))

    assert placement.slots == (Slot(0, "c", (0,)), Slot(1, "a", (0,)))
    assert (placement.scheduler, placement.reason) == ("greedy", "2 of 3 hosts (greedy)")


def test_a_bare_number_lets_a_host_without_gpu_take_one_rank() -> None:
    assert place(1, cluster(a=0)).slots == (Slot(0, "a"),)
    assert place(3, cluster(a=0, b=2)).slots == (Slot(0, "a"), Slot(1, "b", (0,)), Slot(2, "b", (1,)))


def test_a_demand_for_gpus_names_the_hosts_without_any() -> None:
    with pytest.raises(InsufficientCapacity) as refused:
        place(Demand(ranks=1), cluster(a=0, b=0))

    assert refused.value.message == "no GPU found on a, b"
    assert isinstance(refused.value, PlacementError)


def test_too_few_gpus_are_told_with_both_numbers() -> None:
    with pytest.raises(InsufficientCapacity) as refused:
        place(Demand(ranks=4, formula="tensor_parallel 4"), cluster(a=1, b=2, c=0))

    assert refused.value.message == "recipe needs 4 GPUs (tensor_parallel 4); usable: 1 on a, 2 on b\n  c: no_accelerators"
    assert "free capacity" not in refused.value.message


def test_several_gpus_of_a_host_are_filled_before_the_next_host() -> None:
    assert place(Demand(ranks=3), cluster(a=2, b=2)).slots == (Slot(0, "a", (0,)), Slot(1, "a", (1,)), Slot(2, "b", (0,)))


def test_a_rank_may_have_several_gpus() -> None:
    assert place(Demand(ranks=2, gpus_per_rank=2), cluster(a=3, b=2)).slots == (Slot(0, "a", (0, 1)), Slot(1, "b", (0, 1)))


def test_the_least_number_of_nodes_spreads_the_ranks() -> None:
    assert place(Demand(ranks=3, min_nodes=2), cluster(a=8, b=8)).slots == (Slot(0, "a", (0,)), Slot(1, "a", (1,)), Slot(2, "b", (0,)))


def test_a_limit_on_nodes_looks_for_a_roomier_host() -> None:
    assert place(Demand(ranks=4, max_nodes=1), cluster(a=1, b=4)).hosts == ("b",)


def test_a_limit_on_nodes_that_cannot_be_kept_is_told() -> None:
    with pytest.raises(InsufficientCapacity, match=r"recipe needs 4 GPUs on at most 1 node; usable: 2 on a, 2 on b"):
        place(Demand(ranks=4, max_nodes=1), cluster(a=2, b=2))


def test_equal_nodes_hold_equal_numbers_of_ranks() -> None:
    placement = place(Demand(ranks=4, even=True), cluster(a=3, b=3))

    assert [slot.host for slot in placement.slots] == ["a", "a", "b", "b"]


def test_equal_nodes_that_are_impossible_are_told() -> None:
    with pytest.raises(InsufficientCapacity, match="3 GPUs on nodes with equal numbers of ranks; usable: 1 on a, 2 on b"):
        place(Demand(ranks=3, even=True), cluster(a=1, b=2))


def test_a_host_given_twice_is_one_host() -> None:
    with pytest.raises(InsufficientCapacity):
        compute_placement(2, ("a", "a"), cluster(a=1))


def test_a_host_nobody_looked_at_is_not_eligible() -> None:
    with pytest.raises(InsufficientCapacity, match=r"a: observation_failed \(nobody looked at it\)"):
        compute_placement(Demand(ranks=1), ("a",), {})


@pytest.mark.parametrize("policy", [Policy(), SPARSE, DENSE])
def test_an_unreachable_host_is_not_eligible_for_anybody(policy: Policy) -> None:
    hardware = cluster(a=1, b=1)
    conditions = Conditions(status=status("ab", lost="a"))

    assert place(Demand(ranks=1), hardware, policy, conditions).hosts == ("b",)
    assert reasons(Demand(ranks=2), hardware, policy, conditions) == [("a", Why.OBSERVATION_FAILED, None)]


def test_greedy_does_not_look_at_what_runs() -> None:
    hardware = cluster(a=1, b=1)

    assert place(Demand(ranks=1), hardware, conditions=busy(hardware, running("a", Allocation(0, 0)))).hosts == ("a",)


@pytest.mark.parametrize("policy", [SPARSE, DENSE])
def test_an_occupied_gpu_is_passed_over(policy: Policy) -> None:
    hardware = cluster(a=1, b=1)
    conditions = busy(hardware, running("a", Allocation(0, 0)))

    assert place(Demand(ranks=1), hardware, policy, conditions).hosts == ("b",)
    assert reasons(Demand(ranks=2), hardware, policy, conditions) == [("a", Why.OCCUPIED, 0)]


def test_an_exclusive_rank_shares_with_nobody() -> None:
    hardware = cluster(a=1)

    assert reasons(Demand(ranks=1, util_fraction=0.8), hardware, SPARSE, busy(hardware, running("a", Allocation(0, 0, 0.1)))) == [
        ("a", Why.OCCUPIED, 0)
    ]


def test_an_exclusive_owner_shares_with_nobody() -> None:
    hardware = cluster(a=1)

    assert reasons(Demand(ranks=1, util_fraction=0.1), hardware, SPARSE, busy(hardware, running("a", Allocation(0, 0, 0.8)))) == [
        ("a", Why.EXCLUSIVE_OWNER, 0)
    ]


def test_shares_are_at_most_the_whole() -> None:
    hardware = cluster(a=1)
    conditions = busy(hardware, running("a", Allocation(0, 0, 0.3)), running("a", Allocation(0, 0, 0.3), intent="b" * 16))

    assert place(Demand(ranks=1, util_fraction=0.4), hardware, SPARSE, conditions).hosts == ("a",)
    assert reasons(Demand(ranks=1, util_fraction=0.5), hardware, SPARSE, conditions) == [("a", Why.COMPUTE_BUDGET, 0)]


def test_a_gpu_whose_memory_is_partly_unknown_is_not_shared() -> None:
    demand = Demand(ranks=1, util_fraction=0.4, memory_gib=10)
    untold, told = running("a", Allocation(0, 0, 0.3)), running("a", Allocation(0, 0, 0.3, 30.0))

    assert reasons(demand, cluster(a=1), SPARSE, busy(cluster(a=1), untold)) == [("a", Why.MEMORY_UNKNOWN, 0)]
    assert reasons(demand, {"a": host(memory=None)}, SPARSE, busy(cluster(a=1), told)) == [("a", Why.MEMORY_UNKNOWN, 0)]
    assert place(demand, cluster(a=1), SPARSE, busy(cluster(a=1), told)).hosts == ("a",)


def test_memory_that_others_hold_is_taken_off() -> None:
    conditions = busy(cluster(a=1), running("a", Allocation(0, 0, 0.3, 100.0)))

    with pytest.raises(InsufficientCapacity, match=r"a GPU 0: memory_budget \(needs 30.0 GiB, 121.0 allowed, 100.0 taken: 1 of 121 GiB"):
        place(Demand(ranks=1, util_fraction=0.4, memory_gib=30), cluster(a=1), SPARSE, conditions)


def test_the_budget_decides_for_greedy_too() -> None:
    conditions = Conditions(caps=MemoryCaps(platform=PlatformMemory(0.90)), utilization=0.87)

    with pytest.raises(InsufficientCapacity) as refused:
        place(Demand(ranks=2, memory_gib=109.43), cluster(a=1, b=1), conditions=conditions)
    assert "a GPU 0: memory_budget (needs 109.4 GiB, 105.3 allowed: 0.87 of 121 GiB, gpu_memory_utilization)" in refused.value.message
    assert "--tp" in (refused.value.hint or "")


def test_the_cap_of_each_host_is_its_platforms() -> None:
    conditions = Conditions(platforms={"a": PlatformMemory(0.5), "b": PlatformMemory(0.9)})

    assert place(Demand(ranks=1, memory_gib=100), cluster(a=1, b=1), conditions=conditions).hosts == ("b",)


def test_an_unknown_capacity_is_no_refusal_for_a_gpu_of_ones_own() -> None:
    assert place(Demand(ranks=1, memory_gib=500), {"a": host(memory=None)}, SPARSE).hosts == ("a",)


def test_a_workload_that_does_not_tell_its_gpus_makes_its_host_unknown() -> None:
    hardware = cluster(a=1, b=1)
    silent = WorkloadFacts(host="a", name="x", cluster_id="sparkrun_x", state="running", labels={"gpu_allocations": "?"})

    assert place(Demand(ranks=1), hardware, SPARSE, busy(hardware, silent)).hosts == ("b",)
    assert reasons(Demand(ranks=2), hardware, SPARSE, busy(hardware, silent)) == [("a", Why.UNKNOWN_GPU_INDICES, None)]
    assert place(Demand(ranks=2), hardware, conditions=busy(hardware, silent)).hosts == ("a", "b")


def test_an_allocation_on_a_gpu_that_is_not_there_makes_its_host_unknown() -> None:
    hardware = cluster(a=1)

    assert reasons(Demand(ranks=1), hardware, SPARSE, busy(hardware, running("a", Allocation(0, 7)))) == [
        ("a", Why.UNKNOWN_GPU_INDICES, None)
    ]


def test_what_has_ended_holds_nothing() -> None:
    ended = WorkloadFacts(host="a", name="x", cluster_id="sparkrun_x", state="exited", labels={})

    assert place(Demand(ranks=1), cluster(a=1), SPARSE, busy(cluster(a=1), ended)).hosts == ("a",)


def test_the_deployment_that_is_replaced_holds_nothing() -> None:
    hardware = cluster(a=1)
    own = running("a", Allocation(0, 0), intent="b" * 16)

    assert place(Demand(ranks=1), hardware, SPARSE, busy(hardware, own, replacing="b" * 16)).hosts == ("a",)
    assert reasons(Demand(ranks=1), hardware, SPARSE, busy(hardware, own, replacing="c" * 16)) == [("a", Why.OCCUPIED, 0)]


def test_sparse_takes_the_idlest_host_and_dense_the_busiest_with_room() -> None:
    hardware = cluster(a=4, b=4, c=4)
    conditions = busy(hardware, running("a", Allocation(0, 0)), running("b", Allocation(0, 0), Allocation(1, 1), intent="b" * 16))

    assert place(Demand(ranks=1), hardware, SPARSE, conditions).slots == (Slot(0, "c", (0,)),)
    assert place(Demand(ranks=1), hardware, DENSE, conditions).slots == (Slot(0, "b", (2,)),)
    assert place(Demand(ranks=3), hardware, DENSE, conditions).hosts == ("b", "a")


def test_a_head_weighs_a_little() -> None:
    hardware = cluster(a=2, b=2)
    two_ranks = (running("a", Allocation(0, 0)), running("b", Allocation(1, 0), rank=1))

    assert place(Demand(ranks=1), hardware, SPARSE, busy(hardware, *two_ranks)).hosts == ("b",)
    assert place(Demand(ranks=1), hardware, DENSE, busy(hardware, *two_ranks)).hosts == ("a",)


def test_shared_gpus_are_filled_up_by_dense_and_left_alone_by_sparse() -> None:
    hardware = cluster(a=2)
    conditions = busy(hardware, running("a", Allocation(0, 1, 0.3)))
    demand = Demand(ranks=1, util_fraction=0.3)

    assert place(demand, hardware, DENSE, conditions).slots == (Slot(0, "a", (1,)),)
    assert place(demand, hardware, SPARSE, conditions).slots == (Slot(0, "a", (0,)),)


def test_equally_loaded_hosts_keep_their_order() -> None:
    assert place(Demand(ranks=2), cluster(c=1, a=1, b=1), SPARSE).hosts == ("c", "a")


@pytest.mark.parametrize(
    "hardware",
    [{"a": host(), "b": host(vendor="amd")}, {"a": HostHardware((AcceleratorSpec("nvidia", "l4"), AcceleratorSpec("amd", "mi300x")))}],
)
def test_several_vendors_need_a_layout(hardware: dict[str, HostHardware]) -> None:
    with pytest.raises(LayoutRequiredError):
        place(Demand(ranks=2), hardware)


def test_a_host_of_another_vendor_that_is_not_used_does_no_harm() -> None:
    assert place(Demand(ranks=1), {"a": host(), "b": host(vendor="amd")}).hosts == ("a",)


def test_a_layout_decides_over_vendors_and_policy() -> None:
    hardware = {"a": host(2), "b": host(vendor="amd")}
    layout = RecipeLayout((LayoutPlace("b", (0,), (0,)), LayoutPlace("a", (2, 1), (0, 1))))

    placement = compute_placement(Demand(ranks=3), ("a", "b"), hardware, PlacementRules(layout=layout))

    assert placement.slots == (Slot(0, "b", (0,)), Slot(1, "a", (1,)), Slot(2, "a", (0,)))
    assert placement.scheduler == "layout"


def test_a_layout_that_names_a_gpu_that_is_not_there_is_refused() -> None:
    layout = RecipeLayout((LayoutPlace("a", (0,), (3,)),))

    with pytest.raises(InsufficientCapacity, match=r"a GPU 3: unknown_gpu_indices \(the layout names it, the host has 1\)"):
        compute_placement(Demand(ranks=1), ("a",), cluster(a=1), PlacementRules(layout=layout))


def test_a_layout_for_another_world_size_is_refused() -> None:
    with pytest.raises(LayoutError, match="layout does not cover 2 ranks: without 1"):
        compute_placement(Demand(ranks=2), ("a",), cluster(a=2), PlacementRules(layout=RecipeLayout((LayoutPlace("a", (0,), (0,)),))))


@pytest.mark.parametrize(
    "wrong", [{"ranks": 0}, {"ranks": 1, "gpus_per_rank": 0}, {"ranks": 1, "util_fraction": 0.0}, {"ranks": 1, "util_fraction": 1.1}]
)
def test_a_demand_for_nothing_cannot_be_made(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no demand"):
        Demand(**wrong)


DEMANDS = st.builds(
    Demand,
    ranks=st.integers(1, 8),
    gpus_per_rank=st.integers(1, 3),
    util_fraction=st.sampled_from([0.2, 0.5, 1.0]),
    memory_gib=st.none() | st.floats(1, 200),
    min_nodes=st.integers(1, 3),
    max_nodes=st.none() | st.integers(3, 6),
    even=st.booleans(),
    cpu_allowed=st.just(False),
)
CLUSTERS = st.lists(st.integers(0, 4), min_size=1, max_size=6).map(
    lambda counts: {f"h{number}": host(count) for number, count in enumerate(counts)}
)
SHARES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from([0.2, 0.5, 1.0])), max_size=5)
POLICIES = st.sampled_from([Policy(), SPARSE, DENSE])


@given(DEMANDS, CLUSTERS, SHARES, POLICIES)
def test_a_placement_is_sound_and_a_refusal_has_reasons(
    demand: Demand, hardware: dict[str, HostHardware], shares: list[tuple[int, int, float]], policy: Policy
) -> None:
    found = [running(f"h{where}", Allocation(0, gpu, share), intent=f"{number:016x}") for number, (where, gpu, share) in enumerate(shares)]
    conditions = busy(hardware, *found)

    outcome = place_or_refuse(demand, hardware, policy, conditions)

    if isinstance(outcome, InsufficientCapacity):
        assert_refused_rightly(outcome, demand, hardware)
        return
    assert_sound(outcome, demand, hardware)
    assert place(demand, hardware, policy, conditions) == outcome
    if policy.heeds_occupancy and demand.exclusive:
        taken = {(f"h{where}", gpu) for where, gpu, _ in shares}
        assert not taken & {(slot.host, gpu) for slot in outcome.slots for gpu in slot.gpus}


def place_or_refuse(
    demand: Demand, hardware: Mapping[str, HostHardware], policy: Policy, conditions: Conditions
) -> Placement | InsufficientCapacity:
    try:
        return place(demand, hardware, policy, conditions)
    except InsufficientCapacity as refused:
        return refused


def assert_refused_rightly(refused: InsufficientCapacity, demand: Demand, hardware: dict[str, HostHardware]) -> None:
    """The reasons are of GPUs that exist, and where nothing but room is asked for there is too little of it."""
    assert refused.hint
    assert all(reason.gpu is None or 0 <= reason.gpu < hardware[reason.host].gpu_count for reason in refused.reasons)
    if demand.min_nodes == 1 and demand.max_nodes is None and not demand.even:
        assert sum(count // demand.gpus_per_rank for count in refused.usable.values()) < demand.ranks


def assert_sound(placement: Placement, demand: Demand, hardware: dict[str, HostHardware]) -> None:
    """Every rank once, packed, each on GPUs that exist and that nobody else has; limits kept."""
    slots = placement.slots
    assert [slot.rank for slot in slots] == list(range(demand.ranks))
    gpus = [(slot.host, gpu) for slot in slots for gpu in slot.gpus]
    assert len(gpus) == len(set(gpus)) == demand.gpus
    assert all(0 <= gpu < hardware[name].gpu_count for name, gpu in gpus)
    assert len([name for name, after in zip(slots, [*slots[1:], None], strict=True) if after is None or after.host != name.host]) == len(
        placement.hosts
    )
    assert demand.min_nodes <= len(placement.hosts) <= (demand.max_nodes or len(hardware))
    if demand.even:
        assert len({len(placement.on(name)) for name in placement.hosts}) == 1


@given(st.integers(1, 8), CLUSTERS)
def test_greedy_leaves_no_gap(ranks: int, hardware: dict[str, HostHardware]) -> None:
    """Each host but the last is full, and takes its GPUs from the first on."""
    placement = place_or_refuse(Demand(ranks=ranks), hardware, Policy(), Conditions())

    if isinstance(placement, InsufficientCapacity):
        assert ranks > sum(each.gpu_count for each in hardware.values())
        return
    for name in placement.hosts:
        held = [gpu for slot in placement.on(name) for gpu in slot.gpus]
        assert held == list(range(len(held)))
        assert len(held) == hardware[name].gpu_count or name == placement.hosts[-1]
