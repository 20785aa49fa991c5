"""Fetching several repositories at the same time, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from sparkrun.core.registry.clones import Clones, Fetched
from sparkrun.core.registry.errors import GitError
from sparkrun.core.registry.git import Deadline
from sparkrun.core.registry.model import MANIFEST_DIR, RegistryEntry
from sparkrun.core.registry.rules import ROOT
from sparkrun.utils.fanout import LOOK_UP_S

FIRST_FETCH_S = 15.0
"""For a fetch that nobody asked for by name: a list waits for it."""
UPDATE_S = 120.0
"""For a fetch that was asked for."""
MANIFEST_S = 60.0
"""For a first look at a repository."""

_AT_ONCE = 8

T = TypeVar("T")
Paths = tuple[str, ...]


def paths_by_url(entries: Iterable[RegistryEntry], urls: Iterable[str]) -> dict[str, Paths]:
    """For each address the folders that its clone has to hold for all enabled ``entries``."""
    wanted: dict[str, Paths] = dict.fromkeys(urls, (MANIFEST_DIR,))
    for entry in entries:
        if entry.enabled and entry.url in wanted:
            wanted[entry.url] = tuple(dict.fromkeys((*wanted[entry.url], *entry.wanted_paths)))
    return {url: (ROOT,) if ROOT in paths else paths for url, paths in wanted.items()}


def ensure_all(clones: Clones, wanted: Mapping[str, Paths], seconds: float) -> dict[str, Fetched | GitError]:
    """Have a clone of each address, all at once."""
    return _all(clones, {url: lambda url=url, paths=paths: clones.ensure(url, paths, Deadline(seconds)) for url, paths in wanted.items()})  # type: ignore[misc]


def update_all(clones: Clones, wanted: Mapping[str, Paths], seconds: float) -> dict[str, Fetched | GitError]:
    """Have the newest commit of each address, all at once."""
    return _all(clones, {url: lambda url=url, paths=paths: clones.update(url, paths, Deadline(seconds)) for url, paths in wanted.items()})  # type: ignore[misc]


def _all(clones: Clones, jobs: Mapping[str, Callable[[], T]]) -> dict[str, T | GitError]:
    if not jobs:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(jobs))) as pool:
        try:
            futures = {url: pool.submit(_outcome, job) for url, job in jobs.items()}
            while wait(futures.values(), LOOK_UP_S).not_done:
                pass
            return {url: future.result() for url, future in futures.items()}
        except BaseException:
            clones.git.cancel()
            raise


def _outcome(job: Callable[[], T]) -> T | GitError:
    try:
        return job()
    except GitError as error:
        return error
    except OSError as error:
        return GitError(f"cannot write the clone: {error}", str(error), hint="check the free disk space and the permissions of the cache")
