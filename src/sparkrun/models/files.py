"""The files of a model in a Hugging Face hub cache: which are wanted, what hosts lack, and the streams that bring it. Touches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from sparkrun.core.model_source import ModelSource
from sparkrun.utils.shell import Section, quote

Selection = Literal["auto", "all", "safetensors"]
ALONE_BYTES = 64 * 1024 * 1024
"""Files of this size and more are worth a stream of their own."""
ALTERNATIVE_WEIGHTS = (
    "pytorch_model*.bin", "consolidated*", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf", "original/*", "metal/*", "flax_model*",
    "tf_model*", "*.onnx", "onnx/*",
)  # fmt: skip
"""The same weights once more, in formats that no engine reads where there are safetensors."""


class HubFile(msgspec.Struct, frozen=True):
    """A file of a snapshot. ``blob`` is the name of the file in ``blobs`` that holds it, empty where it lies in the snapshot itself."""

    path: str
    size: int
    blob: str = ""
    commit: str = ""
    """The snapshot of a file without a blob: another one may have another file of the same name and size."""

    @property
    def key(self) -> str:
        """The name of its blob, or one made up for a file without: it gets one where it is copied to."""
        return self.blob or f"sparkrun-{hashlib.sha256(f'{self.commit} {self.path} {self.size}'.encode()).hexdigest()[:32]}"


class HubStock(msgspec.Struct, frozen=True):
    """What a host's cache has of one model."""

    free_bytes: int | None = None
    refs: dict[str, str] = {}
    """Commit, by the name of a branch or tag."""
    files: dict[str, tuple[HubFile, ...]] = {}
    """The files of each snapshot, by commit."""
    blobs: dict[str, int] = {}
    """Sizes of whole blobs, in place or still aside."""
    parts: dict[str, int] = {}
    """Sizes of what has come of others."""

    def commit_of(self, revision: str) -> str | None:
        """The commit that a revision stands for: a branch or tag, or a commit itself; without one the main branch, else the only one."""
        if revision:
            return self.refs.get(revision) or (revision if revision in self.files else None)
        return self.refs.get("main") or (next(iter(self.files)) if len(self.files) == 1 else None)

    def lacks(self, file: HubFile) -> int:
        """How many bytes of a file have yet to come."""
        return 0 if self.blobs.get(file.key) == file.size else file.size - self.has_of(file)

    def has_of(self, file: HubFile) -> int:
        """How many bytes of a file have come in part."""
        return min(self.parts.get(file.key, 0), file.size)


class Entry(msgspec.Struct, frozen=True):
    """A file inside a stream, from a byte on. ``takers`` are the hosts that lack it."""

    file: HubFile
    start: int
    takers: frozenset[str]

    @property
    def size(self) -> int:
        """How many bytes of it the stream holds."""
        return self.file.size - self.start


def repo_folder(repo: str) -> str:
    """The folder of a repository in a hub's cache."""
    return f"models--{repo.replace('/', '--')}"


def patterns_of(model: ModelSource) -> tuple[str, ...]:
    """The files of a quantisation, its projectors and its settings; every file where none is named."""
    if model.quant is None:
        return ()
    quants = dict.fromkeys((model.quant, model.quant.upper(), model.quant.lower()))
    return (*(f"*{quant}*" for quant in quants), "*mmproj*", "*.json")


def parse_hub_stock(section: Section) -> HubStock:
    """The answers of ``hub_stock.sh``. A name that cannot be told apart from what stands around it is left out."""
    files: dict[str, list[HubFile]] = {}
    for told, size in _sized(section.all("FILE")):
        path, _tab, blob = told.rpartition("\t")
        commit, slash, inner = path.partition("/")
        if slash and not commit.startswith("."):
            files.setdefault(commit, []).append(HubFile(inner, size, blob, "" if blob else commit))
    parts = dict(_sized(section.all("PART")))
    whole = {name: size for name, size in parts.items() if not name.endswith((".part", ".incomplete"))}
    return HubStock(
        free_bytes=section.kib("FREE_KIB"),
        refs={name: commit for name, _tab, commit in (line.rpartition("\t") for line in section.all("REF"))},
        files={commit: tuple(sorted(found, key=lambda file: file.path)) for commit, found in files.items()},
        blobs={**dict(_sized(section.all("BLOB"))), **whole},
        parts={name.removesuffix(".part"): size for name, size in parts.items() if name.endswith(".part")},
    )


def wanted_files(files: Iterable[HubFile], model: ModelSource, selection: Selection = "auto") -> tuple[HubFile, ...]:
    """The files of a snapshot that an engine needs of it.

    Of a GGUF repository with a quantisation its files, projectors and settings; where there are safetensors, no weights in other formats;
    else all.
    """
    found = tuple(files)
    if selection == "all":
        return found
    if patterns := patterns_of(model):
        return tuple(file for file in found if any(fnmatchcase(file.path, pattern) for pattern in patterns))
    if any("/" not in file.path and file.path.endswith(".safetensors") for file in found):
        return tuple(file for file in found if not any(fnmatchcase(file.path, pattern) for pattern in ALTERNATIVE_WEIGHTS))
    return found


def plan_streams(files: Iterable[HubFile], targets: Mapping[str, HubStock], streams: int) -> tuple[tuple[Entry, ...], ...]:
    """What each of several parallel streams holds: of every file what any target lacks of it, from the first byte that one of them lacks.

    Big files come first and are shared out evenly by size; small ones share a stream.
    """
    unique = {file.key: file for file in files}
    entries = sorted(filter(None, (_entry(file, targets) for file in unique.values())), key=lambda entry: -entry.size)
    bins = max(1, min(streams, sum(entry.size >= ALONE_BYTES for entry in entries)))
    loads: list[list[Entry]] = [[] for _ in range(bins)]
    for entry in entries:
        min(loads, key=lambda load: sum(held.size for held in load)).append(entry)
    return tuple(tuple(load) for load in loads if load)


def read_script(hub: str, repo: str, commit: str, entries: Iterable[Entry]) -> str:
    """Bash that prints what a stream holds, from a host's cache."""
    lines = [f"cd -- {quote(f'{hub}/{repo_folder(repo)}')} || exit"]
    for entry in entries:
        path = f"blobs/{entry.file.blob}" if entry.file.blob else f"snapshots/{commit}/{entry.file.path}"
        skip = f" skip={entry.start}" if entry.start else ""
        lines.append(f"dd if={quote(path)} bs=1M iflag=skip_bytes,count_bytes,fullblock{skip} count={entry.size} status=none || exit")
    return "\n".join(lines) + "\n"


def bytes_lacking(files: Iterable[HubFile], stock: HubStock) -> int:
    """How many bytes of some files have yet to come to a host."""
    return sum(stock.lacks(file) for file in {file.key: file for file in files}.values())


def _entry(file: HubFile, targets: Mapping[str, HubStock]) -> Entry | None:
    takers = frozenset(host for host, stock in targets.items() if stock.blobs.get(file.key) != file.size)
    if not takers:
        return None
    return Entry(file, min(targets[host].has_of(file) for host in takers), takers)


def link_lines(files: Sequence[HubFile]) -> Iterator[str]:
    """The files of a snapshot as ``hub_keep.sh`` takes them."""
    return (f"{file.size}\t{file.key}\t{file.path}" for file in files)


def _sized(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Name and size; what follows a line break in a name has no size."""
    for line in lines:
        size, _tab, name = line.partition("\t")
        if size.isdecimal():
            yield name, int(size)
