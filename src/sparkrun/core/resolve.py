"""From what a user types to a recipe: address, registry, path, this folder, search paths, registries, in that order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import RecipeError, RecipeNotFoundError, UsageError
from sparkrun.core.events import EventSink, Warn, ignore_events
from sparkrun.core.paths import expand
from sparkrun.core.recipe.include import Included, IncludeResolver, resolve_sibling
from sparkrun.core.recipe.load import load_recipe_text, read_recipe_text
from sparkrun.core.recipe.schema import Recipe, RecipeSource, SourceKind
from sparkrun.core.registry import (
    BUILTIN,
    AssetFolder,
    AssetKind,
    DisabledRegistryError,
    OpenedFolders,
    RegistryAsset,
    RegistryError,
    RegistryManager,
    UnknownRegistryError,
    find_asset_in_registries,
    the_asset,
)
from sparkrun.core.registry.assets import asset_folder, iter_asset_files, iter_files
from sparkrun.core.registry.rules import validate_asset_name
from sparkrun.core.remote_recipe import (
    CATALOG_PREFIX,
    HttpGet,
    RemoteAccess,
    fetch_recipe,
    is_remote,
    remote_cache,
    remote_name,
    remote_url,
)
from sparkrun.utils.text import did_you_mean, nearest

SUFFIXES = (".yaml", ".yml")

_PATH_LIKE = re.compile(r"^[/~]|^\.\.?(?:/|$)|\.ya?ml$")
_MODEL = re.compile(r"^(?:model|'model'|\"model\")\s*:", re.MULTILINE)
_COMPANION = re.compile(r"^(?:containers?|runtime|command|recipe_version|sparkrun_version)\s*:", re.MULTILINE)
_INCLUDE = re.compile(r"^include\s*:", re.MULTILINE)


class ResolveContext(msgspec.Struct, frozen=True):
    """What a look-up needs. ``trust``: the user vouches for this run, so that an address of any host is read."""

    config: SparkrunConfig
    cwd: Path
    manager: RegistryManager
    offline: bool = False
    trust: bool = False
    emit: EventSink = ignore_events
    http: HttpGet | None = None

    @classmethod
    def create(cls, config: SparkrunConfig, cwd: Path, *, offline: bool = False, emit: EventSink = ignore_events) -> ResolveContext:
        """A context with the registries of ``config``."""
        return cls(config, cwd, RegistryManager(config, offline=offline, emit=emit), offline, emit=emit)


def resolve_context(sctx: SparkrunContext) -> ResolveContext:
    """What a look-up needs, from what every operation works with."""
    return ResolveContext.create(sctx.config, sctx.cwd, offline=sctx.offline, emit=sctx.emit)


class FoundRecipe(NamedTuple):
    """The text of a recipe and where it came from."""

    text: str
    source: RecipeSource


def resolve_recipe(ref: str, ctx: ResolveContext) -> Recipe:
    """The recipe that ``ref`` names, with its includes.

    Raises ``RecipeNotFoundError`` with what comes near, ``AmbiguousAssetError`` with the full names, or what reading the recipe raises.
    """
    found = find_recipe(ref, ctx)
    return load_recipe_text(found.text, found.source, resolve=include_resolver(ctx))


def find_recipe(ref: str, ctx: ResolveContext) -> FoundRecipe:
    """The text that ``ref`` names. An address, a path and a recipe of this folder or the search paths touch no registry."""
    if not ref.strip() or "\0" in ref:
        raise RecipeNotFoundError("no recipe is named", hint="sparkrun list")
    if is_remote(ref):
        return _remote(ref, ctx)
    if ref.startswith("@"):
        return _in_registry(ref, ctx)
    if path := _by_path(ref, ctx):
        return _file(path, ctx)
    if _PATH_LIKE.search(ref):
        raise _no_file(ref, ctx)
    validate_asset_name(ref)
    if path := _in_search_paths(ref, ctx):
        return _file(path, ctx)
    return _anywhere(ref, ctx)


def include_resolver(ctx: ResolveContext) -> IncludeResolver:
    """Finds what a recipe includes: a file beside it, never outside its registry's repository, or ``@registry/recipe``."""

    def resolve(reference: str, source: RecipeSource) -> Included:
        if reference.startswith(CATALOG_PREFIX):
            raise RecipeError("a recipe of the catalogue cannot be included", hint="include a file of the same folder, or @registry/recipe")
        if reference.startswith("@"):
            try:
                return Included(*_in_registry(reference, ctx))
            except RegistryError as error:
                raise RecipeError(error.message, hint=error.hint) from error
        included = resolve_sibling(reference, source)
        return _inside_registry(included, source, ctx) if source.registry else included

    return resolve


def open_folders(kind: AssetKind, registry: str | None, ctx: ResolveContext, *, hidden: bool = False) -> OpenedFolders:
    """The files of one registry, or of all that answer without their name; ``hidden``: of the others too.

    What was never fetched is fetched. Raises ``UsageError`` for an unknown or disabled registry: it came from an option.
    """
    if registry is None:
        return ctx.manager.open_all(kind, hidden=hidden)
    try:
        return ctx.manager.open_named(registry, kind)
    except (UnknownRegistryError, DisabledRegistryError) as error:
        raise UsageError(error.message, hint=error.hint) from None


def search_folders(ctx: ResolveContext) -> tuple[Path, ...]:
    """The folders of the user's own recipes: ``./recipes``, the personal one, and ``recipe_paths`` of the configuration."""
    named = (ctx.cwd / expand(text, ctx.config.env) for text in ctx.config.texts("recipe_paths"))
    return tuple(dict.fromkeys((ctx.cwd / "recipes", ctx.config.paths.recipes_dir, *named)))


def looks_like_recipe(text: str) -> bool:
    """Whether a YAML file, perhaps a broken one, is meant as a recipe: it has a model and more, or includes one."""
    return bool(_INCLUDE.search(text) or (_MODEL.search(text) and _COMPANION.search(text)))


def asset_source(asset: RegistryAsset) -> RecipeSource:
    """Where a registry's recipe came from, with the address and trust of this moment."""
    entry = asset.entry
    kind: SourceKind = "builtin" if entry.name == BUILTIN else "registry"
    return RecipeSource(kind, asset.name, path=str(asset.path), registry=entry.name, url=entry.url or None, trusted=entry.trusted)


def _remote(ref: str, ctx: ResolveContext) -> FoundRecipe:
    access = RemoteAccess(ctx.config.paths.cache_dir, ctx.offline, ctx.trust, ctx.emit, ctx.http)
    text, url, _ = fetch_recipe(remote_url(ref), access)
    return FoundRecipe(text, RecipeSource("url", remote_name(ref), url=url))


def _in_registry(ref: str, ctx: ResolveContext) -> FoundRecipe:
    registry, slash, name = ref.removeprefix("@").partition("/")
    if not slash or not name:
        raise RecipeNotFoundError(f"{ref} names no recipe", hint=f"sparkrun list @{registry} shows them")
    opened = ctx.manager.open_named(registry, "recipes")
    asset = the_asset("recipe", ref, find_asset_in_registries(name, opened.folders))
    if asset:
        return FoundRecipe(read_recipe_text(asset.path), asset_source(asset))
    if opened.failures:
        raise RecipeNotFoundError(f"recipe {ref} not found: {opened.failures[0].line}", hint=f"sparkrun registry update {registry}")
    names = [asset.qualified_name for asset in _assets(opened.folders)]
    raise RecipeNotFoundError(f"recipe {ref} not found", hint=did_you_mean(ref, names) or f"sparkrun list @{registry} shows what is there")


def _by_path(ref: str, ctx: ResolveContext) -> Path | None:
    """An existing file. A plain word is one only if the file is meant as a recipe: a folder may hold many other YAML files."""
    base = ctx.cwd / expand(ref, ctx.config.env)
    for path in (base, *(base.with_name(base.name + suffix) for suffix in SUFFIXES if base.name)):
        if _is_file(path) and (_PATH_LIKE.search(ref) or looks_like_recipe(_peek(path))):
            return path
    return None


def _in_search_paths(ref: str, ctx: ResolveContext) -> Path | None:
    folders = [folder for folder in search_folders(ctx) if folder.is_dir()]
    for folder in folders:
        for suffix in SUFFIXES:
            if (path := folder / f"{ref}{suffix}").is_file():
                return path
    nested = (path for folder in folders for name, path in iter_files(folder, SUFFIXES) if name.rpartition("/")[2] == ref)
    return next(nested, None)


def _file(path: Path, ctx: ResolveContext) -> FoundRecipe:
    """A file of the user's own is trusted; one that was fetched is what it was when fetched."""
    fetched = (ctx.manager.trees.root, remote_cache(ctx.config.paths.cache_dir))
    if any(folder.is_dir() and path.resolve().is_relative_to(folder.resolve()) for folder in fetched):
        return FoundRecipe(read_recipe_text(path), _clone_source(path, ctx))
    return FoundRecipe(read_recipe_text(path), RecipeSource("file", path.stem, path=str(path), trusted=True))


def _clone_source(path: Path, ctx: ResolveContext) -> RecipeSource:
    entry = ctx.manager.owner_of(path)
    tree = ctx.manager.root(entry) if entry else None
    folder = asset_folder(entry, "recipes", tree) if entry and tree else None
    if entry is None or folder is None:
        return RecipeSource("file", path.stem, path=str(path))
    name = path.resolve().relative_to(folder.base.resolve()).with_suffix("").as_posix()
    return asset_source(RegistryAsset(entry, "recipes", name, path, folder.root))


def _anywhere(ref: str, ctx: ResolveContext) -> FoundRecipe:
    """A name without a registry. The built-in recipes come first, so that none of them needs a network."""
    own = ctx.manager.open_named(BUILTIN, "recipes")
    asset = the_asset("recipe", ref, find_asset_in_registries(ref, own.folders))
    if asset is None:
        opened = ctx.manager.open_all("recipes")
        for failure in opened.failures:
            ctx.emit(Warn(failure.line))
        asset = the_asset("recipe", ref, find_asset_in_registries(ref, opened.folders))
        if asset is None:
            raise _not_found(ref, ctx, opened)
    return FoundRecipe(read_recipe_text(asset.path), asset_source(asset))


def _inside_registry(included: Included, source: RecipeSource, ctx: ResolveContext) -> Included:
    root = ctx.manager.root(ctx.manager.entry(source.registry or ""))
    path = included.source.path or ""
    if root is None or not Path(path).resolve().is_relative_to(root.resolve()):
        raise RecipeError(f"{path} leads out of the registry's repository")
    folder = source.name.rpartition("/")[0]
    name = f"{folder}/{Path(path).stem}" if folder else Path(path).stem
    return Included(included.text, msgspec.structs.replace(included.source, name=name))


def _no_file(ref: str, ctx: ResolveContext) -> RecipeNotFoundError:
    path = ctx.cwd / expand(ref, ctx.config.env)
    if path.is_dir():
        return RecipeNotFoundError(f"{ref} is a folder, not a recipe file", hint=f"name one of its files: {ref.rstrip('/')}/NAME.yaml")
    try:
        names = {file.stem: file.name for file in path.parent.iterdir() if file.suffix in SUFFIXES}
    except OSError:
        names = {}
    name = re.sub(r"\.ya?ml$", "", path.name)
    near = nearest(name, names)
    hint = f"did you mean '{names[near]}'?" if near else f"a name without .yaml is looked up: {name}"
    return RecipeNotFoundError(f"no recipe file {ref}", hint=hint)


def _not_found(ref: str, ctx: ResolveContext, opened: OpenedFolders) -> RecipeNotFoundError:
    hidden = ctx.manager.on_disk("recipes", (entry for entry in ctx.manager.chosen(hidden=True) if not entry.visible))
    elsewhere = [asset.qualified_name for asset in find_asset_in_registries(ref, hidden.folders)]
    if elsewhere:
        return RecipeNotFoundError(f"recipe '{ref}' not found", hint=f"a hidden registry has it: {', '.join(elsewhere)}")
    names = [
        *_own_names(ctx),
        *(asset.stem for asset in _assets(opened.folders)),
        *(asset.qualified_name for asset in _assets(hidden.folders)),
    ]
    missing = ", ".join(failure.registry for failure in opened.failures)
    unread = f"could not look in {missing}: sparkrun registry update" if missing else ""
    other = next((f"{ref}{suffix}" for suffix in SUFFIXES if _is_file(ctx.cwd / f"{ref}{suffix}")), "")
    unlike = f"./{other} does not look like a recipe; name it with ./ to see why" if other else ""
    hints = [hint for hint in (did_you_mean(ref, names), unlike, unread) if hint]
    return RecipeNotFoundError(f"recipe '{ref}' not found", hint="; ".join(hints) or f"sparkrun search {ref}, or sparkrun registry update")


def _own_names(ctx: ResolveContext) -> Iterator[str]:
    for folder in (folder for folder in search_folders(ctx) if folder.is_dir()):
        for name, _ in iter_files(folder, SUFFIXES):
            yield name.rpartition("/")[2]


def _assets(folders: Iterable[AssetFolder]) -> Iterator[RegistryAsset]:
    for folder in folders:
        yield from iter_asset_files(folder)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _peek(path: Path) -> str:
    """The beginning of a file, enough to see whether it is a recipe."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            return stream.read(256 * 1024)
    except (OSError, UnicodeDecodeError):
        return ""
