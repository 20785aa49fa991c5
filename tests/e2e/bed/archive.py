"""Image archives for `docker load`, written without a docker daemon."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CREATED = "2026-01-01T00:00:00Z"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Link(msgspec.Struct, frozen=True):
    """A symbolic link."""

    target: str


class Folder(msgspec.Struct, frozen=True):
    """An empty folder."""

    mode: int = 0o755


Layer = Mapping[str, "Path | str | Link | Folder"]
"""What a layer holds, by path without a leading slash: a file of this machine with its mode and time, the text of a program, …"""


class Image(msgspec.Struct, frozen=True):
    """A tag and the names of its layers, lowest first."""

    tag: str
    layers: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()


def write_archive(path: Path, layers: Mapping[str, Layer], images: Sequence[Image], work: Path) -> None:
    """All images in one archive; they share layers. ``work`` takes what is in the making. The archive appears when it is complete."""
    tars = {name: _write_layer(work / f"{name}.tar", layer) for name, layer in layers.items()}
    digests = {name: _digest(tar) for name, tar in tars.items()}
    unfinished = work / path.name
    with tarfile.open(unfinished, "w") as archive:
        for name, tar in tars.items():
            archive.add(tar, f"{digests[name]}/layer.tar")
        manifest = [_add_image(archive, image, digests) for image in images]
        _add_text(archive, "manifest.json", json.dumps(manifest), 0o644)
    unfinished.rename(path)


def _add_image(archive: tarfile.TarFile, image: Image, digests: Mapping[str, str]) -> dict[str, object]:
    """The format of `docker save`: a configuration, and where the layers are."""
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
            "os": "linux",
            "created": CREATED,
            "config": {"Cmd": ["sh"], "Env": [f"PATH={PATH}"], **({"Entrypoint": image.entrypoint} if image.entrypoint else {})},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digests[name]}" for name in image.layers]},
            "history": [{"created": CREATED, "created_by": name} for name in image.layers],
        },
        sort_keys=True,
    )
    name = f"{hashlib.sha256(config.encode()).hexdigest()}.json"
    if name not in archive.getnames():
        _add_text(archive, name, config, 0o644)
    return {"Config": name, "RepoTags": [image.tag], "Layers": [f"{digests[layer]}/layer.tar" for layer in image.layers]}


def _write_layer(path: Path, layer: Layer) -> Path:
    folders = {str(parent) for name in layer for parent in PurePosixPath(name).parents if str(parent) != "."}
    entries = {**{name: Folder() for name in folders if name not in layer}, **layer}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(entries):
            _add(tar, name, entries[name])
    return path


def _add(tar: tarfile.TarFile, name: str, entry: Path | str | Link | Folder) -> None:
    if isinstance(entry, Path):
        tar.add(entry, name, recursive=False, filter=_of_root)
    elif isinstance(entry, str):
        _add_text(tar, name, entry, 0o755)
    else:
        info = tarfile.TarInfo(name)
        info.type = tarfile.SYMTYPE if isinstance(entry, Link) else tarfile.DIRTYPE
        info.linkname, info.mode = (entry.target, 0o777) if isinstance(entry, Link) else ("", entry.mode)
        tar.addfile(info)


def _add_text(tar: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    data = text.encode()
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def _of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Times stay, to the second: Python compares those of its sources."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    return info


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
