"""What is to be placed, where it could go, and where it went."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum

import msgspec

from sparkrun.core.limits import MemoryBudget

EXCLUSIVE_FRACTION = 0.8
"""From this share of a GPU on, a rank shares it with nobody."""
HEAD_LOAD = 0.05
"""What a head weighs on its host beside its share of the GPUs: it serves the requests."""
DEFAULT_SCHEDULER = "greedy"


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload wants. ``memory_gib`` is GiB on each GPU of a rank, ``util_fraction`` its share of each of them."""

    ranks: int
    gpus_per_rank: int = 1
    memory_gib: float | None = None
    util_fraction: float = 1.0
    min_nodes: int = 1
    max_nodes: int | None = None
    even: bool = False
    """Every node must hold the same number of ranks."""
    cpu_allowed: bool = False
    """A host without accelerators takes one rank all the same."""
    formula: str = ""
    """Where the number of ranks comes from, for messages: ``tensor_parallel 2 × pipeline_parallel 2``."""

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.gpus_per_rank < 1 or not 0 < self.util_fraction <= 1:
            raise ValueError(f"no demand: {self.ranks} ranks with {self.gpus_per_rank} GPUs each at {self.util_fraction}")

    @property
    def exclusive(self) -> bool:
        """Whether its ranks share their GPUs with nobody."""
        return self.util_fraction >= EXCLUSIVE_FRACTION

    @property
    def gpus(self) -> int:
        """All GPUs it wants."""
        return self.ranks * self.gpus_per_rank


class Slot(msgspec.Struct, frozen=True):
    """One rank's place: a host and the indices of its accelerators there (none on a host without any)."""

    rank: int
    host: str
    gpus: tuple[int, ...] = ()


class Placement(msgspec.Struct, frozen=True):
    """Every rank's place, in rank order, and the policy that chose it."""

    slots: tuple[Slot, ...]
    scheduler: str
    reason: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in rank order, each once."""
        return tuple(dict.fromkeys(slot.host for slot in self.slots))

    def on(self, host: str) -> tuple[Slot, ...]:
        """The ranks of one host."""
        return tuple(slot for slot in self.slots if slot.host == host)


class Allocation(msgspec.Struct, frozen=True):
    """A share of one GPU that a running rank holds. ``memory_gb`` is GiB, ``None`` when it was not told."""

    rank: int
    gpu_index: int
    util_fraction: float = 1.0
    memory_gb: float | None = None
    owner: str = ""
    """The id of the workload."""


class GpuState(msgspec.Struct, frozen=True):
    """One accelerator: what it offers, and who holds a share of it."""

    index: int
    budget: MemoryBudget = MemoryBudget()
    allocations: tuple[Allocation, ...] = ()

    @property
    def used(self) -> float:
        """The sum of the shares."""
        return sum(allocation.util_fraction for allocation in self.allocations)


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """One host as placement sees it. ``unknown`` says why it cannot be judged; it is then never eligible."""

    host: str
    gpus: tuple[GpuState, ...] = ()
    vendors: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    heads: int = 0
    """How many workloads have their head here."""
    unattributed: tuple[str, ...] = ()
    """Workloads that run here on GPUs which cannot be told from their labels."""
    unknown: str | None = None

    @property
    def load(self) -> float:
        """Mean share of its GPUs that is taken, and a little for a head."""
        used = sum(gpu.used for gpu in self.gpus) / len(self.gpus) if self.gpus else 0.0
        return used + (HEAD_LOAD if self.heads else 0.0)


class Preference(Enum):
    """Which host, and which GPU of it, comes first."""

    FIRST = "first"
    """In the given order, busy or not."""
    IDLE = "idle"
    BUSY = "busy"


class Policy(msgspec.Struct, frozen=True):
    """How a scheduler chooses. The defaults are ``greedy``."""

    name: str = DEFAULT_SCHEDULER
    preference: Preference = Preference.FIRST

    @property
    def heeds_occupancy(self) -> bool:
        """Whether what runs already counts."""
        return self.preference is not Preference.FIRST

    def order(self, hosts: Sequence[HostState]) -> tuple[HostState, ...]:
        """Hosts in the order in which they are taken; equals stay as they were given."""
        return tuple(sorted(hosts, key=lambda host: self._weight(host.load)))

    def order_gpus(self, gpus: Sequence[GpuState]) -> tuple[GpuState, ...]:
        """The GPUs of one host likewise."""
        return tuple(sorted(gpus, key=lambda gpu: self._weight(gpu.used)))

    def _weight(self, load: float) -> float:
        return {Preference.FIRST: 0.0, Preference.IDLE: load, Preference.BUSY: -load}[self.preference]


class Why(StrEnum):
    """Why a GPU, or a whole host, cannot take a rank."""

    OCCUPIED = "occupied"
    """The rank wants the GPU for itself, and somebody is on it."""
    EXCLUSIVE_OWNER = "exclusive_owner"
    """Somebody has it for himself."""
    COMPUTE_BUDGET = "compute_budget"
    """The shares would be more than the whole."""
    MEMORY_UNKNOWN = "memory_unknown"
    """It is shared, and nobody knows how much memory is left."""
    MEMORY_BUDGET = "memory_budget"
    """It has too little memory."""
    NO_ACCELERATORS = "no_accelerators"
    OBSERVATION_FAILED = "observation_failed"
    """The host did not answer, so nothing is known of it."""
    UNKNOWN_GPU_INDICES = "unknown_gpu_indices"
    """Something runs there on GPUs that cannot be told, or a layout names a GPU that does not exist."""


class SlotReason(msgspec.Struct, frozen=True):
    """Why one GPU (``gpu`` its index), or a whole host (``gpu`` is ``None``), is not eligible."""

    host: str
    why: Why
    detail: str = ""
    gpu: int | None = None

    def __str__(self) -> str:
        where = self.host if self.gpu is None else f"{self.host} GPU {self.gpu}"
        return f"{where}: {self.why}" + (f" ({self.detail})" if self.detail else "")
