"""Which rank runs on which host with which accelerators: how many nodes, what is free there, and the choice."""

from sparkrun.core.placement.compute import PlacementRules, compute_placement
from sparkrun.core.placement.errors import InsufficientCapacity, NodeCountError, TensorParallelError
from sparkrun.core.placement.heads import check_tensor_parallel
from sparkrun.core.placement.model import (
    DEFAULT_SCHEDULER,
    Allocation,
    Demand,
    GpuState,
    HostState,
    Placement,
    Policy,
    Preference,
    Slot,
    SlotReason,
    Why,
)
from sparkrun.core.placement.nodes import NODE_RULES, NodeCount, NodeRule, NodeWish, node_rule, required_nodes, world_size
from sparkrun.core.placement.occupancy import (
    ALLOCATIONS_LABEL,
    Conditions,
    allocations_label,
    allocations_of,
    host_states,
    parse_allocations,
)

__all__ = [
    "ALLOCATIONS_LABEL",
    "DEFAULT_SCHEDULER",
    "NODE_RULES",
    "Allocation",
    "Conditions",
    "Demand",
    "GpuState",
    "HostState",
    "InsufficientCapacity",
    "NodeCount",
    "NodeCountError",
    "NodeRule",
    "NodeWish",
    "Placement",
    "PlacementRules",
    "Policy",
    "Preference",
    "Slot",
    "SlotReason",
    "TensorParallelError",
    "Why",
    "allocations_label",
    "allocations_of",
    "check_tensor_parallel",
    "compute_placement",
    "host_states",
    "node_rule",
    "parse_allocations",
    "required_nodes",
    "world_size",
]
