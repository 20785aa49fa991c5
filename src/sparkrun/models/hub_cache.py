"""What a Hugging Face hub cache holds, as a host tells it. A path is always one from the hub's folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from sparkrun.core.pins import Pin, read_pin
from sparkrun.utils.shell import Section

FileState = Literal["here", "missing", "outside", "own"]
"""``here``: a link to a blob. ``missing``: a link to nothing. ``outside``: a link that leaves the cache. ``own``: a file, no link."""

BLOCK_BYTES = 512
"""The unit in which find counts what a file takes on the disk."""
INCOMING = ".sparkrun-incoming"
STORE = "blobs"
"""Where the hub's client keeps one copy of a file that several repositories have; their blobs are links into it."""
_MODEL = "models--"
_ENTRY = re.compile(r"(\S) (\S) (\d+) (\d+) ([\d.]+) ([\d.]+) (\S+) (\d+) (.+)", re.DOTALL)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file, folder or link. ``disk_bytes`` is what it takes on the disk, ``links`` how many names it has."""

    path: str
    kind: str
    """``f``, ``d`` or ``l``."""
    target_kind: str
    """The same of what a link leads to; ``N`` where that is missing."""
    size_bytes: int
    disk_bytes: int
    modified_at: float
    accessed_at: float
    inode: str
    """``DEVICE:INODE``."""
    links: int = 1
    target: str | None = None

    @property
    def leads_to(self) -> str | None:
        """The path of a link's target, as far as its text tells; ``None`` for a link that leaves the hub, and for no link."""
        if self.target is None or self.target.startswith("/"):
            return None
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), self.target))
        return None if path.startswith("..") else path


class CachedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a snapshot by its name in the repository. ``size_bytes`` is ``None`` where it is missing."""

    name: str
    state: FileState
    size_bytes: int | None
    blob: str | None = None
    """Name of the blob it leads to: the sha256 of a large file, the sha1 that git gives a small one."""


class CachedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a model."""

    revision: str
    refs: tuple[str, ...]
    """Branches and tags that name it."""
    files: tuple[CachedFile, ...]
    modified_at: float

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that are not here although the snapshot names them."""
        return tuple(file.name for file in self.files if file.state == "missing")


class CachedBlob(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file. ``path`` is where its bytes are: in the model's own folder, or in the cache's store."""

    name: str
    path: str
    size_bytes: int
    disk_bytes: int
    files: tuple[str, ...]
    """``REVISION/NAME`` of the files that lead to it; empty for one that nothing needs."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """What a transfer that broke off has left: a file, or a folder of a model that was on its way."""

    path: str
    disk_bytes: int
    modified_at: float


class CachedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the cache. ``disk_bytes`` counts every blob once, and those of the store that it leads to."""

    repo: str
    folder: str
    snapshots: tuple[CachedSnapshot, ...] = ()
    """The newest first."""
    refs: dict[str, str] = {}
    """Revision by branch or tag."""
    blobs: tuple[CachedBlob, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    gone: tuple[str, ...] = ()
    """``REVISION/NAME`` of files that ``repair`` took out and that are not back."""
    unreadable: tuple[str, ...] = ()
    """Folders of it that this user may not read: what is in them is unknown."""
    linked_to: str | None = None
    """Where the model's folder leads, when it is a link."""
    size_bytes: int = 0
    disk_bytes: int = 0
    last_used_at: float | None = None
    """The last launch by sparkrun or the last reading by anybody, whichever is later; seconds of the epoch."""
    pin: Pin | None = None


class HubCache(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one host at one moment. ``here``: whether there is one at all."""

    host: str
    hub: str
    cache_id: str
    here: bool
    writable: bool
    now: float
    """The host's own clock, seconds of the epoch."""
    free_bytes: int | None
    total_bytes: int | None
    models: tuple[CachedModel, ...] = ()
    entries: dict[str, Entry] = {}
    marked: bool = False
    """Whether its marker was written by this look."""

    def model(self, repo: str) -> CachedModel | None:
        """A model by its id."""
        return next((model for model in self.models if model.repo == repo), None)


def parse_cache(host: str, section: Section) -> HubCache:
    """From what ``model_cache.sh`` says. What it says in a way nobody knows is left out."""
    entries = {entry.path: entry for entry in _entries(section)}
    return HubCache(
        host=host,
        hub=section.text("HUB") or "",
        cache_id=section.text("CACHE_ID") or "",
        here=section.flag("HUB_HERE") is True,
        writable=section.flag("WRITABLE") is True,
        now=float(section.number("NOW") or 0),
        free_bytes=section.kib("FREE_KIB"),
        total_bytes=section.kib("TOTAL_KIB"),
        models=tuple(_Reader(section, entries).models()),
        entries=entries,
        marked=section.flag("MARKED") is True,
    )


def repo_of(folder: str) -> str:
    """The id of the model that a folder of the cache holds."""
    return folder.removeprefix(_MODEL).replace("--", "/")


def below(folder: str, entries: Iterable[Entry]) -> Iterator[Entry]:
    """A folder and everything in it."""
    return (entry for entry in entries if entry.path == folder or entry.path.startswith(f"{folder}/"))


def disk_bytes_of(entries: Iterable[Entry]) -> int:
    """What these take on the disk together: what has several names counts once."""
    return sum({entry.inode: entry.disk_bytes for entry in entries}.values())


def _entries(section: Section) -> Iterator[Entry]:
    waiting: re.Match[str] | None = None
    outside = dict(_sized(text) for text in section.all("OUTSIDE"))
    for key, value in section.pairs:
        if key == "LINK" and waiting:
            yield _entry(waiting, outside, value)
            waiting = None
        elif key == "ENTRY" and (found := _ENTRY.fullmatch(value)):
            waiting = found if found[1] == "l" else None
            if waiting is None:
                yield _entry(found, outside)


def _entry(found: re.Match[str], outside: Mapping[str, int], target: str | None = None) -> Entry:
    kind, target_kind, size, blocks, modified, accessed, inode, links, path = found.groups()
    return Entry(
        path=path,
        kind=kind,
        target_kind=target_kind,
        size_bytes=outside.get(path, int(size)),
        disk_bytes=int(blocks) * BLOCK_BYTES,
        modified_at=float(modified),
        accessed_at=float(accessed),
        inode=inode,
        links=int(links),
        target=target,
    )


def _sized(text: str) -> tuple[str, int]:
    size, _blank, path = text.partition(" ")
    return path, int(size) if size.isdecimal() else 0


class _Reader:
    """Puts the entries of a cache together to models."""

    def __init__(self, section: Section, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._by_folder: dict[str, list[Entry]] = {}
        for entry in entries.values():
            self._by_folder.setdefault(_owner(entry.path), []).append(entry)
        self._refs: dict[str, dict[str, str]] = {}
        for commit, path in section.parted("REF"):
            folder, _slash, name = path.partition("/refs/")
            self._refs.setdefault(folder, {})[name] = commit
        self._linked = dict(section.parted("LINKED"))
        self._unreadable = section.all("UNREADABLE")
        self._pins = {folder: read_pin(text, Pin) for folder, text in section.parted("PIN")}
        self._gone: dict[str, dict[str, None]] = {}
        for folder, file in section.parted("GONE"):
            self._gone.setdefault(folder, {})[file] = None
        self._used = {folder: float(text) for folder, text in section.parted("USED") if text.isdecimal()}

    def models(self) -> Iterator[CachedModel]:
        unread = (_owner(path) for path in self._unreadable)
        folders = dict.fromkeys((*self._by_folder, *unread))
        for folder in sorted(folder for folder in folders if folder.startswith(_MODEL)):
            yield self._model(folder)

    def _model(self, folder: str) -> CachedModel:
        own = self._by_folder.get(folder, [])
        refs = self._refs.get(folder, {})
        snapshots = tuple(sorted(self._snapshots(folder, own, refs), key=lambda snapshot: -snapshot.modified_at))
        blobs = tuple(self._blobs(folder, own, snapshots))
        stored = [self._entries[blob.path] for blob in blobs if blob.path.startswith(f"{STORE}/")]
        content = [entry for entry in (*own, *stored) if entry.kind == "f"]
        read = [self._entries[blob.path].accessed_at for blob in blobs]
        used = [*read, *([self._used[folder]] if folder in self._used else [])]
        return CachedModel(
            repo=repo_of(folder),
            folder=folder,
            snapshots=snapshots,
            refs=dict(sorted(refs.items())),
            blobs=blobs,
            leftovers=tuple(self._leftovers(folder, own)),
            gone=tuple(self._gone.get(folder, ())),
            unreadable=tuple(path for path in self._unreadable if _owner(path) == folder),
            linked_to=self._linked.get(folder),
            size_bytes=sum({entry.inode: entry.size_bytes for entry in content}.values()),
            disk_bytes=disk_bytes_of(content),
            last_used_at=max(used, default=None),
            pin=self._pins.get(folder),
        )

    def _snapshots(self, folder: str, own: Iterable[Entry], refs: Mapping[str, str]) -> Iterator[CachedSnapshot]:
        root = f"{folder}/snapshots/"
        files: dict[str, list[CachedFile]] = {}
        folders: dict[str, Entry] = {}
        for entry in own:
            revision, _slash, name = entry.path.removeprefix(root).partition("/")
            if not entry.path.startswith(root) or revision.startswith("."):
                continue
            if not name:
                folders[revision] = entry
            elif entry.kind != "d":
                files.setdefault(revision, []).append(self._file(name, entry))
        for revision, entry in folders.items():
            named = tuple(sorted(ref for ref, commit in refs.items() if commit == revision))
            found = tuple(sorted(files.get(revision, ()), key=lambda file: file.name))
            yield CachedSnapshot(revision=revision, refs=named, files=found, modified_at=entry.modified_at)

    def _file(self, name: str, entry: Entry) -> CachedFile:
        if entry.kind != "l":
            return CachedFile(name=name, state="own", size_bytes=entry.size_bytes)
        blob = posixpath.basename(entry.leads_to or "") or None
        if entry.target_kind not in "fd":
            return CachedFile(name=name, state="missing", size_bytes=None, blob=blob)
        content = self._content(entry)
        if content is None:
            return CachedFile(name=name, state="outside", size_bytes=entry.size_bytes)
        return CachedFile(name=name, state="here", size_bytes=content.size_bytes, blob=blob)

    def _content(self, entry: Entry) -> Entry | None:
        """The file that a link leads to, over at most one other link; ``None`` where it leaves the cache."""
        for _step in range(3):
            if entry.kind == "f":
                return entry
            found = self._entries.get(entry.leads_to or "")
            if found is None:
                return None
            entry = found
        return None

    def _blobs(self, folder: str, own: Iterable[Entry], snapshots: Iterable[CachedSnapshot]) -> Iterator[CachedBlob]:
        named: dict[str, list[str]] = {}
        for snapshot in snapshots:
            for file in snapshot.files:
                if file.blob:
                    named.setdefault(file.blob, []).append(f"{snapshot.revision}/{file.name}")
        for entry in sorted(own, key=lambda entry: entry.path):
            name = entry.path.removeprefix(f"{folder}/{STORE}/")
            if name == entry.path or "/" in name or entry.kind == "d" or _unfinished(name):
                continue
            if content := self._content(entry):
                size, disk = content.size_bytes, content.disk_bytes
                yield CachedBlob(name=name, path=content.path, size_bytes=size, disk_bytes=disk, files=tuple(named.get(name, ())))

    def _leftovers(self, folder: str, own: Iterable[Entry]) -> Iterator[Leftover]:
        for entry in own:
            half_made = entry.kind == "d" and entry.path.startswith(f"{folder}/snapshots/.") and entry.path.count("/") == 2
            if half_made or (entry.kind == "f" and _unfinished(entry.path)):
                yield Leftover(path=entry.path, disk_bytes=entry.disk_bytes, modified_at=entry.modified_at)
        arriving = self._by_folder.get(f"{INCOMING}/{folder}", [])
        if arriving:
            newest = max(entry.modified_at for entry in arriving)
            yield Leftover(path=f"{INCOMING}/{folder}", disk_bytes=disk_bytes_of(arriving), modified_at=newest)


def _owner(path: str) -> str:
    """The folder of a model that a path is in; of what is on its way in, the one where it grows."""
    first, _slash, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == INCOMING else first


def _unfinished(path: str) -> bool:
    return path.endswith(".incomplete")
