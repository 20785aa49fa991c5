"""Who holds which share of which GPU, as the labels of running workloads tell. What cannot be told is unknown, never free."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sparkrun.core.cluster_status import ClusterStatus, Workload
from sparkrun.core.facts import WorkloadFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.core.limits import MemoryCaps, PlatformMemory, gpu_budgets
from sparkrun.core.placement.model import Allocation, GpuState, HostState, Placement
from sparkrun.utils.jsonio import read_json

ALLOCATIONS_LABEL = "gpu_allocations"
"""Key of a workload's labels; containers carry it as ``sparkrun.gpu_allocations``."""
_SCHEMA = 1


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds on the hosts beside their hardware. Without a ``status`` nothing is known to run."""

    status: ClusterStatus | None = None
    caps: MemoryCaps = MemoryCaps()
    platforms: Mapping[str, PlatformMemory] = {}
    """By host, over ``caps.platform``."""
    utilization: float | None = None
    """The share of memory that the launch asks for, where that limits it (see ``limits.memory_budget``)."""
    replacing: str | None = None
    """The intent id of the launch: its own running deployment is going to be replaced and does not count."""


class _Entry(msgspec.Struct, frozen=True):
    rank: int
    gpu_index: int
    util_fraction: float = 1.0
    memory_gb: float | None = None


class _Label(msgspec.Struct, frozen=True):
    schema: int
    allocations: tuple[_Entry, ...]


class _Held(msgspec.Struct):
    """What was found to run on one host."""

    allocations: list[Allocation] = []
    unattributed: list[str] = []
    heads: int = 0


def allocations_of(
    placement: Placement, host: str, *, util_fraction: float = 1.0, memory_gib: float | None = None
) -> tuple[Allocation, ...]:
    """What the ranks of a placement hold on one host."""
    return tuple(Allocation(slot.rank, gpu, util_fraction, memory_gib) for slot in placement.on(host) for gpu in slot.gpus)


def allocations_label(allocations: Iterable[Allocation]) -> str:
    """Base64 of JSON: what a container or process says about its GPUs."""
    entries = tuple(_Entry(each.rank, each.gpu_index, each.util_fraction, each.memory_gb) for each in allocations)
    return base64.b64encode(msgspec.json.encode(_Label(_SCHEMA, entries))).decode()


def parse_allocations(text: str, owner: str = "") -> tuple[Allocation, ...] | None:
    """The inverse of ``allocations_label``; ``None`` for a text that is none, or of another schema."""
    try:
        label = read_json(base64.b64decode(text.strip(), validate=True), _Label)
    except ValueError:
        return None
    if label.schema != _SCHEMA:
        return None
    return tuple(Allocation(entry.rank, entry.gpu_index, entry.util_fraction, entry.memory_gb, owner) for entry in label.allocations)


def host_states(hosts: Sequence[str], hardware: Mapping[str, HostHardware], conditions: Conditions) -> tuple[HostState, ...]:
    """Each host with its GPUs and who is on them. A host without facts, or that did not answer, is unknown."""
    held = _held(conditions)
    lost = {host.host: host.reason for host in conditions.status.unreachable} if conditions.status else {}
    return tuple(_state(host, hardware.get(host), held.get(host, _Held()), lost.get(host), conditions) for host in hosts)


def _state(host: str, hardware: HostHardware | None, held: _Held, lost: str | None, conditions: Conditions) -> HostState:
    if lost is not None or hardware is None:
        return HostState(host=host, unknown=lost or "nobody looked at it")
    caps = msgspec.structs.replace(conditions.caps, platform=conditions.platforms.get(host, conditions.caps.platform))
    budgets = gpu_budgets(hardware, caps, conditions.utilization)
    strangers = [f"{each.owner} on GPU {each.gpu_index}" for each in held.allocations if not 0 <= each.gpu_index < len(budgets)]
    return HostState(
        host=host,
        gpus=tuple(
            GpuState(index, budget, tuple(each for each in held.allocations if each.gpu_index == index))
            for index, budget in enumerate(budgets)
        ),
        vendors=hardware.vendors,
        capabilities=hardware.capabilities,
        heads=held.heads,
        unattributed=tuple(dict.fromkeys([*held.unattributed, *strangers])),
    )


def _held(conditions: Conditions) -> dict[str, _Held]:
    found: dict[str, _Held] = {}
    for workload in conditions.status.workloads if conditions.status else ():
        if not _is_replaced(workload, conditions.replacing):
            for rank in workload.ranks:
                if rank.alive:
                    _count(found.setdefault(rank.host, _Held()), rank, head=rank is workload.head)
    return found


def _count(held: _Held, rank: WorkloadFacts, *, head: bool) -> None:
    held.heads += head
    text = rank.labels.get(ALLOCATIONS_LABEL) or rank.labels.get(f"sparkrun.{ALLOCATIONS_LABEL}")
    allocations = parse_allocations(text, rank.cluster_id) if isinstance(text, str) else None
    if allocations is None:
        held.unattributed.append(rank.cluster_id)
    else:
        held.allocations += allocations


def _is_replaced(workload: Workload, intent: str | None) -> bool:
    return intent is not None and (f"_{intent}_" in workload.cluster_id or workload.head.labels.get("intent_id") == intent)
