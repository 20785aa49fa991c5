"""Why ranks cannot be placed, in words that name each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkrun.core.errors import PlacementError
from sparkrun.core.placement.model import Demand, SlotReason, Why

_CROWDED = frozenset({Why.OCCUPIED, Why.EXCLUSIVE_OWNER, Why.COMPUTE_BUDGET})
_UNCLEAR = frozenset({Why.MEMORY_UNKNOWN, Why.UNKNOWN_GPU_INDICES})


class NodeCountError(PlacementError):
    """The recipe, its parallelism and the given hosts do not agree on a number of nodes."""


class TensorParallelError(PlacementError):
    """The model's heads cannot be split over that many ranks. ``choices`` are the numbers that can be."""

    def __init__(self, message: str, choices: tuple[int, ...]) -> None:
        super().__init__(message, hint=f"tensor_parallel can be {_listed([str(choice) for choice in choices])}")
        self.choices = choices


class InsufficientCapacity(PlacementError):
    """No placement exists for the demand. ``reasons`` tell why a GPU or host cannot take a rank; ``usable`` counts the others by host."""

    def __init__(self, demand: Demand, reasons: Sequence[SlotReason], usable: Mapping[str, int] = {}) -> None:
        super().__init__(_message(demand, reasons, usable), hint=_relief(reasons))
        self.demand, self.reasons, self.usable = demand, tuple(reasons), dict(usable)


def _message(demand: Demand, reasons: Sequence[SlotReason], usable: Mapping[str, int]) -> str:
    if not any(usable.values()) and reasons and all(reason.why is Why.NO_ACCELERATORS for reason in reasons):
        return f"no GPU found on {', '.join(reason.host for reason in reasons)}"
    by = f" ({demand.formula})" if demand.formula else ""
    told = "".join(f"\n  {reason}" for reason in reasons)
    found = ", ".join(f"{count} on {host}" for host, count in usable.items() if count) or "none"
    return f"recipe needs {_wanted(demand)}{by}; usable: {found}{told}"


def _wanted(demand: Demand) -> str:
    gpus = f"{demand.gpus} GPU{'s' * (demand.gpus != 1)}"
    nodes = []
    if demand.min_nodes > 1:
        nodes.append(f"at least {demand.min_nodes} nodes")
    if demand.max_nodes is not None:
        nodes.append(f"at most {demand.max_nodes} node{'s' * (demand.max_nodes != 1)}")
    if demand.even and demand.ranks > 1:
        nodes.append("nodes with equal numbers of ranks")
    return f"{gpus} on {' and '.join(nodes)}" if nodes else gpus


def _relief(reasons: Sequence[SlotReason]) -> str:
    why = {reason.why for reason in reasons}
    if why == {Why.NO_ACCELERATORS}:
        return "look for the driver on that host: nvidia-smi, rocm-smi or hl-smi"
    if why & {Why.MEMORY_BUDGET}:
        return "spread the model over more GPUs (--tp), lower --max-model-len, take a smaller quantization, or place it anyway with --force"
    if why & _CROWDED:
        return "stop what holds the GPUs (sparkrun status), add a host with -H, or lower the parallelism (--tp 1)"
    if why & _UNCLEAR:
        return "stop what runs there (sparkrun status), or take it anyway with --scheduler greedy"
    if Why.OBSERVATION_FAILED in why:
        lost = next(reason.host for reason in reasons if reason.why is Why.OBSERVATION_FAILED)
        return f"try: ssh {lost} true"
    return "add a host with -H, or lower the parallelism (--tp 1)"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
