"""Finding mods: folders with a ``run.sh`` that change a container before it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.schema import Recipe, RecipeSource
from sparkrun.core.registry import (
    BUILTIN,
    DisabledRegistryError,
    RegistryManager,
    UnknownRegistryError,
    find_asset_in_registries,
    iter_asset_files,
)
from sparkrun.core.registry.assets import MOD_SCRIPT
from sparkrun.core.registry.model import ROOT_MODS
from sparkrun.core.registry.rules import validate_asset_name
from sparkrun.utils.text import did_you_mean

EUGR = "eugr"
"""The registry whose mods every recipe may use."""


class FoundMod(msgspec.Struct, frozen=True):
    """A mod to copy and run. ``name`` is its name without registry and ``mods/``; ``registry`` is ``None`` for one of the user's own."""

    reference: str
    name: str
    path: Path
    registry: str | None = None


class ModNotFoundError(RecipeError):
    """No folder with a ``run.sh`` answers to the name. ``looked`` are the places, in order."""

    def __init__(self, where: str, reference: str, looked: tuple[str, ...], hint: str) -> None:
        super().__init__(
            f"{where}: mod '{reference}' not found; looked in {', '.join(looked)}", hint=hint or f"a mod is a folder with {MOD_SCRIPT}"
        )
        self.looked = looked


class UnsafeModError(RecipeError):
    """A mod of a registry holds a link that leads out of the registry's repository."""


def find_mods(recipe: Recipe, manager: RegistryManager) -> tuple[FoundMod, ...]:
    """The mods of a recipe, in order. A registry that is needed and was never fetched is fetched, unless offline.

    Raises ``ModNotFoundError`` with every place looked in, ``UnsafeRegistryError`` for a name that is none, ``UnsafeModError``.
    """
    return tuple(
        find_mod(reference, recipe.source, manager, where=recipe.where("mods", number)) for number, reference in enumerate(recipe.mods)
    )


def find_mod(reference: str, source: RecipeSource, manager: RegistryManager, *, where: str = "") -> FoundMod:
    """The mod that ``reference`` means in a recipe of ``source``: beside it, in its repository, in its registry, in ``eugr``."""
    search = _Search(reference, source, manager)
    looked: list[str] = []
    for place in search.places():
        path = place.find()
        if path is not None:
            return FoundMod(reference, search.name, path, place.registry)
        looked.append(place.told())
    raise ModNotFoundError(where or source.ref, reference, tuple(looked), did_you_mean(search.name, search.known()))


def untrusted_mods(mods: Iterable[FoundMod], manager: RegistryManager) -> tuple[FoundMod, ...]:
    """The mods whose registry is not trusted: to be asked for even when the recipe itself is trusted."""
    return tuple(mod for mod in mods if mod.registry and not manager.trusts(mod.registry, manager.entry(mod.registry).url))


class _Place(NamedTuple):
    find: Callable[[], Path | None]
    told: Callable[[], str]
    registry: str | None = None


class _Search:
    """One look-up, stage by stage; a later stage is not touched when an earlier one has the mod."""

    def __init__(self, reference: str, source: RecipeSource, manager: RegistryManager) -> None:
        named, name = _split(reference)
        self.name = validate_asset_name(name)
        self._named = named
        self._source = source
        self._manager = manager
        self._reasons: dict[str, str] = {}

    def places(self) -> Iterator[_Place]:
        if self._named:
            yield self._in_registry(self._named)
            return
        own = self._source.registry if self._source.registry != BUILTIN else None
        if self._source.path and self._source.kind not in ("url", "text"):
            folder = Path(self._source.path).parent
            yield self._in_folder(folder, own)
            yield self._in_folder(folder / ROOT_MODS, own)
            root = None if own else enclosing_repository(folder)
            if root and root != folder:
                yield self._in_folder(root / ROOT_MODS, None)
        if own:
            yield self._in_registry(own)
        if own != EUGR:
            yield self._in_registry(EUGR)

    def known(self) -> Iterator[str]:
        """The mods that are on this machine, for a suggestion."""
        entries = [entry for entry in self._manager.chosen(hidden=True) if entry.name in (self._named, self._source.registry, EUGR)]
        for folder in self._manager.on_disk("mods", entries).folders:
            yield from (asset.name for asset in iter_asset_files(folder))

    def _in_folder(self, folder: Path, registry: str | None) -> _Place:
        def find() -> Path | None:
            path = folder / self.name
            return self._checked(path, registry) if (path / MOD_SCRIPT).is_file() else None

        return _Place(find, lambda: str(folder / self.name), registry)

    def _in_registry(self, registry: str) -> _Place:
        def find() -> Path | None:
            try:
                opened = self._manager.open_named(registry, "mods")
            except (UnknownRegistryError, DisabledRegistryError) as error:
                self._reasons[registry] = error.message
                return None
            self._reasons |= {failure.registry: failure.reason for failure in opened.failures}
            found = find_asset_in_registries(self.name, opened.folders)
            return self._checked(found[0].path, registry) if found else None

        def told() -> str:
            reason = self._reasons.get(registry)
            return f"@{registry}{f' ({reason})' if reason else ''}"

        return _Place(find, told, registry)

    def _checked(self, path: Path, registry: str | None) -> Path:
        """A registry's mod is copied whole, so no link in it may bring along a file of this machine."""
        if registry is None:
            return path
        root = self._manager.root(self._manager.entry(registry))
        for inner in (path, *path.rglob("*")):
            if inner.is_symlink() or inner is path:
                real = inner.resolve()
                if root is None or not real.is_relative_to(root.resolve()) or ".git" in real.relative_to(root.resolve()).parts:
                    raise UnsafeModError(f"mod '{self.name}' of registry '{registry}': {inner} leads out of the repository")
        return path


def enclosing_repository(folder: Path) -> Path | None:
    """The top of the git repository that holds ``folder``."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def _split(reference: str) -> tuple[str | None, str]:
    """Registry and name of ``x``, ``mods/x`` or ``@registry/x``."""
    if not reference.startswith("@"):
        return None, reference.removeprefix(f"{ROOT_MODS}/")
    registry, _, name = reference.removeprefix("@").partition("/")
    return registry, name.removeprefix(f"{ROOT_MODS}/")
