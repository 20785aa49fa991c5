"""``registry add``: a look at a repository that nobody uses yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sparkrun.core.registry.clones import Clones, Fetched
from sparkrun.core.registry.discovery import by_convention
from sparkrun.core.registry.errors import ManifestError, UnsafeRegistryError
from sparkrun.core.registry.fetching import UPDATE_S, paths_by_url
from sparkrun.core.registry.git import Deadline
from sparkrun.core.registry.manifest import MANIFEST, parse_manifest, unknown_keys
from sparkrun.core.registry.model import RegistryEntry
from sparkrun.core.registry.rules import mask_url
from sparkrun.core.registry.store import RegistryState


class Offer(msgspec.Struct, frozen=True):
    """What a repository offers. ``publish`` makes the looked-at clone the one that is read."""

    entries: tuple[RegistryEntry, ...]
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    convention: str | None
    publish: Callable[[tuple[RegistryEntry, ...]], Fetched]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are not taken."""
        return tuple(entry.name for entry in self.entries)

    def into(self, state: RegistryState, *, trust: bool) -> RegistryState:
        """``state`` with the offered registries; trusted only when the user says so."""
        known = {entry.name for entry in state.entries}
        fresh = tuple(msgspec.structs.replace(entry, trusted=trust) for entry in self.entries if entry.name not in known)
        suppressed = tuple(name for name in state.suppressed if name not in self.names)
        return msgspec.structs.replace(state, entries=(*state.entries, *fresh), suppressed=suppressed)


@contextmanager
def offered(clones: Clones, url: str, taken: Collection[str], name: str | None) -> Iterator[Offer]:
    """Look at ``url``. Raises ``ManifestError``, ``UnsafeRegistryError`` or ``GitError``; the clone is gone unless it was published."""
    deadline = Deadline(UPDATE_S)
    with clones.stage(url, deadline) as stage:

        def publish(entries: tuple[RegistryEntry, ...]) -> Fetched:
            return stage.publish(paths_by_url(entries, (url,))[url])

        text = read_manifest(stage.tree, url)
        if text is None:
            made = by_convention(url, clones.git.files(stage.tree, deadline), taken, name)
            yield Offer((made.entry,), (), (), made.told, publish)
            return
        if name is not None:
            raise UnsafeRegistryError(f"{mask_url(url)} names its registries itself in {MANIFEST}", hint="add it without a name")
        declared = parse_manifest(text, url)
        fresh = tuple(entry for entry in declared if entry.name not in taken)
        known = (entry.name for entry in declared if entry.name in taken)
        skipped = tuple(f"a registry '{name}' exists already; that of {mask_url(url)} is not added" for name in known)
        yield Offer(fresh, skipped, tuple(unknown_keys(text)), None, publish)


def read_manifest(tree: Path, url: str) -> str | None:
    """The text of a clone's manifest, ``None`` when there is none. Raises ``ManifestError`` when it cannot be read."""
    path = tree / MANIFEST
    if not path.resolve().is_relative_to(tree.resolve()):
        raise ManifestError(f"{mask_url(url)}: {MANIFEST} leads out of the repository")
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{mask_url(url)}: {MANIFEST}: {error}") from error
