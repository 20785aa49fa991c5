"""Tuning configs of kernels on the control machine: copies of a registry's files, refreshed where they are still ours, kept where edited.

Files lie in ``<cache>/tuning/<runtime>/``. Beside that folder, ``.origins-<runtime>.json`` tells where each copy came from and its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sparkrun.core.registry import RegistryError, RegistryManager, iter_asset_files
from sparkrun.utils.files import locked, write_atomic
from sparkrun.utils.jsonio import read_json

SUFFIX = ".json"


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a copy came from. ``gone``: the registry has it no more, and so have we; hosts may."""

    origin: str
    sha256: str
    gone: bool = False


Hashes = Mapping[str, str]
"""SHA-256 in hex by name: the path below the runtime's folder."""


class TuningSync(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the control machine's files of one runtime."""

    copies: tuple[str, ...] = ()
    """Names to copy from the registry: new ones, and ours that have changed there."""
    drops: tuple[str, ...] = ()
    """Ours, unchanged, that the registry has no more."""
    adopts: tuple[str, ...] = ()
    """Files that equal the registry's without being known as copies; from now on they are."""
    kept: tuple[str, ...] = ()
    """Files that differ from the registry's because somebody else wrote or edited them."""
    after: Hashes = {}
    """Every file that will be there."""
    origins: Mapping[str, Origin] = {}

    @property
    def gone(self) -> Hashes:
        """Former copies that hosts may still have."""
        return {name: origin.sha256 for name, origin in self.origins.items() if origin.gone and name not in self.after}


def plan_sync(registry: str, offered: Hashes, here: Hashes, origins: Mapping[str, Origin]) -> TuningSync:
    """Decide for each file that ``registry`` offers, and for each that came from it. Touches nothing."""
    copies, adopts, drops, kept = [], [], [], []
    after, records = dict(here), dict(origins)
    for name, sha256 in offered.items():
        if name in here and here[name] != sha256 and not _ours(name, here, origins):
            kept.append(name)
            records.pop(name, None)
            continue
        if here.get(name) != sha256:
            copies.append(name)
        elif name not in origins:
            adopts.append(name)
        after[name], records[name] = sha256, Origin(registry, sha256)
    for name, origin in origins.items():
        if origin.origin != registry or origin.gone or name in offered:
            continue
        if name in here and not _ours(name, here, origins):
            records.pop(name)
            continue
        if after.pop(name, None):
            drops.append(name)
        records[name] = Origin(registry, origin.sha256, gone=True)
    return TuningSync(copies=tuple(copies), adopts=tuple(adopts), drops=tuple(drops), kept=tuple(kept), after=after, origins=records)


def _ours(name: str, here: Hashes, origins: Mapping[str, Origin]) -> bool:
    """Whether a file is a copy that nobody has changed since."""
    return name in origins and origins[name].sha256 == here[name]


def offered_by(registry: str, runtime: str, manager: RegistryManager) -> dict[str, Path]:
    """The tuning configs of one runtime in one registry, by name; nothing is fetched. An unknown registry has none."""
    try:
        folders = manager.on_disk("tuning", (manager.entry(registry),)).folders
    except RegistryError:
        return {}
    found = {}
    for folder in folders:
        for asset in iter_asset_files(folder):
            first, _slash, inner = asset.name.partition("/")
            if first == runtime and inner:
                found[inner + SUFFIX] = asset.path
    return found


def read_hashes(files: Mapping[str, Path]) -> dict[str, str]:
    """The hash of each file; one that cannot be read is left out."""
    found = {}
    for name, path in files.items():
        try:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue
    return found


def files_in(folder: Path) -> dict[str, Path]:
    """The tuning configs of a folder, by name."""
    found = (path for path in sorted(folder.rglob(f"*{SUFFIX}")) if path.is_file())
    names = ((path.relative_to(folder).as_posix(), path) for path in found)
    return {name: path for name, path in names if not any(part.startswith(".") for part in name.split("/"))}


def origins_file(folder: Path) -> Path:
    """Where the origins of a runtime's folder are kept."""
    return folder.with_name(f".origins-{folder.name}.json")


def read_origins(folder: Path) -> dict[str, Origin]:
    """The origins of a runtime's folder; of a file that cannot be read none are known, so that nothing counts as ours."""
    try:
        return read_json(origins_file(folder).read_bytes(), dict[str, Origin])
    except (OSError, msgspec.MsgspecError):
        return {}


def apply_sync(registry: str, offered: Mapping[str, Path], folder: Path) -> None:
    """Bring the files of ``folder`` in line with what ``registry`` offers. Raises ``OSError`` as the system gives it."""
    if not registry:
        return
    with locked(folder.with_name(f".{folder.name}.lock")):
        origins = read_origins(folder)
        sync = plan_sync(registry, read_hashes(offered), read_hashes(files_in(folder)), origins)
        for name in sync.copies:
            write_atomic(folder / name, offered[name].read_text(encoding="utf-8"), mode=0o644)
        for name in sync.drops:
            (folder / name).unlink(missing_ok=True)
        if sync.origins != origins:
            write_atomic(origins_file(folder), msgspec.json.encode(dict(sync.origins), order="sorted").decode(), mode=0o644)
