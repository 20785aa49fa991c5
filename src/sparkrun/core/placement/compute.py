"""Which rank runs on which host with which accelerators. Pure: the same question has the same answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.hardware import HostHardware
from sparkrun.core.layout import RecipeLayout, check_vendors
from sparkrun.core.placement.errors import InsufficientCapacity
from sparkrun.core.placement.fit import HostRoom, judge_host
from sparkrun.core.placement.model import Demand, HostState, Placement, Policy, Slot, SlotReason, Why
from sparkrun.core.placement.occupancy import Conditions, host_states
from sparkrun.core.placement.packing import pack

LAYOUT = "layout"
"""What stands for the scheduler in a placement that the recipe's layout made."""


class PlacementRules(msgspec.Struct, frozen=True, kw_only=True):
    """How ranks are to be placed: the policy, the conditions, a layout. The defaults are ``greedy`` on hosts that run nothing."""

    policy: Policy = Policy()
    conditions: Conditions = Conditions()
    layout: RecipeLayout | None = None


def compute_placement(
    world_size: int | Demand, hosts: Sequence[str], hardware: Mapping[str, HostHardware], rules: PlacementRules = PlacementRules()
) -> Placement:
    """Give every rank a host and GPUs of its own there, in rank order.

    ``world_size`` is the number of ranks, or the whole demand; a bare number lets a host without accelerators take one rank. A layout
    decides alone. Raises ``InsufficientCapacity`` with the reason of each GPU that cannot be used, ``LayoutRequiredError`` when the
    ranks would land on accelerators of several vendors, ``LayoutError`` for a layout that does not fit.
    """
    demand = Demand(ranks=world_size, cpu_allowed=True) if isinstance(world_size, int) else world_size
    states = host_states(tuple(dict.fromkeys(hosts)), hardware, rules.conditions)
    if rules.layout:
        return _by_layout(rules.layout, demand, states)
    judged = [judge_host(state, demand, rules.policy) for state in rules.policy.order(states)]
    rooms = [room for room, _ in judged]
    packed = pack(rooms, demand)
    if packed is None:
        usable = {room.host: len(room.gpus) or int(room.cpu) for room in rooms}
        raise InsufficientCapacity(demand, [reason for _, reasons in judged for reason in reasons], usable)
    placement = Placement(tuple(_slots(packed, demand.gpus_per_rank)), rules.policy.name, _reason(len(packed), len(hosts), rules.policy))
    check_vendors({state.host: state.vendors for state in states if state.host in placement.hosts})
    return placement


def _slots(packed: Sequence[tuple[HostRoom, int]], gpus_per_rank: int) -> Iterator[Slot]:
    rank = 0
    for room, count in packed:
        taken = sorted(room.gpus[: count * gpus_per_rank])
        for number in range(count):
            yield Slot(rank, room.host, tuple(taken[number * gpus_per_rank : (number + 1) * gpus_per_rank]))
            rank += 1


def _by_layout(layout: RecipeLayout, demand: Demand, states: Sequence[HostState]) -> Placement:
    layout.check(demand.ranks, {state.host: state.capabilities for state in states})
    by_host = {state.host: state for state in states}
    reasons = tuple(_missing_gpus(layout, by_host))
    if reasons:
        raise InsufficientCapacity(demand, reasons)
    slots = (Slot(rank, place.host, (gpu,)) for place in layout.placements for rank, gpu in zip(place.ranks, place.local_gpus, strict=True))
    return Placement(tuple(sorted(slots, key=lambda slot: slot.rank)), LAYOUT, "by the recipe's layout")


def _missing_gpus(layout: RecipeLayout, by_host: Mapping[str, HostState]) -> Iterator[SlotReason]:
    for place in layout.placements:
        state = by_host[place.host]
        if state.unknown is not None:
            yield SlotReason(place.host, Why.OBSERVATION_FAILED, state.unknown)
            continue
        count = len(state.gpus)
        for gpu in place.local_gpus:
            if gpu >= count:
                yield SlotReason(place.host, Why.UNKNOWN_GPU_INDICES, f"the layout names it, the host has {count}", gpu)


def _reason(used: int, given: int, policy: Policy) -> str:
    return f"{used} of {given} host{'s' * (given != 1)} ({policy.name})"
