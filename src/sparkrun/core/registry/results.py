"""What the operations on registries answer."""

from __future__ import annotations

from typing import Literal

import msgspec

from sparkrun.core.registry.assets import AssetFolder
from sparkrun.core.registry.model import RegistryEntry

UpdateStatus = Literal["updated", "unchanged", "failed", "skipped"]


class RegistryInfo(msgspec.Struct, frozen=True):
    """One registry as ``registry list`` and ``registry show`` tell it. ``commit`` is ``None`` until it was fetched."""

    entry: RegistryEntry
    fetched: bool
    commit: str | None = None


class RegistryFailure(msgspec.Struct, frozen=True):
    """A registry whose files could not be had. ``reason`` is git's own where git was asked."""

    registry: str
    reason: str

    @property
    def line(self) -> str:
        """The one line to tell."""
        return f"{self.registry}: {self.reason}"


class OpenedFolders(msgspec.Struct, frozen=True):
    """The folders that can be read, in registry order, and what is missing."""

    folders: tuple[AssetFolder, ...]
    failures: tuple[RegistryFailure, ...] = ()


class AddResult(msgspec.Struct, frozen=True):
    """``added`` is empty when every name was known. ``convention`` says where recipes are found without a manifest."""

    added: tuple[RegistryEntry, ...]
    skipped: tuple[str, ...] = ()
    """One line for each declared registry that was not added."""
    notes: tuple[str, ...] = ()
    convention: str | None = None
    commit: str | None = None
    """``None`` when the recipes were not fetched."""


class ChangeResult(msgspec.Struct, frozen=True):
    """A registry after a change; ``changed`` is false when it was so already."""

    entry: RegistryEntry
    changed: bool


class UpdateResult(msgspec.Struct, frozen=True):
    """What an update came to for one registry."""

    registry: str
    status: UpdateStatus
    reason: str | None = None
    commit: str | None = None
    previous: str | None = None


class UpdateReport(msgspec.Struct, frozen=True):
    """An update of one or all registries."""

    results: tuple[UpdateResult, ...]
    added: tuple[str, ...] = ()
    """Shipped and newly declared registries that were not in the list before."""
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no registry failed."""
        return all(result.status != "failed" for result in self.results)


class RevertResult(msgspec.Struct, frozen=True):
    """The names that ``revert_to_defaults`` forgot."""

    forgotten: tuple[str, ...]
