"""``include``: a recipe that stands on another one. The base comes first, the including recipe on top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sparkrun.core.errors import RecipeError, RecipeNotFoundError, RecipeSyntaxError
from sparkrun.core.recipe.places import Document, Duplicate, KeyPath, Position
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.schema import RecipeSource

MAX_DEPTH = 8
"""Recipes in one chain of includes."""

_ATOMIC: frozenset[KeyPath] = frozenset({("defaults",), ("env",)})
"""Mappings whose values are replaced whole: half of an old ``speculative_config`` under a new one helps nobody."""


class Included(NamedTuple):
    """The text of an included recipe and where it came from."""

    text: str
    source: RecipeSource


IncludeResolver = Callable[[str, RecipeSource], Included]
"""Finds what ``include`` names, seen from the recipe that says so. Raises ``RecipeError``."""


class Flattened(NamedTuple):
    """A document with its includes worked in, its source (trusted only if the whole chain is), and how many recipes it stands on."""

    document: Document
    source: RecipeSource
    depth: int


def flatten(document: Document, source: RecipeSource, resolve: IncludeResolver) -> Flattened:
    """The document with every include worked in. Raises ``RecipeError`` for a cycle, a chain too long or a version 1 recipe."""
    return _flatten(document, source, resolve, (_identity(source),))


def resolve_sibling(reference: str, source: RecipeSource) -> Included:
    """A recipe file in the same folder. Knows no registries."""
    if reference.startswith("@"):
        raise RecipeNotFoundError(f"cannot look up {reference} here", hint="include a file of the same folder")
    if source.path is None or source.kind in ("url", "text"):
        raise RecipeError(f"{source.ref} has no folder to find {reference} in", hint="only a recipe file can include another")
    if "/" in reference or "\\" in reference or reference in ("", ".", ".."):
        raise RecipeError(f"include must be the name of a file in the same folder, or @registry/recipe, not {reference!r}")
    path = Path(source.path).with_name(reference)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RecipeNotFoundError(f"no recipe file {path}", hint="include names a file of the same folder") from None
    except UnicodeDecodeError as error:
        raise RecipeSyntaxError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise RecipeError(f"cannot read {path}: {error.strerror}") from error
    return Included(text, msgspec.structs.replace(source, path=str(path), name=path.stem))


def _flatten(document: Document, source: RecipeSource, resolve: IncludeResolver, chain: tuple[str, ...]) -> Flattened:
    reference = document.value.get("include")
    if reference is None:
        return Flattened(document, source, 0)
    where = document.where("include")
    if not isinstance(reference, str):
        raise RecipeSyntaxError(f"{where}: include must be text")
    if _is_version_1(document):
        raise InvalidRecipeError(where, "a recipe of version 1 cannot include another", hint='write recipe_version: "2"')
    try:
        text, base_source = resolve(reference, source)
    except RecipeError as error:
        raise InvalidRecipeError(where, error.message, hint=error.hint) from error
    from sparkrun.core.recipe.source import read_document  # with YAML, which loads slowly; a list reads what is kept

    base_document = read_document(text, base_source.path or base_source.ref)
    base_chain = (*chain, _identity(base_source))
    _check_base(base_document, base_chain, where)
    base = _flatten(base_document, base_source, resolve, base_chain)
    merged_source = msgspec.structs.replace(source, trusted=source.trusted and base.source.trusted)
    return Flattened(merge_documents(_qualified(base), document), merged_source, base.depth + 1)


def _check_base(document: Document, chain: tuple[str, ...], where: str) -> None:
    if chain[-1] in chain[:-1]:
        raise InvalidRecipeError(where, f"include goes in a circle: {' → '.join(chain)}")
    if len(chain) > MAX_DEPTH:
        raise InvalidRecipeError(where, f"includes go deeper than {MAX_DEPTH} recipes")
    if _is_version_1(document):
        message = f"{document.name} is a recipe of version 1, which cannot be included"
        raise InvalidRecipeError(where, message, hint="sparkrun export recipe makes it version 2")


def _is_version_1(document: Document) -> bool:
    said = document.value.get("sparkrun_version") or document.value.get("recipe_version")
    return str(said).strip().removesuffix(".0") == "1"


def _identity(source: RecipeSource) -> str:
    return source.ref if source.registry else str(source.path or source.ref)


def _qualified(base: Flattened) -> Document:
    """Mods of a registry's recipe say which registry they come from."""
    registry, mods = base.source.registry, base.document.value.get("mods")
    if not registry or not isinstance(mods, list):
        return base.document
    named = [mod if not isinstance(mod, str) or mod.startswith("@") else f"@{registry}/{mod.removeprefix('mods/')}" for mod in mods]
    return base.document._replace(value={**base.document.value, "mods": named})


def merge_documents(base: Document, outer: Document) -> Document:
    """``outer`` on top of ``base``.

    An empty value removes the base's key, mappings merge, ``overrides`` follow those of the base, other lists replace.
    """
    merge = _Merge(base, outer)
    value = merge.mappings(base.value, outer.value, ())
    duplicates = (*(_duplicate_in(duplicate, base.name) for duplicate in base.duplicates), *outer.duplicates)
    return Document(outer.name, value, merge.positions, duplicates, merge.spellings)


class _Merge:
    """Merges values, and keeps for each key the place where its value was written."""

    def __init__(self, base: Document, outer: Document) -> None:
        self._outer = outer
        self.positions = {path: _in_file(position, base.name) for path, position in base.positions.items()}
        self.spellings = dict(base.spellings)

    def mappings(self, base: Mapping[Any, Any], outer: Mapping[Any, Any], path: KeyPath) -> dict[Any, Any]:
        merged = dict(base)
        for key, value in outer.items():
            inner = (*path, key)
            if value is None and key in base:
                self._forget(inner)
                del merged[key]
            elif isinstance(value, Mapping) and isinstance(base.get(key), Mapping) and path not in _ATOMIC:
                self._place(inner)
                merged[key] = self.mappings(base[key], value, inner)
            elif inner == ("overrides",) and isinstance(value, list) and isinstance(base.get(key), list):
                self._take(inner, shift=len(base[key]))
                merged[key] = [*base[key], *value]
            else:
                self._forget(inner)
                self._take(inner)
                merged[key] = value
        return merged

    def _forget(self, path: KeyPath) -> None:
        self.positions = {inner: position for inner, position in self.positions.items() if inner[: len(path)] != path}
        self.spellings = {inner: spelling for inner, spelling in self.spellings.items() if inner[: len(path)] != path}

    def _place(self, path: KeyPath) -> None:
        if position := self._outer.positions.get(path):
            self.positions[path] = position

    def _take(self, path: KeyPath, shift: int = 0) -> None:
        """Takes over every place at and below a path; ``shift`` is added to the number of a list's entry."""
        depth = len(path)
        for inner, position in self._outer.positions.items():
            if inner[:depth] == path:
                self.positions[_shifted(inner, depth, shift)] = position
        for inner, spelling in self._outer.spellings.items():
            if inner[:depth] == path:
                self.spellings[_shifted(inner, depth, shift)] = spelling


def _shifted(path: KeyPath, depth: int, shift: int) -> KeyPath:
    entry = path[depth] if shift and len(path) > depth else None
    return (*path[:depth], entry + shift, *path[depth + 1 :]) if isinstance(entry, int) else path


def _in_file(position: Position, file: str) -> Position:
    return position if position.file else position._replace(file=file)


def _duplicate_in(duplicate: Duplicate, file: str) -> Duplicate:
    return duplicate._replace(first=_in_file(duplicate.first, file), second=_in_file(duplicate.second, file))
