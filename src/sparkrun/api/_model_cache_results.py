"""What the entry points for model caches return. ``to_json`` is the documented, versioned shape of ``--json``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sparkrun.api._plain import PlainData
from sparkrun.core.facts import Unreachable
from sparkrun.core.pins import Pin
from sparkrun.models.cache_rules import Problem
from sparkrun.models.hub_cache import CachedSnapshot

ModelState = Literal["whole", "damaged", "unknown"]
Action = Literal["delete", "prune", "repair", "pin", "unpin"]
Outcome = Literal["planned", "removed", "kept"]


class WrongFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose content is not what its name in the cache says, or cannot be read. ``files`` are ``REVISION/NAME``."""

    files: tuple[str, ...]
    blob: str
    reason: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What reading a model came to. ``quick``: lengths alone. ``unchecked`` files have nothing to be compared with."""

    quick: bool
    checked_blobs: int
    checked_bytes: int
    wrong: tuple[WrongFile, ...]
    unchecked: tuple[str, ...]


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A model in one cache. ``disk_bytes`` counts each blob once; ``snapshots`` and ``verification`` only where they were asked for."""

    model: str
    state: ModelState
    """``unknown``: a part of it may not be read."""
    size_bytes: int
    disk_bytes: int
    revisions: tuple[str, ...]
    refs: dict[str, str]
    last_used_at: str | None
    pin: Pin | None
    problems: tuple[Problem, ...]
    folder: str
    linked_to: str | None = None
    used_by: tuple[str, ...] = ()
    """Ids of running workloads that use it, where that was asked."""
    snapshots: tuple[CachedSnapshot, ...] = ()
    verification: Verification | None = None

    @property
    def good(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return self.state == "whole" and not (self.verification and self.verification.wrong)


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """One physical cache and the hosts that use it. Bytes are of the disk it is on; ``None`` where that is unknown."""

    hosts: tuple[str, ...]
    hub: str
    shared: bool
    here: bool
    """Whether the folder is there."""
    writable: bool
    free_bytes: int | None
    total_bytes: int | None
    disk_bytes: int
    """What all of its models take, what several of them share once."""
    models: tuple[ModelReport, ...]


class ModelCacheReport(PlainData, frozen=True, kw_only=True):
    """The caches of all hosts, each physical one once."""

    schema: str = "sparkrun.model-cache/1"
    origin: str
    """Who named the hosts."""
    cluster: str | None
    caches: tuple[CacheReport, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every host answered and nothing is known to be wrong."""
        return not self.unreachable and all(model.good for cache in self.caches for model in cache.models)


class RemovalReport(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is to go, went, or had to stay. ``path`` is one from the hub's folder."""

    path: str
    why: str
    disk_bytes: int
    outcome: Outcome
    reason: str | None = None
    """Why it was kept."""


class ModelChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does, or would do, to a model in one cache. ``model`` is empty for what belongs to none."""

    model: str
    refused: str | None = None
    """Why nothing of it is touched."""
    frees_bytes: int = 0
    """What the disk gains; what it gained once it was done."""
    removals: tuple[RemovalReport, ...] = ()
    missing: tuple[str, ...] = ()
    """``REVISION/NAME`` of files that have to come again."""
    commands: tuple[str, ...] = ()
    """What brings them, typed on a host of the cache."""
    pinned: bool | None = None
    """Whether it is pinned now; ``None`` for a command that is not about pins."""


class CacheChange(msgspec.Struct, frozen=True, kw_only=True):
    """The changes in one physical cache. ``failed``: why its host did not do them."""

    hosts: tuple[str, ...]
    hub: str
    models: tuple[ModelChange, ...]
    failed: Unreachable | None = None

    @property
    def frees_bytes(self) -> int:
        """Of all models together."""
        return sum(change.frees_bytes for change in self.models)


class ModelCacheChange(PlainData, frozen=True, kw_only=True):
    """What a command did, or with ``applied`` false would do, in all caches."""

    schema: str = "sparkrun.model-cache-change/1"
    action: Action
    applied: bool
    origin: str
    cluster: str | None
    caches: tuple[CacheChange, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def frees_bytes(self) -> int:
        """In all caches together."""
        return sum(cache.frees_bytes for cache in self.caches)

    @property
    def complete(self) -> bool:
        """Whether every host answered, and nothing that was named was refused or had to stay."""
        changes = [change for cache in self.caches for change in cache.models]
        refused = self.action != "prune" and any(change.refused for change in changes)
        kept = any(removal.outcome == "kept" for change in changes for removal in change.removals)
        return not (self.unreachable or refused or kept or any(cache.failed for cache in self.caches))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**super().to_json(), "frees_bytes": self.frees_bytes}
