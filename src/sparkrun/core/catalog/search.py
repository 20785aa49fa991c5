"""Recipes by text, registry and runtime, over this folder, the search paths and the registries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sparkrun.core.catalog.index import BrokenRecipe, IndexedFile, IndexReader, RecipeFolder
from sparkrun.core.errors import UsageError
from sparkrun.core.events import Note
from sparkrun.core.recipe.detect import RUNTIME_NAMES, canonical_runtime, matches_runtime, runtime_family
from sparkrun.core.recipe.include import IncludeResolver
from sparkrun.core.recipe.schema import RecipeSource
from sparkrun.core.registry import (
    AssetFolder,
    RegistryAsset,
    RegistryFailure,
    RegistryManager,
    iter_asset_files,
)
from sparkrun.core.registry.assets import iter_files
from sparkrun.core.resolve import SUFFIXES, ResolveContext, asset_source, include_resolver, looks_like_recipe, open_folders, search_folders
from sparkrun.utils.text import did_you_mean

_WORTH_TELLING = 100
"""Parsing this many recipes takes long enough to say so."""


class CatalogQuery(msgspec.Struct, frozen=True):
    """``text`` may begin with ``@registry``; ``hidden`` takes hidden registries too; ``unique_names`` keeps the first of a short name."""

    text: str = ""
    registry: str | None = None
    runtime: str | None = None
    hidden: bool = False
    unique_names: bool = False

    @property
    def words(self) -> str:
        """The text without a registry in front."""
        return (self.text.partition("/")[2] if self.text.startswith("@") else self.text).strip()


class CatalogItem(msgspec.Struct, frozen=True):
    """One recipe; the fields in this order are the documented JSON. ``gpu_mem`` is a fraction; ``registry`` is null for a local file."""

    name: str
    file: str
    path: str
    model: str
    description: str | None
    runtime: str
    min_nodes: int
    tp: int | None
    gpu_mem: float | None
    builder: str | None
    registry: str | None


class CatalogResult(msgspec.Struct, frozen=True):
    """What was found, the files that are broken (whatever was asked for), and the registries that could not be read."""

    items: tuple[CatalogItem, ...]
    broken: tuple[BrokenRecipe, ...] = ()
    failures: tuple[RegistryFailure, ...] = ()

    def broken_of(self, query: CatalogQuery) -> tuple[BrokenRecipe, ...]:
        """The broken files whose name answers to the query; what runtime they are for nobody knows."""
        wanted = query.words.casefold()
        return () if query.runtime else tuple(file for file in self.broken if wanted in file.label.casefold())


def search_recipes(query: CatalogQuery, ctx: ResolveContext) -> CatalogResult:
    """The recipes of a query: local ones first, then in registry order, each by path. A registry never seen is fetched unless offline.

    Raises ``UsageError`` for an unknown or disabled registry, an unknown runtime, and a text that contradicts ``registry``.
    """
    registry, text = _scope(query)
    opened = open_folders("recipes", registry, ctx, hidden=query.hidden)
    reader = IndexReader(ctx.config.paths.cache_dir, _fetchless_resolver(ctx), lambda count: _tell_parsing(count, ctx))
    sources = [*(() if registry else _local(ctx)), *(_registry_source(folder) for folder in opened.folders)]
    read = [(source, reader.read(source.folder)) for source in sources]
    items = list({item.path: item for source, files in read for item in _items(source, files)}.values())
    matches = _matcher(text, query.runtime, items)
    found = (item for item in items if matches(item))
    chosen = _first_of_each_name(found) if query.unique_names else found
    broken = tuple(source.broken(file, file.problem) for source, files in read for file in files if file.problem)
    return CatalogResult(tuple(chosen), broken, opened.failures)


class _Source(NamedTuple):
    """Recipes that are listed together. ``shown`` is the folder that paths begin with, ``inside`` its place in the repository."""

    registry: str | None
    shown: Path
    inside: str
    folder: RecipeFolder

    def broken(self, file: IndexedFile, reason: str) -> BrokenRecipe:
        path = f"{self.shown}/{file.file}"
        return BrokenRecipe(self.registry, file.name, f"{self.inside}{file.file}" if self.registry else path, path, reason)


def _scope(query: CatalogQuery) -> tuple[str | None, str]:
    if not query.text.startswith("@"):
        return query.registry, query.words
    named = query.text.removeprefix("@").partition("/")[0]
    if query.registry and query.registry != named:
        raise UsageError(f"'{query.text}' and --registry {query.registry} name two registries", hint="give one of them")
    return named, query.words


def _local(ctx: ResolveContext) -> Iterator[_Source]:
    """This folder itself, then the search paths with all below them."""
    folders = search_folders(ctx)
    if ctx.cwd not in folders:
        yield _folder_source(ctx.cwd, lambda: _flat(ctx.cwd))
    for folder in folders:
        if folder.is_dir():
            yield _folder_source(folder, lambda folder=folder: iter_files(folder, SUFFIXES))  # type: ignore[misc]


def _folder_source(base: Path, files: Callable[[], Iterable[tuple[str, Path]]]) -> _Source:
    def source(name: str, path: Path) -> RecipeSource:
        return RecipeSource("file", name.rpartition("/")[2], path=str(path), trusted=True)

    return _Source(None, base, "", RecipeFolder(base, "", files, source, looks_like_recipe))


def _flat(folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        files = {path.name for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()}
    except OSError:
        return
    for name in sorted(files):
        stem = name.removesuffix(".yaml").removesuffix(".yml")
        if name.endswith(".yaml") or f"{stem}.yaml" not in files:
            yield stem, folder / name


def _registry_source(folder: AssetFolder) -> _Source:
    def files() -> Iterator[tuple[str, Path]]:
        return ((asset.name, asset.path) for asset in iter_asset_files(folder))

    def source(name: str, path: Path) -> RecipeSource:
        return asset_source(RegistryAsset(folder.entry, "recipes", name, path, folder.root))

    def is_recipe(text: str) -> bool:
        return not folder.whole_repository or looks_like_recipe(text)

    inside = "" if folder.whole_repository else f"{folder.base.relative_to(folder.root).as_posix()}/"
    return _Source(folder.entry.name, folder.base, inside, RecipeFolder(folder.base, folder.commit or "", files, source, is_recipe))


def _items(source: _Source, files: tuple[IndexedFile, ...]) -> Iterator[CatalogItem]:
    stems = Counter(file.name.rpartition("/")[2] for file in files if file.facts)
    base = f"{source.shown}/"
    for file in sorted(files, key=lambda file: file.file):
        if facts := file.facts:
            stem = file.name.rpartition("/")[2]
            label = f"@{source.registry}/{stem if stems[stem] == 1 else file.name}" if source.registry else stem
            yield CatalogItem(
                name=label,
                file=stem,
                path=base + file.file,
                model=facts.model,
                description=facts.description or None,
                runtime=facts.runtime,
                min_nodes=facts.min_nodes,
                tp=facts.tp,
                gpu_mem=facts.gpu_mem,
                builder=facts.builder,
                registry=source.registry,
            )


def _matcher(text: str, runtime: str | None, items: list[CatalogItem]) -> Callable[[CatalogItem], bool]:
    wanted = text.casefold()
    runtimes = {item.runtime for item in items}
    if runtime is not None:
        known = {*RUNTIME_NAMES, *runtimes, *map(runtime_family, runtimes)}
        if canonical_runtime(runtime).lower() not in {name.lower() for name in known}:
            raise UsageError(
                f"unknown runtime '{runtime}'", hint=did_you_mean(runtime, sorted(known)) or f"runtimes: {', '.join(sorted(known))}"
            )
        runtimes = {name for name in runtimes if matches_runtime(runtime, name)}

    def matches(item: CatalogItem) -> bool:
        if item.runtime not in runtimes:
            return False
        return not wanted or any(wanted in field.casefold() for field in (item.name, item.file, item.model, item.description or ""))

    return matches


def _first_of_each_name(items: Iterable[CatalogItem]) -> Iterator[CatalogItem]:
    seen: set[str] = set()
    for item in items:
        if item.file not in seen:
            seen.add(item.file)
            yield item


def _fetchless_resolver(ctx: ResolveContext) -> IncludeResolver:
    quiet = RegistryManager(ctx.config, offline=True)
    return include_resolver(msgspec.structs.replace(ctx, manager=quiet, offline=True))


def _tell_parsing(count: int, ctx: ResolveContext) -> None:
    if count >= _WORTH_TELLING:
        ctx.emit(Note(f"reading {count} recipes for the first time"))
