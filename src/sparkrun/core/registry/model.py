"""A registry: a named view on folders of a git repository."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from sparkrun.core.registry.rules import BUILTIN, ROOT
from sparkrun.core.values import ConfigValue

AssetKind = Literal["recipes", "tuning", "benchmarks", "mods"]

FORMAT = "sparkrun"
MANIFEST_DIR = ".sparkrun"
ROOT_MODS = "mods"
"""Where a repository keeps its mods when nothing says otherwise."""


class RegistryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``registries.yaml``. ``visible``: its recipes answer to a name without ``@registry/``."""

    name: str
    url: str
    subpath: str = "recipes"
    description: str = ""
    enabled: bool = True
    visible: bool = True
    trusted: bool = False
    tuning_subpath: str | None = None
    benchmark_subpath: str | None = None
    mods_subpath: str | None = None
    format: str = FORMAT
    declared_by: str | None = None
    """The plugin that brought the entry."""
    extra: dict[str, ConfigValue] = {}
    """Keys of the file that this version does not know."""

    def folder(self, kind: AssetKind) -> str | None:
        """The folder of one kind of file inside the repository; ``None`` when the registry has none."""
        if kind == "mods":
            return self.mods_subpath or ROOT_MODS
        return {"recipes": self.subpath, "tuning": self.tuning_subpath, "benchmarks": self.benchmark_subpath}[kind]

    @property
    def wanted_paths(self) -> tuple[str, ...]:
        """The folders that a clone must hold; ``/`` alone when that is everything."""
        folders = (self.subpath, self.tuning_subpath, self.benchmark_subpath, self.mods_subpath or ROOT_MODS, MANIFEST_DIR)
        return (ROOT,) if ROOT in folders else tuple(dict.fromkeys(filter(None, folders)))


def builtin_entry() -> RegistryEntry:
    """The registry inside the package: always there, never fetched."""
    return RegistryEntry(name=BUILTIN, url="", description="Recipes that come with sparkrun", trusted=True)


def builtin_root() -> Path:
    """The folder of the package that holds ``recipes/``."""
    return Path(__file__).parents[2] / "builtin"
