"""Which registries a repository offers: from its manifest, or by convention where it has none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from sparkrun.core.registry.defaults import FALLBACK_DEFAULT_REGISTRIES, is_trusted_default
from sparkrun.core.registry.errors import ManifestError, RegistryError, UnsafeRegistryError
from sparkrun.core.registry.manifest import MANIFEST
from sparkrun.core.registry.model import ROOT_MODS, RegistryEntry
from sparkrun.core.registry.rules import ROOT, mask_url, normalized_url, parse_address, validate_registry_name
from sparkrun.core.registry.store import RegistryState

_CONVENTIONAL = "recipes"


class Convention(NamedTuple):
    """A registry made without a manifest, and how."""

    entry: RegistryEntry
    told: str


def merge_discovered(state: RegistryState, discovered: Mapping[str, tuple[RegistryEntry, ...]], failed: Collection[str]) -> RegistryState:
    """``state`` with what the bootstrap manifests say, by address. A manifest speaks only for its own repository.

    Nothing is trusted but the built-in names at their built-in addresses. What the user removed stays away; ``failed`` addresses
    stay pending.
    """
    entries = {entry.name: entry for entry in state.entries}
    for declared in (entry for group in discovered.values() for entry in group):
        known = entries.get(declared.name)
        if known is None:
            wanted = declared.name not in state.suppressed
        else:
            wanted = not state.saved and normalized_url(known.url) == normalized_url(declared.url)
        if wanted:
            entries[declared.name] = _trusted_by_table(declared)
    pending = tuple(url for url in state.pending_urls if url in failed)
    return msgspec.structs.replace(state, entries=tuple(entries.values()), pending_urls=pending)


def restore_defaults(state: RegistryState) -> RegistryState:
    """``state`` with every shipped registry that is missing and that the user did not remove."""
    names = {entry.name for entry in state.entries} | set(state.suppressed)
    missing = tuple(entry for entry in FALLBACK_DEFAULT_REGISTRIES if entry.name not in names)
    return msgspec.structs.replace(state, entries=(*state.entries, *missing)) if missing else state


def by_convention(url: str, files: Iterable[str], taken: Collection[str], name: str | None = None) -> Convention:
    """The registry of a repository without a manifest: recipes in ``recipes/``, else anywhere from the top.

    Raises ``ManifestError`` when it holds no YAML file either, ``UnsafeRegistryError`` when ``name`` is not free or none can be made.
    """
    paths = tuple(files)
    recipes = [path for path in paths if path.endswith((".yaml", ".yml")) and not any(part.startswith(".") for part in path.split("/"))]
    inner = [path for path in recipes if path.startswith(f"{_CONVENTIONAL}/")]
    if not recipes:
        raise ManifestError(f"{mask_url(url)}: no {MANIFEST} and no recipes", hint="check that the address is that of a recipe repository")
    where = f"{_CONVENTIONAL}/" if inner else "the top of the repository"
    mods = ROOT_MODS if any(path.startswith(f"{ROOT_MODS}/") for path in paths) else None
    entry = RegistryEntry(
        name=name or _free_name(url, taken),
        url=url,
        subpath=_CONVENTIONAL if inner else ROOT,
        description=f"Recipes of {normalized_url(url)}",
        mods_subpath=mods,
    )
    validate_registry_name(entry.name, url)
    if entry.name in taken:
        raise UnsafeRegistryError(f"a registry '{entry.name}' exists already", hint="choose another name")
    told = f"no {MANIFEST}: {len(inner or recipes)} YAML files found in {where}{f', mods in {mods}/' if mods else ''}"
    return Convention(entry, told)


def _trusted_by_table(entry: RegistryEntry) -> RegistryEntry:
    return msgspec.structs.replace(entry, trusted=is_trusted_default(entry.name, entry.url))


def _free_name(url: str, taken: Collection[str]) -> str:
    """The repository's name, its owner's, or both: the first that may be used and is not taken."""
    path = parse_address(url).path.strip("/").removesuffix(".git")
    *owners, repository = (re.sub(r"[^A-Za-z0-9._-]", "-", part) for part in path.split("/"))
    owner = owners[-1] if owners else ""
    for name in (repository, owner, f"{owner}-{repository}"):
        try:
            validate_registry_name(name, url)
        except RegistryError:
            continue
        if name not in taken:
            return name
    raise UnsafeRegistryError(f"no free name can be made from {mask_url(url)}", hint="give the registry a name")
