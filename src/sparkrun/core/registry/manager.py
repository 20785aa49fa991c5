"""The registries of a user: which there are, where their files lie, and every change to them. Returns values, prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import Detail, EventSink, Note, Warn, ignore_events
from sparkrun.core.registry.assets import AssetFolder, asset_folder
from sparkrun.core.registry.defaults import is_default
from sparkrun.core.registry.errors import DisabledRegistryError, RegistryError, UnknownRegistryError
from sparkrun.core.registry.model import FORMAT, AssetKind, RegistryEntry, builtin_entry, builtin_root
from sparkrun.core.registry.results import (
    AddResult,
    ChangeResult,
    OpenedFolders,
    RegistryFailure,
    RegistryInfo,
    RevertResult,
    UpdateReport,
)
from sparkrun.core.registry.rules import BUILTIN, mask_url, validate_new_url
from sparkrun.core.registry.store import RegistryState, RegistryStore
from sparkrun.core.registry.trees import Trees, head_commit
from sparkrun.utils.text import did_you_mean

if TYPE_CHECKING:
    from sparkrun.core.registry.clones import Clones
    from sparkrun.core.registry.git import Git


class RegistryManager:
    """Reads ``registries.yaml`` once and fetches nothing unless a method says so. ``offline`` forbids every fetch."""

    def __init__(self, config: SparkrunConfig, *, offline: bool = False, emit: EventSink = ignore_events, git: Git | None = None) -> None:
        self.offline = offline
        self.store = RegistryStore(config.paths.registries_file, config.paths.cache_dir)
        self.trees = Trees(config.paths.cache_dir / "registries")
        self.builtin_root = builtin_root()
        self._env = config.env
        self._emit = emit
        self._git = git
        self._state: RegistryState | None = None
        self._failed: dict[str, str] = {}
        self._discovered = False

    @property
    def state(self) -> RegistryState:
        """What ``registries.yaml`` says, with its oddities told once."""
        if self._state is None:
            self._state = self.store.load()
            for warning in self._state.warnings:
                self._emit(Warn(warning))
        return self._state

    @property
    def entries(self) -> tuple[RegistryEntry, ...]:
        """Every registry, the built-in one first."""
        return (builtin_entry(), *self.state.entries)

    def entry(self, name: str) -> RegistryEntry:
        """The registry of that name. Raises ``UnknownRegistryError`` with the nearest name."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        known = [entry.name for entry in self.entries]
        raise UnknownRegistryError(f"no registry '{name}'", hint=did_you_mean(name, known) or f"known registries: {', '.join(known)}")

    def list(self, *, disabled: bool = True, hidden: bool = True) -> tuple[RegistryInfo, ...]:
        """The registries, visible ones first, then by name."""
        chosen = [entry for entry in self.entries if (disabled or entry.enabled) and (hidden or entry.visible)]
        return tuple(self._info(entry) for entry in sorted(chosen, key=lambda entry: (not entry.visible, entry.name)))

    def show(self, name: str) -> RegistryInfo:
        """One registry. Raises ``UnknownRegistryError``."""
        return self._info(self.entry(name))

    def root(self, entry: RegistryEntry) -> Path | None:
        """The folder that holds a registry's repository; ``None`` when it was never fetched."""
        return self.builtin_root if entry.name == BUILTIN else self.trees.tree(entry)

    def commit(self, entry: RegistryEntry) -> str | None:
        """The commit that a registry's files are of."""
        tree = None if entry.name == BUILTIN else self.trees.tree(entry)
        return head_commit(tree) if tree else None

    def trusts(self, name: str, url: str) -> bool:
        """Whether a recipe read from registry ``name``, when its address was ``url``, may run hooks unasked. Reads the file anew."""
        if name == BUILTIN:
            return True
        return any(entry.name == name and entry.url == url and entry.trusted for entry in self.store.load().entries)

    def owner_of(self, path: Path) -> RegistryEntry | None:
        """The registry whose clone holds ``path``, so that naming a file of the cache grants it no trust."""
        real = path.resolve()
        for entry in self.state.entries:
            tree = self.trees.tree(entry)
            folder = asset_folder(entry, "recipes", tree) if tree else None
            if folder and real.is_relative_to(folder.base.resolve()):
                return entry
        return None

    def open_named(self, name: str, kind: AssetKind) -> OpenedFolders:
        """The files of one registry, fetched if they never were. Raises ``UnknownRegistryError``, ``DisabledRegistryError``."""
        entry = self._named(name)
        if not entry.enabled:
            raise DisabledRegistryError(f"registry '{name}' is disabled", hint=f"sparkrun registry enable {name}")
        self._fetch_missing((entry,), kind)
        return self.on_disk(kind, (entry,))

    def open_all(self, kind: AssetKind, *, hidden: bool = False) -> OpenedFolders:
        """The files of every enabled registry that answers without its name (``hidden``: of the others too), fetched if they never were."""
        if not self.state.saved and not self.offline:
            self._bootstrap()
        chosen = self.chosen(hidden=hidden)
        self._fetch_missing(chosen, kind)
        return self.on_disk(kind, chosen)

    def on_disk(self, kind: AssetKind, entries: Iterable[RegistryEntry]) -> OpenedFolders:
        """The files of ``entries`` as they are, without fetching anything."""
        folders: list[AssetFolder] = []
        failures: list[RegistryFailure] = []
        for entry in entries:
            reason = self._unusable(entry, kind)
            root = self.root(entry)
            folder = asset_folder(entry, kind, root, self.commit(entry)) if root and not reason else None
            if folder:
                folders.append(folder)
            elif reason or entry.folder(kind):
                failures.append(RegistryFailure(entry.name, reason or f"its {kind} folder leads out of the repository"))
        return OpenedFolders(tuple(folders), tuple(failures))

    def chosen(self, *, hidden: bool) -> tuple[RegistryEntry, ...]:
        """The enabled registries that answer without their name; with ``hidden`` all enabled ones."""
        return tuple(entry for entry in self.entries if entry.enabled and (hidden or entry.visible))

    def add(self, url: str, *, name: str | None = None, trust: bool = False, fetch: bool = True) -> AddResult:
        """Add the registries that the repository at ``url`` declares; one by convention, called ``name``, where it declares none.

        One bad entry and nothing is added. Raises ``UnsafeRegistryError``, ``ManifestError`` or ``GitError``.
        """
        validate_new_url(url)
        if self.offline:
            raise RegistryError(f"cannot look at {mask_url(url)} offline", hint="leave --offline away")
        from sparkrun.core.registry.adding import offered  # with git: what only looks at registries pays nothing for it

        self._emit(Note(f"fetching {mask_url(url)}"))
        with offered(self._clones(), url, {entry.name for entry in self.entries}, name) as offer:
            fetched = offer.publish((*self.state.entries, *offer.entries)) if fetch and offer.entries else None
            state = self._edit(lambda state: offer.into(state, trust=trust))
        added = tuple(entry for entry in state.entries if entry.name in offer.names)
        for entry in added if fetched else ():
            self._clones().link(entry)
        return AddResult(added, offer.skipped, offer.notes, offer.convention, fetched.commit if fetched else None)

    def remove(self, name: str) -> RegistryEntry:
        """Forget a registry; its clone stays in the cache. A shipped or declared one does not come back with an update."""
        entry = self._changeable(name)

        def without(state: RegistryState) -> RegistryState:
            entries = tuple(other for other in state.entries if other.name != name)
            returns = is_default(name) or entry.declared_by or state.pending_urls
            suppressed = dict.fromkeys((*state.suppressed, name)) if returns else state.suppressed
            return msgspec.structs.replace(state, entries=entries, suppressed=tuple(suppressed))

        self._edit(without)
        self._clones().unlink(name)
        return entry

    def enable(self, name: str) -> ChangeResult:
        """Take part in look-ups again. Raises ``UnknownRegistryError``."""
        return self._change(name, lambda entry: msgspec.structs.replace(entry, enabled=True))

    def disable(self, name: str) -> ChangeResult:
        """Take no part in look-ups and updates. Raises ``UnknownRegistryError``."""
        return self._change(name, lambda entry: msgspec.structs.replace(entry, enabled=False))

    def trust(self, name: str) -> ChangeResult:
        """Let the registry's recipes run hooks and host settings unasked. Raises ``UnknownRegistryError``."""
        return self._change(name, lambda entry: msgspec.structs.replace(entry, trusted=True))

    def untrust(self, name: str) -> ChangeResult:
        """Ask again before the registry's recipes run hooks. Raises ``UnknownRegistryError``."""
        return self._change(name, lambda entry: msgspec.structs.replace(entry, trusted=False))

    def update(self, name: str | None = None) -> UpdateReport:
        """Fetch the newest recipes, of one registry or of all enabled ones; each repository once, all at the same time.

        All: shipped registries that are missing and were not removed come back, and manifests that could not be read yet are read.
        What fails keeps its old recipes. Raises ``UnknownRegistryError``, and ``RegistryError`` offline.
        """
        chosen = (self._named(name),) if name else ()
        if self.offline:
            raise RegistryError("cannot update registries offline", hint="leave --offline away")
        from sparkrun.core.registry.updating import update_entries, update_everything

        self._failed.clear()
        if name:
            return update_entries(self._clones(), chosen, self.state.entries, self._emit)
        before = self.state
        state, report = update_everything(self._clones(), self.store, self._emit)
        self._state = state
        return msgspec.structs.replace(report, added=_new_names(before, state))

    def revert_to_defaults(self) -> RevertResult:
        """Forget ``registries.yaml`` and every clone."""
        forgotten = tuple(entry.name for entry in self.state.entries)
        self.store.delete()
        self._clones().delete_all()
        self._state = None
        return RevertResult(forgotten)

    def _clones(self) -> Clones:
        from sparkrun.core.registry.clones import Clones  # with subprocess: only what fetches pays for it
        from sparkrun.core.registry.git import Git

        self._git = self._git or Git(self._env)
        return Clones(self.trees, self._git)

    def _info(self, entry: RegistryEntry) -> RegistryInfo:
        return RegistryInfo(entry, self.root(entry) is not None, self.commit(entry))

    def _edit(self, change: Callable[[RegistryState], RegistryState]) -> RegistryState:
        self._state = self.store.edit(change)
        return self._state

    def _named(self, name: str) -> RegistryEntry:
        """The registry of that name; a manifest that was never read may declare it."""
        if not self.state.saved and not self.offline and all(entry.name != name for entry in self.entries):
            self._bootstrap()
        return self.entry(name)

    def _changeable(self, name: str) -> RegistryEntry:
        if name == BUILTIN:
            raise RegistryError("the built-in recipes are always there and always trusted", hint="they cannot be changed or removed")
        return self.entry(name)

    def _change(self, name: str, change: Callable[[RegistryEntry], RegistryEntry]) -> ChangeResult:
        before = self._changeable(name)

        def changed(state: RegistryState) -> RegistryState:
            entries = tuple(change(entry) if entry.name == name else entry for entry in state.entries)
            return msgspec.structs.replace(state, entries=entries)

        self._edit(changed)
        after = self.entry(name)
        return ChangeResult(after, after != before)

    def _bootstrap(self) -> None:
        """Read the bootstrap manifests, all at once with the other visible repositories, and keep what they say. Once in a process."""
        if self._discovered:
            return
        self._discovered = True
        from sparkrun.core.registry.updating import discover

        self._state = discover(self._clones(), self.store, self._emit, self._failed)

    def _unusable(self, entry: RegistryEntry, kind: AssetKind) -> str | None:
        folder = entry.folder(kind)
        if entry.format != FORMAT:
            return f"its format '{entry.format}' is not known"
        if entry.name == BUILTIN or folder is None:
            return None
        tree = self.trees.tree(entry)
        if tree is None or not self.trees.holds(tree, folder):
            return self._failed.get(entry.url) or f"not fetched yet{' (offline)' if self.offline else ''}"
        return None

    def _fetch_missing(self, entries: Iterable[RegistryEntry], kind: AssetKind) -> None:
        missing = [entry for entry in entries if self._unusable(entry, kind) and entry.format == FORMAT and entry.url not in self._failed]
        if not missing or self.offline:
            return
        from sparkrun.core.registry.updating import first_fetch

        self._emit(Note(f"fetching {', '.join(entry.name for entry in missing)}"))
        self._failed |= first_fetch(self._clones(), missing, self.state.entries)
        for entry in missing:
            self._emit(Detail(f"{entry.name}: {self._failed.get(entry.url) or 'fetched'}"))


def _new_names(before: RegistryState, after: RegistryState) -> tuple[str, ...]:
    known = {entry.name for entry in before.entries} if before.saved else set()
    return tuple(entry.name for entry in after.entries if entry.name not in known)
