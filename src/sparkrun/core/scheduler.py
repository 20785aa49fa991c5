"""Schedulers as plugins, and who may name one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from sparkrun.core.errors import PluginError
from sparkrun.core.hardware import HostHardware
from sparkrun.core.identity import placement_token
from sparkrun.core.placement import (
    DEFAULT_SCHEDULER,
    Conditions,
    Demand,
    Placement,
    PlacementRules,
    Policy,
    Preference,
    compute_placement,
)
from sparkrun.core.plugin import SparkrunPlugin

EXT_SCHEDULER = "sparkrun.scheduler"


class Scheduler(SparkrunPlugin):
    """Chooses hosts and GPUs. A subclass sets ``preference``, or overrides ``schedule`` as a whole. ``plugin_name`` is what users type."""

    extension_point = EXT_SCHEDULER
    preference: ClassVar[Preference] = Preference.FIRST
    deterministic: ClassVar[bool] = False
    """Whether the same hosts always give the same placement, so that its id can be told from them."""

    @property
    def policy(self) -> Policy:
        """The choice as data."""
        return Policy(self.plugin_name, self.preference)

    def schedule(
        self, demand: Demand, hosts: Sequence[str], hardware: Mapping[str, HostHardware], conditions: Conditions = Conditions()
    ) -> Placement:
        """Place a demand. Raises ``InsufficientCapacity`` or ``LayoutRequiredError``."""
        return compute_placement(demand, hosts, hardware, PlacementRules(policy=self.policy, conditions=conditions))

    def placement_token(self, hosts: Iterable[str]) -> str:
        """12 hex digits for the id of a workload: told from its hosts where the scheduler is deterministic, random otherwise."""
        return placement_token(hosts) if self.deterministic else secrets.token_hex(6)


class SchedulerLayers(msgspec.Struct, frozen=True):
    """Who may name a scheduler, strongest first."""

    cli: str | None = None
    recipe: str | None = None
    cluster: str | None = None

    def chosen(self) -> tuple[str, str]:
        """The name in force and the layer that gave it."""
        for layer in ("cli", "recipe", "cluster"):
            if name := getattr(self, layer):
                return name, layer
        return DEFAULT_SCHEDULER, "default"


def resolve_scheduler(layers: SchedulerLayers, find: Callable[[str], Scheduler]) -> Scheduler:
    """The scheduler in force. ``find`` raises ``PluginError``; no other scheduler is taken in its place."""
    name, layer = layers.chosen()
    try:
        return find(name)
    except PluginError as error:
        said = {"cli": "--scheduler", "recipe": "the recipe", "cluster": "the cluster"}
        origin = f" (named by {said[layer]})" if layer in said else ""
        raise type(error)(f"{error.message}{origin}", hint=error.hint) from error
