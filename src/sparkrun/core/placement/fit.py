"""Whether a GPU can take a rank, and if not, why not."""

from __future__ import annotations

from typing import NamedTuple

from sparkrun.core.placement.model import EXCLUSIVE_FRACTION, Allocation, Demand, GpuState, HostState, Policy, SlotReason, Why

_ROUNDING = 1e-9
"""Shares such as 0.3 + 0.7 do not add up to 1 exactly."""


class HostRoom(NamedTuple):
    """A host with the GPUs that can take a rank, in the order in which they are taken. ``cpu``: it takes one rank without any."""

    host: str
    gpus: tuple[int, ...] = ()
    cpu: bool = False

    def ranks(self, gpus_per_rank: int) -> int:
        """How many ranks fit."""
        return 1 if self.cpu else len(self.gpus) // gpus_per_rank


def judge_host(state: HostState, demand: Demand, policy: Policy) -> tuple[HostRoom, tuple[SlotReason, ...]]:
    """What of a host can be used, and why the rest cannot."""
    refusal = _host_refusal(state, demand, policy)
    if refusal:
        return HostRoom(state.host), (refusal,)
    if not state.gpus:
        return HostRoom(state.host, cpu=True), ()
    reasons = {gpu.index: _gpu_refusal(state.host, gpu, demand, policy) for gpu in state.gpus}
    usable = tuple(gpu.index for gpu in policy.order_gpus(state.gpus) if reasons[gpu.index] is None)
    return HostRoom(state.host, usable), tuple(reason for reason in reasons.values() if reason)


def _host_refusal(state: HostState, demand: Demand, policy: Policy) -> SlotReason | None:
    if state.unknown is not None:
        return SlotReason(state.host, Why.OBSERVATION_FAILED, state.unknown)
    if not state.gpus and not demand.cpu_allowed:
        return SlotReason(state.host, Why.NO_ACCELERATORS)
    if state.gpus and state.unattributed and policy.heeds_occupancy:
        return SlotReason(state.host, Why.UNKNOWN_GPU_INDICES, ", ".join(state.unattributed))
    return None


def _gpu_refusal(host: str, gpu: GpuState, demand: Demand, policy: Policy) -> SlotReason | None:
    others = gpu.allocations if policy.heeds_occupancy else ()
    found = _sharing_refusal(others, demand) or _memory_refusal(gpu, others, demand)
    return SlotReason(host, *found, gpu=gpu.index) if found else None


def _sharing_refusal(others: tuple[Allocation, ...], demand: Demand) -> tuple[Why, str] | None:
    if not others:
        return None
    if demand.exclusive:
        return Why.OCCUPIED, _owners(others)
    owner = next((other for other in others if other.util_fraction >= EXCLUSIVE_FRACTION), None)
    if owner:
        return Why.EXCLUSIVE_OWNER, _owners((owner,))
    used = sum(other.util_fraction for other in others)
    if used + demand.util_fraction > 1 + _ROUNDING:
        return Why.COMPUTE_BUDGET, f"{used:g} of it is taken, {demand.util_fraction:g} wanted"
    return None


def _memory_refusal(gpu: GpuState, others: tuple[Allocation, ...], demand: Demand) -> tuple[Why, str] | None:
    wanted, allowed = demand.memory_gib, gpu.budget.allowed_gib
    if wanted is None:
        return None
    shares = [other.memory_gb for other in others]
    if others and (allowed is None or None in shares):
        return (
            Why.MEMORY_UNKNOWN,
            "its capacity is unknown" if allowed is None else f"{_owners(others)} did not tell how much memory it takes",
        )
    if allowed is None:
        return None
    taken = sum(share for share in shares if share is not None)
    if wanted <= allowed - taken:
        return None
    besides = f", {taken:.1f} taken" if taken else ""
    return Why.MEMORY_BUDGET, f"needs {wanted:.1f} GiB, {allowed:.1f} allowed{besides}: {gpu.budget.why}"


def _owners(allocations: tuple[Allocation, ...]) -> str:
    return ", ".join(dict.fromkeys(each.owner or "somebody" for each in allocations))
