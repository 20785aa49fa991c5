"""What lists need to know of each recipe, kept on disk so that a second list parses nothing.

A registry's index holds for one commit and is used without looking at a single file; a folder's is compared by size and time of each file.
A file that comes up again with the same content is not parsed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from sparkrun import __version__
from sparkrun.core.errors import SparkrunError
from sparkrun.core.recipe.include import IncludeResolver
from sparkrun.core.recipe.load import load_recipe_text, read_recipe_text
from sparkrun.core.recipe.schema import Recipe, RecipeSource
from sparkrun.core.values import ConfigValue
from sparkrun.utils.files import write_atomic
from sparkrun.utils.jsonio import read_json

_VERSION = f"{__version__}/1"
_PLACE = re.compile(r"(?::(?P<line>\d+)(?::\d+)?)?: ")
_INCLUDE = re.compile(r"^include\s*:", re.MULTILINE)


class RecipeFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a list shows of a recipe. ``gpu_mem`` is a fraction."""

    model: str
    description: str
    runtime: str
    min_nodes: int
    tp: int | None
    gpu_mem: float | None
    builder: str | None


class IndexedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a source: facts of a recipe, the reason why it is none, or neither when it is not meant as one.

    ``file`` is relative to the source, ``digest`` stands for its content, ``includes`` says that the content is not everything.
    """

    name: str
    file: str
    size: int
    mtime_ns: int
    digest: str
    includes: bool
    facts: RecipeFacts | None
    problem: str | None = None


class Index(msgspec.Struct, frozen=True, array_like=True):
    """All files of a source. ``commit`` is empty for a folder without one."""

    version: str
    commit: str
    files: tuple[IndexedFile, ...]


class BrokenRecipe(msgspec.Struct, frozen=True):
    """A file that should be a recipe and is none. ``place`` is its path in the registry's repository, or the whole path."""

    registry: str | None
    name: str
    """What a recipe at this place would be called: its path in the registry without suffix."""
    place: str
    path: str
    reason: str

    @property
    def file(self) -> str:
        """The name without folders."""
        return self.name.rpartition("/")[2]

    @property
    def label(self) -> str:
        """The name that a list would show."""
        return f"@{self.registry}/{self.name}" if self.registry else self.file

    @property
    def line(self) -> str:
        """The one line to tell."""
        return f"{self.registry}: {self.place}: {self.reason}" if self.registry else f"{self.place}: {self.reason}"


class RecipeFolder(NamedTuple):
    """Where recipes lie: how to list the files (name, path), what to call each, and whether other YAML files lie there too."""

    base: Path
    commit: str
    files: Callable[[], Iterable[tuple[str, Path]]]
    source: Callable[[str, Path], RecipeSource]
    is_recipe: Callable[[str], bool]


class IndexReader:
    """Reads folders through their indexes. ``resolve`` finds what recipes include, and must not fetch."""

    def __init__(self, cache_dir: Path, resolve: IncludeResolver, on_parse: Callable[[int], None]) -> None:
        self._dir = cache_dir / "catalog"
        self._resolve = resolve
        self._on_parse = on_parse

    def read(self, folder: RecipeFolder) -> tuple[IndexedFile, ...]:
        """The files of a folder, as they are now or as they are in its commit."""
        path = self._dir / f"{hashlib.sha256(str(folder.base).encode()).hexdigest()[:16]}.json"
        index = _load(path)
        if index and folder.commit and index.commit == folder.commit and not any(map(_may_have_healed, index.files)):
            return index.files
        files = self._scan(folder, index.files if index else ())
        if index is None or index.files != files or index.commit != folder.commit:
            self._save(path, Index(_VERSION, folder.commit, files))
        return files

    def _scan(self, folder: RecipeFolder, known: Sequence[IndexedFile]) -> tuple[IndexedFile, ...]:
        by_file = {entry.file: entry for entry in known}
        found = list(_stats(folder))
        fresh = [stat for stat in found if not _unchanged(by_file.get(stat.file), stat)]
        if fresh:
            self._on_parse(len(fresh))
        read = {stat.file: self._read(folder, stat, by_file.get(stat.file)) for stat in fresh}
        return tuple(read.get(stat.file) or by_file[stat.file] for stat in found)

    def _read(self, folder: RecipeFolder, stat: _FileStat, known: IndexedFile | None) -> IndexedFile:
        try:
            text = read_recipe_text(stat.path)
        except SparkrunError as error:
            return stat.entry("", problem=_reason(error, stat.path))
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        if known and known.digest == digest and not known.includes:
            return stat.entry(digest, facts=known.facts, problem=known.problem)
        if not folder.is_recipe(text):
            return stat.entry(digest)
        includes = bool(_INCLUDE.search(text))
        try:
            recipe = load_recipe_text(text, folder.source(stat.name, stat.path), resolve=self._resolve)
        except SparkrunError as error:
            return stat.entry(digest, includes=includes, problem=_reason(error, stat.path))
        return stat.entry(digest, includes=includes, facts=_facts(recipe))

    def _save(self, path: Path, index: Index) -> None:
        """A cache that cannot be written only costs time."""
        if index.files or path.exists():
            with contextlib.suppress(OSError):
                write_atomic(path, msgspec.json.encode(index).decode())


class _FileStat(NamedTuple):
    name: str
    path: Path
    file: str
    size: int
    mtime_ns: int

    def entry(self, digest: str, *, includes: bool = False, facts: RecipeFacts | None = None, problem: str | None = None) -> IndexedFile:
        return IndexedFile(self.name, self.file, self.size, self.mtime_ns, digest, includes, facts, problem)


def _stats(folder: RecipeFolder) -> Iterator[_FileStat]:
    base = len(str(folder.base).rstrip("/")) + 1
    for name, path in folder.files():
        text = str(path)
        try:
            stat = os.stat(text)  # noqa: PTH116 - once for each of ten thousand files
        except OSError:
            continue
        yield _FileStat(name, path, text[base:], stat.st_size, stat.st_mtime_ns)


def _unchanged(known: IndexedFile | None, stat: _FileStat) -> bool:
    return known is not None and not known.includes and (known.size, known.mtime_ns) == (stat.size, stat.mtime_ns)


def _may_have_healed(entry: IndexedFile) -> bool:
    """What a recipe includes may have been fetched since."""
    return entry.includes and entry.problem is not None


def _load(path: Path) -> Index | None:
    try:
        index = read_json(path.read_bytes(), Index)
    except (OSError, msgspec.MsgspecError):
        return None
    return index if index.version == _VERSION else None


def _facts(recipe: Recipe) -> RecipeFacts:
    defaults = recipe.defaults
    memory = defaults.get("gpu_memory_utilization", defaults.get("mem_fraction_static"))
    tensor = _number(defaults.get("tensor_parallel"))
    description = " ".join(recipe.description.split())
    return RecipeFacts(
        model=recipe.model,
        description=description,
        runtime=recipe.runtime,
        min_nodes=recipe.min_nodes,
        tp=None if tensor is None else int(tensor),
        gpu_mem=_number(memory),
        builder=recipe.builder,
    )


def _number(value: ConfigValue) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _reason(error: SparkrunError, path: Path) -> str:
    """The error without the path, which the line begins with already; the line number goes to the end."""
    rest = error.message.removeprefix(str(path))
    match = _PLACE.match(rest) if rest != error.message else None
    if match is None:
        return error.message
    line = match["line"]
    return f"{rest[match.end() :]} (line {line})" if line else rest[match.end() :]
