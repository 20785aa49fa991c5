"""The clones on disk as they are, read without git and without a network.

``_url_<hash>`` leads to the tree in use of one repository and ``<name>`` leads there from each registry's name. A tree is never written
after it is published: an update makes another one beside it and moves the link, so that a reader sees the old recipes or the new ones.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from sparkrun.core.registry.model import RegistryEntry
from sparkrun.core.registry.rules import ROOT

_STAMP = Path(".git", "sparkrun-paths")


class Trees:
    """What lies below ``registries/`` in the cache."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def shared(self, url: str) -> Path:
        """Where the clone of a repository is reached, whether it is there or not."""
        return self.root / f"_url_{hashlib.sha256(url.encode()).hexdigest()[:12]}"

    def tree(self, entry: RegistryEntry) -> Path | None:
        """The clone to read a registry from; ``None`` when it was never fetched."""
        shared, named = self.shared(entry.url), self.root / entry.name
        if shared.is_dir():
            return named if named.is_symlink() and named.resolve() == shared.resolve() else shared
        return named if not named.is_symlink() and clone_url(named) == entry.url else None

    def holds(self, tree: Path, folder: str) -> bool:
        """Whether a clone was told to hold a folder, which the repository need not have."""
        wanted = held_paths(tree)
        if wanted is None:
            return (tree / folder.strip("/")).is_dir()
        return covers(wanted, folder)


def covers(paths: tuple[str, ...], folder: str) -> bool:
    """Whether one of ``paths`` is ``folder`` or lies above it."""
    return any(path in (ROOT, folder) or folder.startswith(f"{path}/") for path in paths)


def held_paths(tree: Path) -> tuple[str, ...] | None:
    """The folders that a clone holds; ``None`` for one that another sparkrun made."""
    try:
        return tuple((tree / _STAMP).read_text(encoding="utf-8").split())
    except OSError:
        return None


def stamp_paths(tree: Path, paths: tuple[str, ...]) -> None:
    """Note in a clone what it holds."""
    (tree / _STAMP).write_text("\n".join(paths) + "\n", encoding="utf-8")


def head_commit(tree: Path) -> str | None:
    """The commit that a clone shows, from the files below ``.git``."""
    git = tree / ".git"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        head = (git / "HEAD").read_text(encoding="ascii").strip()
        if not head.startswith("ref: "):
            return head
        return _ref(git, head.removeprefix("ref: "))
    return None


def clone_url(tree: Path) -> str | None:
    """The address that a clone was made from, from its configuration file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        remote = False
        for line in (tree / ".git" / "config").read_text(encoding="utf-8").splitlines():
            key, equals, value = line.strip().partition(" = ")
            if line.startswith("["):
                remote = line.strip() == '[remote "origin"]'
            elif remote and equals and key == "url":
                return value
    return None


def _ref(git: Path, name: str) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return (git / name).read_text(encoding="ascii").strip()
    for line in (git / "packed-refs").read_text(encoding="ascii").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return None
