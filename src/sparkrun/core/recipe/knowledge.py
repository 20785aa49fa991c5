"""What checking a recipe may be told about the things around it: the engine, the plugins at hand, the platform."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from sparkrun.core.flags import FlagMap
from sparkrun.core.recipe.builders import BUILDERS, BuilderKnowledge
from sparkrun.core.recipe.detect import RUNTIME_NAMES
from sparkrun.core.recipe.schema import Values
from sparkrun.core.shell_text import EngineSyntax
from sparkrun.core.values import ConfigValue

RENDEZVOUS_FLAGS = frozenset(
    {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless", "--dist-init-addr", "--nccl-init-addr", "--rpc"}
)
"""Flags that differ from rank to rank, which the launch appends."""


class RuntimeKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a recipe's runtime."""

    name: str
    flag_map: FlagMap
    engine: EngineSyntax
    strategy: Literal["native", "native/rpc", "ray", "mpi"] = "native"
    consumed: frozenset[str] = frozenset()
    """Keys that the runtime reads and that are no flags."""
    rendezvous_flags: frozenset[str] = RENDEZVOUS_FLAGS
    known_flags: frozenset[str] = frozenset()
    """Every long flag of the engine, where a list of them exists; empty switches the check off."""
    flags_of: str = ""
    """Which engine and version that list is of."""
    defaults: Values = {}
    max_nodes: int | None = None
    takes_host_images: bool = False
    """Whether ``containers:`` may give each host an image of its own."""
    readiness_styles: frozenset[str] | None = None


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe is checked against. The defaults are a plain sparkrun on DGX Sparks."""

    runtime: RuntimeKnowledge | None = None
    runtimes: tuple[str, ...] = RUNTIME_NAMES
    builders: Mapping[str, BuilderKnowledge] = BUILDERS
    executors: Mapping[str, bool] = MappingProxyType({"docker": True, "local": False, "k8s": False})
    schedulers: tuple[str, ...] = ("greedy", "occupancy-sparse", "occupancy-dense")
    platform_defaults: Mapping[str, ConfigValue] = MappingProxyType({"gpu_memory_utilization": 0.8})
    platform_env: Mapping[str, str] = MappingProxyType({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "CUTE_DSL_ARCH": "sm_121a"})
    memory_gib: float = 121.0
    """Memory of one accelerator, for telling a size from a share."""
