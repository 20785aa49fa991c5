"""The files of registries: recipes, benchmark profiles, tuning configs and mods, found by the same rules.

Nothing outside the registry's repository is ever read: names are checked, folders that are links are not entered, and a link that leaves
the repository is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sparkrun.core.registry.errors import AmbiguousAssetError
from sparkrun.core.registry.model import AssetKind, RegistryEntry
from sparkrun.core.registry.rules import ROOT, validate_asset_name

_YAML = (".yaml", ".yml")
_SUFFIXES: dict[AssetKind, tuple[str, ...]] = {"recipes": _YAML, "benchmarks": _YAML, "tuning": (".json",), "mods": ()}
MOD_SCRIPT = "run.sh"


class AssetFolder(msgspec.Struct, frozen=True):
    """The files of one kind in one registry. ``root`` is the repository, ``base`` the folder in it, which need not exist."""

    entry: RegistryEntry
    kind: AssetKind
    root: Path
    base: Path
    commit: str | None = None

    @property
    def whole_repository(self) -> bool:
        """Whether the files lie among others, so that not every one is meant."""
        return self.base == self.root


class RegistryAsset(msgspec.Struct, frozen=True):
    """One file of a registry, or one folder for a mod. ``name`` is its path in the registry without suffix."""

    entry: RegistryEntry
    kind: AssetKind
    name: str
    path: Path
    root: Path

    @property
    def registry(self) -> str:
        """The registry's name."""
        return self.entry.name

    @property
    def qualified_name(self) -> str:
        """What names this file and no other."""
        return f"@{self.entry.name}/{self.name}"

    @property
    def stem(self) -> str:
        """The name without folders."""
        return self.name.rpartition("/")[2]

    @property
    def place(self) -> str:
        """The path inside the repository, for messages."""
        return self.path.relative_to(self.root).as_posix()


def asset_folder(entry: RegistryEntry, kind: AssetKind, root: Path, commit: str | None = None) -> AssetFolder | None:
    """The folder of ``kind`` below a repository at ``root``; ``None`` when the registry has none, or it leads out of the repository."""
    folder = entry.folder(kind)
    if folder is None:
        return None
    base = root if folder == ROOT else root / folder
    return AssetFolder(entry, kind, root, base, commit) if _inside(base, root) else None


def iter_asset_files(folder: AssetFolder) -> Iterator[RegistryAsset]:
    """Every file of a registry in the order of paths; of ``x.yaml`` and ``x.yml`` side by side only the first."""
    if folder.kind == "mods":
        yield from _mods(folder)
        return
    for name, path in iter_files(folder.base, _SUFFIXES[folder.kind], within=folder.root):
        yield RegistryAsset(folder.entry, folder.kind, name, path, folder.root)


def find_asset_in_registries(name: str, folders: Iterable[AssetFolder]) -> tuple[RegistryAsset, ...]:
    """Every different file that answers to ``name``, in the order of ``folders``.

    In each folder ``<name>`` itself beats one in a sub-folder, and ``.yaml`` beats ``.yml``. The same file reached twice, and files of
    the same content, count once. Raises ``UnsafeRegistryError`` for a name that is none.
    """
    validate_asset_name(name)
    found = [asset for folder in folders for asset in _find(name, folder)]
    return tuple(found) if len(found) < 2 else tuple(_different(found))


def the_asset(what: str, name: str, found: tuple[RegistryAsset, ...]) -> RegistryAsset | None:
    """The only one of ``found``, ``None`` of none. Raises ``AmbiguousAssetError`` with the full names of several."""
    if len(found) > 1:
        raise AmbiguousAssetError(what, name, tuple(asset.qualified_name for asset in found))
    return found[0] if found else None


def iter_files(base: Path, suffixes: tuple[str, ...], *, within: Path | None = None) -> Iterator[tuple[str, Path]]:
    """Name without suffix, and path, of each file below ``base``: sorted, without hidden ones. ``within``: no link may lead out of it."""
    for folder, inner, files in os.walk(base):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for stem, suffix in _first_of_each(files, suffixes):
            path = Path(folder, stem + suffix)
            if within is None or not path.is_symlink() or _inside(path, within):
                yield (Path(folder, stem).relative_to(base).as_posix(), path)


def _first_of_each(files: list[str], suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Stem and suffix of the files of one folder; of several with one stem the first suffix."""
    best: dict[str, str] = {}
    for suffix in suffixes:
        for file in files:
            if file.endswith(suffix) and not file.startswith("."):
                best.setdefault(file.removesuffix(suffix), suffix)
    return iter(sorted(best.items()))


def _find(name: str, folder: AssetFolder) -> Iterator[RegistryAsset]:
    suffixes = _SUFFIXES[folder.kind]
    if folder.kind == "mods":
        path = folder.base / name
        if (path / MOD_SCRIPT).is_file() and _inside(path / MOD_SCRIPT, folder.root):
            yield RegistryAsset(folder.entry, "mods", name, path, folder.root)
        return
    for suffix in ("", *suffixes):
        path = folder.base / f"{name}{suffix}"
        if path.suffix in suffixes and path.is_file() and _inside(path, folder.root):
            bare = path.relative_to(folder.base).as_posix().removesuffix(path.suffix)
            yield RegistryAsset(folder.entry, folder.kind, bare, path, folder.root)
            return
    if "/" not in name:
        yield from (asset for asset in iter_asset_files(folder) if asset.stem == name)


def _different(found: list[RegistryAsset]) -> Iterator[RegistryAsset]:
    seen: set[object] = set()
    for asset in found:
        marks = {asset.path.resolve(), _content(asset)}
        if seen.isdisjoint(marks):
            yield asset
        seen |= marks


def _content(asset: RegistryAsset) -> object:
    """The bytes of a file; a mod is a folder, and known by its path alone."""
    try:
        return asset.path.read_bytes()
    except OSError:
        return asset.path


def _mods(folder: AssetFolder) -> Iterator[RegistryAsset]:
    for place, inner, files in os.walk(folder.base):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        path = Path(place)
        if MOD_SCRIPT in files and path != folder.base and _inside(path / MOD_SCRIPT, folder.root):
            inner.clear()
            yield RegistryAsset(folder.entry, "mods", path.relative_to(folder.base).as_posix(), path, folder.root)


def _inside(path: Path, root: Path) -> bool:
    """Whether ``path``, with every link followed, lies in the repository and not in its ``.git``."""
    real, real_root = path.resolve(), root.resolve()
    return real.is_relative_to(real_root) and not real.is_relative_to(real_root / ".git")
