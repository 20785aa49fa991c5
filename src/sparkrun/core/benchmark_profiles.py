"""Benchmark profiles: what to measure, in files of registries, of the user, or anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sparkrun.core.errors import RecipeError, SparkrunError
from sparkrun.core.paths import expand
from sparkrun.core.recipe.fields import Fields, key_text
from sparkrun.core.recipe.load import read_recipe_text
from sparkrun.core.recipe.places import KeyPath
from sparkrun.core.recipe.source import read_document
from sparkrun.core.registry import AssetFolder, RegistryAsset, RegistryFailure, find_asset_in_registries, iter_asset_files, the_asset
from sparkrun.core.registry.assets import iter_files
from sparkrun.core.resolve import SUFFIXES, ResolveContext, open_folders
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean

Args = dict[str, ConfigValue]

_OWN_KEYS = frozenset({"framework", "args", "timeout", "schedule", "category", "metadata"})
"""Every other key is an argument of the framework."""


class ProfileError(SparkrunError):
    """A benchmark profile is nowhere to be found, or cannot be used as it is written."""


class BenchmarkProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure. ``schedule`` holds changes to ``args``, one run each; ``timeout_s`` is for all of one run."""

    name: str
    """What names it: ``@registry/name``, the stem of a file of the user's own, or a path."""
    registry: str | None
    path: str
    framework: str
    description: str
    category: str | None
    timeout_s: int | None
    args: Args
    schedule: tuple[Args, ...]


class BrokenProfile(msgspec.Struct, frozen=True):
    """A file that should be a profile and is none; ``line`` is the one line to tell."""

    registry: str | None
    line: str


class ProfileList(msgspec.Struct, frozen=True):
    """The profiles, the files that are broken, and the registries that could not be read."""

    profiles: tuple[BenchmarkProfile, ...]
    broken: tuple[BrokenProfile, ...] = ()
    failures: tuple[RegistryFailure, ...] = ()


def list_profiles(ctx: ResolveContext, *, registry: str | None = None, hidden: bool = False) -> ProfileList:
    """The user's own profiles, then those of the registries; with ``registry`` those of that one alone.

    A registry that was never fetched is fetched first, unless offline. Raises ``UsageError`` for an unknown or disabled registry.
    """
    opened = open_folders("benchmarks", registry, ctx, hidden=hidden)
    read = [*(() if registry else _own(ctx)), *(found for folder in opened.folders for found in _of_registry(folder))]
    profiles = tuple(found for found in read if isinstance(found, BenchmarkProfile))
    return ProfileList(profiles, tuple(found for found in read if isinstance(found, BrokenProfile)), opened.failures)


def find_profile(name: str, ctx: ResolveContext) -> BenchmarkProfile:
    """The profile of that name: ``@registry/name``, a path, a file of the user's own, or one of the visible registries.

    Raises ``ProfileError``, ``UnknownRegistryError``, ``DisabledRegistryError`` or ``AmbiguousAssetError``.
    """
    if name.startswith("@"):
        return _named(name, ctx)
    if "/" in name or name.endswith(SUFFIXES):
        return _by_path(name, ctx)
    for suffix in SUFFIXES:
        if (path := own_profiles(ctx) / f"{name}{suffix}").is_file():
            return read_profile(path, name)
    opened = ctx.manager.open_all("benchmarks")
    return _chosen(name, opened.folders, opened.failures, ctx)


def read_profile(path: Path, name: str, registry: str | None = None) -> BenchmarkProfile:
    """Read one file. Raises ``ProfileError`` with ``file:line:col``."""
    try:
        fields = Fields(read_document(read_recipe_text(path), str(path), what="benchmark profile"))
        return _decode(fields, name, registry)
    except RecipeError as error:
        raise ProfileError(error.message, hint=error.hint) from error


def own_profiles(ctx: ResolveContext) -> Path:
    """The folder of the user's own profiles."""
    return ctx.config.paths.config_dir / "benchmarking"


def _decode(fields: Fields, name: str, registry: str | None) -> BenchmarkProfile:
    top: KeyPath = ("benchmark",) if fields.raw("benchmark") is not None else ()
    path = fields.document.name
    keys = fields.checked_mapping(*top)
    framework = fields.text(*top, "framework")
    if not framework:
        hint = "begin with: framework: llama-benchy"
        raise ProfileError(f"{fields.document.where(*top)}: a benchmark profile names its framework", hint=hint)
    loose = {key_text(key): fields.value(value, (*top, key)) for key, value in keys.items() if key not in _OWN_KEYS}
    return BenchmarkProfile(
        name=name,
        registry=registry,
        path=path,
        framework=framework,
        description=" ".join((fields.text(*top, "metadata", "description") or "").split()),
        category=fields.text(*top, "category"),
        timeout_s=fields.whole(*top, "timeout"),
        args={**loose, **fields.mapping(*top, "args")},
        schedule=tuple(fields.mapping(*entry) for entry in fields.entries(*top, "schedule")),
    )


def _own(ctx: ResolveContext) -> Iterator[BenchmarkProfile | BrokenProfile]:
    for name, path in iter_files(own_profiles(ctx), SUFFIXES):
        yield _attempt(path, name, None, str(path))


def _of_registry(folder: AssetFolder) -> Iterator[BenchmarkProfile | BrokenProfile]:
    assets = sorted(iter_asset_files(folder), key=lambda asset: asset.name)
    stems = Counter(asset.stem for asset in assets)
    for asset in assets:
        label = f"@{asset.registry}/{asset.stem if stems[asset.stem] == 1 else asset.name}"
        yield _attempt(asset.path, label, asset.registry, f"{asset.registry}: {asset.place}")


def _attempt(path: Path, name: str, registry: str | None, place: str) -> BenchmarkProfile | BrokenProfile:
    try:
        return read_profile(path, name, registry)
    except ProfileError as error:
        return BrokenProfile(registry, f"{place}{error.message.removeprefix(str(path))}")


def _by_path(name: str, ctx: ResolveContext) -> BenchmarkProfile:
    base = ctx.cwd / expand(name, ctx.config.env)
    for path in (base, *(base.with_name(f"{base.name}{suffix}") for suffix in SUFFIXES)):
        if path.is_file():
            return read_profile(path, name)
    raise ProfileError(f"no benchmark profile {name}", hint="sparkrun registry list-benchmark-profiles")


def _named(ref: str, ctx: ResolveContext) -> BenchmarkProfile:
    registry, _, name = ref.removeprefix("@").partition("/")
    if not name:
        raise ProfileError(f"{ref} names no benchmark profile", hint=f"sparkrun registry list-benchmark-profiles --registry {registry}")
    opened = ctx.manager.open_named(registry, "benchmarks")
    return _chosen(name, opened.folders, opened.failures, ctx)


def _chosen(name: str, folders: Iterable[AssetFolder], failures: tuple[RegistryFailure, ...], ctx: ResolveContext) -> BenchmarkProfile:
    known = tuple(folders)
    asset = the_asset("benchmark profile", name, find_asset_in_registries(name, known))
    if asset:
        return read_profile(asset.path, asset.qualified_name, asset.registry)
    if failures:
        raise ProfileError(f"benchmark profile '{name}' not found; could not look in {', '.join(failure.line for failure in failures)}")
    near = did_you_mean(name, _names(ctx, known))
    raise ProfileError(f"benchmark profile '{name}' not found", hint=near or "sparkrun registry list-benchmark-profiles -a")


def _names(ctx: ResolveContext, folders: Iterable[AssetFolder]) -> Iterator[str]:
    assets: Iterable[RegistryAsset] = (asset for folder in folders for asset in iter_asset_files(folder))
    yield from (asset.stem for asset in assets)
    yield from (name for name, _ in iter_files(own_profiles(ctx), SUFFIXES))
