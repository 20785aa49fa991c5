"""Fetching repositories so that a failed or killed fetch leaves what was there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from sparkrun.core.registry.errors import GitError
from sparkrun.core.registry.git import Deadline, Git
from sparkrun.core.registry.model import RegistryEntry
from sparkrun.core.registry.rules import ROOT
from sparkrun.core.registry.trees import Trees, covers, head_commit, held_paths, stamp_paths
from sparkrun.utils.files import locked

_MAX_PACKS = 20
"""Each update adds a pack; past this many a new clone is smaller than the copy."""


class Fetched(NamedTuple):
    """The commit a clone shows now, and the one it showed before; ``previous`` is ``None`` for a first fetch."""

    commit: str | None
    previous: str | None


class Stage(NamedTuple):
    """A clone that nobody reads yet. It holds the files of the top folder and the manifest."""

    tree: Path
    publish: Callable[[tuple[str, ...]], Fetched]
    """Hold these folders, and become the clone that is read."""


class Clones:
    """The clones on disk, made and renewed through git. Every method raises ``GitError``."""

    def __init__(self, trees: Trees, git: Git) -> None:
        self.trees = trees
        self.git = git

    def ensure(self, url: str, paths: tuple[str, ...], deadline: Deadline) -> Fetched:
        """Have a clone that holds ``paths``; one that is there is widened, not renewed."""
        with self._lock(url):
            current = self._current(url)
            if current is None:
                return self._fresh(url, paths, deadline)
            commit = head_commit(current)
            held = held_paths(current) or ()
            if not all(covers(held, path) for path in paths):
                self._renew(url, current, _union(held, paths), deadline, fetch=False)
            return Fetched(commit, commit)

    def update(self, url: str, paths: tuple[str, ...], deadline: Deadline) -> Fetched:
        """Have the newest commit of a repository, with ``paths``."""
        with self._lock(url):
            current = self._current(url)
            if current is None:
                return self._fresh(url, paths, deadline)
            newest, previous = self.git.remote_head(url, deadline), head_commit(current)
            held = held_paths(current) or ()
            if newest == previous and all(covers(held, path) for path in paths):
                return Fetched(previous, previous)
            try:
                self._renew(url, current, paths, deadline, fetch=True)
            except GitError:
                self._fresh(url, paths, deadline)
            return Fetched(head_commit(self.trees.shared(url)), previous)

    @contextmanager
    def stage(self, url: str, deadline: Deadline) -> Iterator[Stage]:
        """A new clone to look at first; without ``publish`` it is gone afterwards."""
        with self._lock(url), self._scratch(url) as tree:
            self.git.clone(url, tree, deadline)
            self._hold(tree, (".sparkrun",), deadline)

            def publish(paths: tuple[str, ...]) -> Fetched:
                previous = self._current(url)
                before = head_commit(previous) if previous else None
                self._hold(tree, paths, deadline)
                self._publish(tree, url)
                return Fetched(head_commit(tree), before)

            yield Stage(tree, publish)

    def link(self, entry: RegistryEntry) -> None:
        """Let the registry's name lead to its repository's clone."""
        shared, named = self.trees.shared(entry.url), self.trees.root / entry.name
        if shared.is_dir() and not (named.is_symlink() and named.readlink() == Path(shared.name)):
            _point(named, shared.name)

    def unlink(self, name: str) -> None:
        """Take the name away; the clone stays."""
        named = self.trees.root / name
        if named.is_symlink():
            named.unlink()

    def delete_all(self) -> None:
        """Remove every clone."""
        shutil.rmtree(self.trees.root, ignore_errors=True)

    def _current(self, url: str) -> Path | None:
        shared = self.trees.shared(url)
        return shared.resolve() if shared.is_dir() else None

    def _fresh(self, url: str, paths: tuple[str, ...], deadline: Deadline) -> Fetched:
        with self._scratch(url) as tree:
            sparse = paths != (ROOT,)
            self.git.clone(url, tree, deadline, sparse=sparse)
            if sparse:
                self._hold(tree, paths, deadline)
            else:
                stamp_paths(tree, paths)
            self._publish(tree, url)
            return Fetched(head_commit(tree), None)

    def _renew(self, url: str, current: Path, paths: tuple[str, ...], deadline: Deadline, *, fetch: bool) -> None:
        if len(list((current / ".git/objects/pack").glob("*.pack"))) > _MAX_PACKS:
            self._fresh(url, paths, deadline)
            return
        with self._scratch(url) as tree:
            shutil.copytree(current, tree, symlinks=True, dirs_exist_ok=True)
            if fetch:
                self.git.fetch(tree, deadline)
            self._hold(tree, paths, deadline)
            self._publish(tree, url)

    def _hold(self, tree: Path, paths: tuple[str, ...], deadline: Deadline) -> None:
        self.git.hold(tree, paths, deadline)
        stamp_paths(tree, paths)

    def _lock(self, url: str) -> AbstractContextManager[None]:
        return locked(self.trees.root / f"{self.trees.shared(url).name}.lock")

    @contextmanager
    def _scratch(self, url: str) -> Iterator[Path]:
        """A folder beside the clone that is removed unless it was published."""
        shared = self.trees.shared(url)
        tree = Path(tempfile.mkdtemp(dir=self.trees.root, prefix=f"{shared.name}."))
        try:
            yield tree
        finally:
            if shared.resolve() != tree.resolve():
                shutil.rmtree(tree, ignore_errors=True)

    def _publish(self, tree: Path, url: str) -> None:
        """Move the link in one step. The tree before stays for those who read it now; older ones and leftovers go."""
        shared = self.trees.shared(url)
        before = self._current(url)
        _point(shared, tree.name)
        for sibling in self.trees.root.glob(f"{shared.name}.*"):
            if sibling.is_dir() and sibling.resolve() not in (tree.resolve(), before):
                shutil.rmtree(sibling, ignore_errors=True)


def _point(link: Path, target: str) -> None:
    if link.is_dir() and not link.is_symlink():
        retired = Path(tempfile.mkdtemp(dir=link.parent, prefix=f"{link.name}."))
        link.rename(retired / "old")
        shutil.rmtree(retired, ignore_errors=True)
    fresh = link.with_name(f".{link.name}.{target}"[:200])
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _union(*groups: tuple[str, ...]) -> tuple[str, ...]:
    paths = tuple(dict.fromkeys(path for group in groups for path in group))
    return (ROOT,) if ROOT in paths else paths
