"""What is wrong with a model in a cache, what nobody needs, and what removing it frees. Decides, touches nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from sparkrun.models.hub_cache import INCOMING, STORE, CachedBlob, CachedModel, CachedSnapshot, Entry, HubCache, below, disk_bytes_of

STALE_AFTER_S = 900
"""What was written to more recently may still be growing, whatever locks say: not every file system keeps them."""
DAY_S = 86400
BROKEN_OFF = "of a transfer that broke off"
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.\w+)")
_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")

Kind = Literal["missing", "outside", "unfinished", "unreferenced", "detached", "dangling-ref", "unreadable", "empty"]
DAMAGE: frozenset[Kind] = frozenset({"missing", "unreadable", "empty"})
"""What keeps a model from being used; the rest only takes room, or is worth knowing."""


class Problem(msgspec.Struct, frozen=True):
    """Something about a model. ``path`` is a file of a snapshot (``REVISION/NAME``), else a path in the cache."""

    kind: Kind
    path: str
    text: str

    @property
    def damage(self) -> bool:
        """Whether the model cannot be used as it is."""
        return self.kind in DAMAGE


class Removal(msgspec.Struct, frozen=True):
    """A file, a link or a folder with all in it that is to go, and why."""

    path: str
    inode: str
    why: str
    disk_bytes: int
    """What it takes on the disk with all in it."""


class RemovalPlan(msgspec.Struct, frozen=True):
    """What is to go of one model (``repo`` is ``""`` for what belongs to none), and how much the disk gains when all of it goes."""

    repo: str
    removals: tuple[Removal, ...]
    frees_bytes: int
    missing: tuple[str, ...] = ()
    """``REVISION/NAME`` of files that have to come again."""


class Check(msgspec.Struct, frozen=True):
    """How to tell whether a file holds what it should: ``sha256``, ``git`` (its value follows), or ``safetensors`` (its length)."""

    kind: Literal["sha256", "git", "safetensors"]
    value: str
    path: str
    size_bytes: int


def problems_of(model: CachedModel, cache: HubCache) -> tuple[Problem, ...]:
    """Everything, damage first."""
    found = [*_damage(model), *_clutter(model, cache)]
    return tuple(sorted(found, key=lambda problem: not problem.damage))


def detached_snapshots(model: CachedModel) -> tuple[CachedSnapshot, ...]:
    """Those that no branch or tag names. A model that was only ever fetched by commit has no refs: its newest one counts as named."""
    named = {snapshot.revision for snapshot in model.snapshots if snapshot.refs} or {model.snapshots[0].revision if model.snapshots else ""}
    return tuple(snapshot for snapshot in model.snapshots if snapshot.revision not in named)


def unreferenced_blobs(model: CachedModel, without: Collection[str] = ()) -> tuple[CachedBlob, ...]:
    """Blobs that no file leads to, taking the snapshots ``without`` for gone. Unknown where a part cannot be read: then none."""
    if model.unreadable:
        return ()
    return tuple(blob for blob in model.blobs if all(file.partition("/")[0] in without for file in blob.files))


def stale_leftovers(model: CachedModel, cache: HubCache) -> tuple[str, ...]:
    """Paths of what transfers that broke off have left."""
    return tuple(leftover.path for leftover in model.leftovers if cache.now - leftover.modified_at > STALE_AFTER_S)


def plan_delete(model: CachedModel, cache: HubCache) -> RemovalPlan:
    """The whole model, and what only it needs of the cache's store."""
    arriving = [path for path in stale_leftovers(model, cache) if path.startswith(f"{INCOMING}/")]
    stored = _store_paths([model], cache)
    return _plan(model.repo, cache, {path: "the model" for path in (model.folder, *arriving, *stored) if path in cache.entries})


def plan_prune(model: CachedModel, cache: HubCache, *, older_than_days: float | None = None) -> RemovalPlan:
    """What of a model nobody needs: leftovers, snapshots that no ref names, blobs that no file leads to. All of it, when it is that old."""
    if older_than_days is not None and unused_days(model, cache) > older_than_days:
        return plan_delete(model, cache)
    detached = detached_snapshots(model)
    revisions = {snapshot.revision for snapshot in detached}
    names = (f"{model.folder}/{STORE}/{blob.name}" for blob in unreferenced_blobs(model, revisions))
    gone = {path for path in names if _old(cache.entries[path], cache)}
    reasons = dict.fromkeys(stale_leftovers(model, cache), BROKEN_OFF)
    reasons |= {f"{model.folder}/snapshots/{revision}": "no branch or tag names this snapshot" for revision in revisions}
    reasons |= dict.fromkeys((*gone, *(_store_of(gone, cache) if gone else ())), "no file leads to it")
    return _plan(model.repo, cache, reasons)


def plan_prune_rest(cache: HubCache) -> RemovalPlan:
    """What belongs to no model: parts of the store that nothing leads to, and what an interrupted removal has left."""
    reasons = {path: "no repository leads to it" for path in _store_of((), cache) if _old(cache.entries[path], cache)}
    for entry in cache.entries.values():
        head, _slash, rest = entry.path.partition("/")
        if head == INCOMING and rest.startswith("removing.") and "/" not in rest:
            reasons[entry.path] = "of a removal that broke off"
    return _plan("", cache, reasons)


def plan_repair(model: CachedModel, cache: HubCache, wrong: Collection[str] = ()) -> RemovalPlan:
    """What is damaged, so that it comes again: links to nothing, leftovers, and the blobs ``wrong`` (paths) with the links to them."""
    reasons = dict.fromkeys(stale_leftovers(model, cache), BROKEN_OFF)
    links = (entry for entry in below(f"{model.folder}/{STORE}", cache.entries.values()) if entry.kind == "l")
    reasons |= {entry.path: "it leads to nothing" for entry in links if entry.target_kind not in "fd"}
    missing: list[str] = []
    for blob in model.blobs:
        if blob.path in wrong:
            reasons |= {blob.path: "its content is wrong", f"{model.folder}/{STORE}/{blob.name}": "its content is wrong"}
            reasons |= {f"{model.folder}/snapshots/{file}": "it leads to wrong content" for file in blob.files}
            missing += blob.files
    for snapshot in model.snapshots:
        for name in snapshot.missing:
            file = f"{snapshot.revision}/{name}"
            reasons[f"{model.folder}/snapshots/{file}"] = "it leads to nothing"
            missing.append(file)
    return _plan(model.repo, cache, reasons, tuple(dict.fromkeys(missing)))


def unused_days(model: CachedModel, cache: HubCache) -> float:
    """Days since its last use; 0 where nobody knows."""
    return max(0.0, (cache.now - model.last_used_at) / DAY_S) if model.last_used_at else 0.0


def checks_of(model: CachedModel, *, quick: bool = False) -> tuple[Check, ...]:
    """How each blob of a model can be checked, the largest first; ``quick``: by its head alone. Blobs named otherwise are left out."""
    found = _quick_checks(model) if quick else _full_checks(model)
    return tuple(sorted(found, key=lambda check: -check.size_bytes))


def uncheckable(model: CachedModel) -> tuple[str, ...]:
    """Files whose content nothing says: no link to a blob, or to one that is not named after its content."""
    odd = {blob.name for blob in model.blobs if not (_SHA256.fullmatch(blob.name) or _SHA1.fullmatch(blob.name))}
    return tuple(
        f"{snapshot.revision}/{file.name}"
        for snapshot in model.snapshots
        for file in snapshot.files
        if file.state in ("own", "outside") or (file.blob in odd and file.state == "here")
    )


def short_blobs(model: CachedModel, others: Iterable[CachedModel]) -> tuple[CachedBlob, ...]:
    """Blobs that are shorter here than under the same name in another cache: of one content, so at most the longest is whole."""
    longest: Counter[str] = Counter()
    for other in others:
        for blob in other.blobs:
            longest[blob.name] = max(longest[blob.name], blob.size_bytes)
    return tuple(blob for blob in model.blobs if blob.size_bytes < longest[blob.name])


def freed_bytes(paths: Iterable[str], cache: HubCache) -> int:
    """What the disk gains when these go, with all in them. What keeps another name frees nothing."""
    doomed = {entry.path: entry for path in paths for entry in _inside(path, cache)}
    names = Counter(entry.inode for entry in doomed.values())
    gone = {entry.inode: entry.disk_bytes for entry in doomed.values() if entry.kind == "d" or names[entry.inode] >= entry.links}
    return sum(gone.values())


def _plan(repo: str, cache: HubCache, reasons: Mapping[str, str], missing: tuple[str, ...] = ()) -> RemovalPlan:
    here = {path: why for path, why in reasons.items() if path in cache.entries}
    top = {path: why for path, why in here.items() if not any(parent in here for parent in _parents(path))}
    removals = tuple(_removal(cache, path, why) for path, why in top.items())
    return RemovalPlan(repo, removals, freed_bytes(top, cache), missing)


def _removal(cache: HubCache, path: str, why: str) -> Removal:
    return Removal(path, cache.entries[path].inode.rpartition(":")[2], why, disk_bytes_of(_inside(path, cache)))


def _inside(path: str, cache: HubCache) -> Iterable[Entry]:
    entry = cache.entries.get(path)
    if entry is None:
        return ()
    return below(path, cache.entries.values()) if entry.kind == "d" else (entry,)


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _store_paths(models: Iterable[CachedModel], cache: HubCache) -> tuple[str, ...]:
    """Parts of the store that only these models lead to."""
    gone = {entry.path for model in models for entry in below(model.folder, cache.entries.values())}
    return _store_of(gone, cache) if gone else ()


def _store_of(gone: Collection[str], cache: HubCache) -> tuple[str, ...]:
    """Content of the store, and the list beside it, that loses its last link when ``gone`` go; with nothing gone, that has none now."""
    links = [entry for entry in cache.entries.values() if entry.kind == "l" and (entry.leads_to or "").startswith(f"{STORE}/")]
    kept = {entry.leads_to for entry in links if entry.path not in gone}
    lost = {entry.leads_to for entry in links if entry.path in gone}
    content = [path for path in cache.entries if _stored(path) and path not in kept and (path in lost or not gone)]
    return tuple(part for path in content for part in (path, f"{path}.refs") if part in cache.entries)


def _stored(path: str) -> bool:
    head, _slash, rest = path.partition("/")
    return head == STORE and _SHA256.fullmatch(rest.partition("/")[2]) is not None


def _old(entry: Entry, cache: HubCache) -> bool:
    return cache.now - entry.modified_at > STALE_AFTER_S


def _damage(model: CachedModel) -> Iterator[Problem]:
    for path in model.unreadable:
        yield Problem("unreadable", path, "this user may not read it")
    if not model.snapshots and not model.unreadable:
        yield Problem("empty", model.folder, "it has no snapshot")
    for file in model.gone:
        yield Problem("missing", file, "repair took it out, and it is not back")
    for snapshot in model.snapshots:
        for name in snapshot.missing:
            yield Problem("missing", f"{snapshot.revision}/{name}", "it leads to a file that is not here")
        for name in _missing_shards(snapshot):
            yield Problem("missing", f"{snapshot.revision}/{name}", "its other parts are here, this one is not")


def _missing_shards(snapshot: CachedSnapshot) -> Iterator[str]:
    names = {file.name for file in snapshot.files}
    groups = dict.fromkeys((found[1], found[3], found[4]) for name in names if (found := _SHARD.fullmatch(name)))
    for stem, total, ending in groups:
        wanted = (f"{stem}-{number:05d}-of-{total}{ending}" for number in range(1, int(total) + 1))
        yield from (name for name in wanted if name not in names)


def _clutter(model: CachedModel, cache: HubCache) -> Iterator[Problem]:
    for snapshot in model.snapshots:
        for file in snapshot.files:
            if file.state == "outside":
                yield Problem("outside", f"{snapshot.revision}/{file.name}", "it leads out of the cache")
    for snapshot in detached_snapshots(model):
        yield Problem("detached", snapshot.revision, "no branch or tag names this snapshot")
    for blob in unreferenced_blobs(model):
        yield Problem("unreferenced", f"{model.folder}/{STORE}/{blob.name}", "no file leads to it")
    for leftover in model.leftovers:
        age_s = cache.now - leftover.modified_at
        text = BROKEN_OFF if age_s > STALE_AFTER_S else "written to within the last 15 minutes: it may be on its way"
        yield Problem("unfinished", leftover.path, text)
    revisions = {snapshot.revision for snapshot in model.snapshots}
    for ref, commit in model.refs.items():
        if commit not in revisions:
            yield Problem("dangling-ref", f"{model.folder}/refs/{ref}", f"it names {commit}, which is not here")


def _full_checks(model: CachedModel) -> Iterator[Check]:
    for blob in model.blobs:
        if _SHA256.fullmatch(blob.name):
            yield Check("sha256", blob.name, blob.path, blob.size_bytes)
        elif _SHA1.fullmatch(blob.name):
            yield Check("git", blob.name, blob.path, blob.size_bytes)


def _quick_checks(model: CachedModel) -> Iterator[Check]:
    for blob in model.blobs:
        if any(file.endswith(".safetensors") for file in blob.files):
            yield Check("safetensors", "-", blob.path, blob.size_bytes)
