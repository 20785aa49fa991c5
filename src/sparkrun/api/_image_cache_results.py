"""What the entry points for images return. ``to_json`` is the documented, versioned shape of ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from sparkrun.api._plain import PlainData
from sparkrun.containers.image_cache import ImagePin, ImageUser
from sparkrun.core.facts import Unreachable

Action = Literal["delete", "prune", "pin", "unpin"]
Outcome = Literal["planned", "removed", "kept", "refused", "pinned", "unpinned"]


class ImageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """An image on one host. ``unique_bytes`` is what no other image of the host has of it, as docker rounds it."""

    host: str
    id: str
    tags: tuple[str, ...]
    unique_bytes: int | None
    last_used_at: str | None
    dangling: bool
    users: tuple[ImageUser, ...]
    """Containers that were made of it, running or not."""
    pin: ImagePin | None
    verified: bool | None = None
    """Whether docker could read all of it, where that was asked."""
    reason: str | None = None
    """Why it could not."""


class ImageReport(msgspec.Struct, frozen=True, kw_only=True):
    """One image: the same by id, by digest, or by name and layers on every host of ``copies``."""

    name: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size_bytes: int
    layers: int
    arch: str
    os: str
    created_at: str
    copies: tuple[ImageCopy, ...]


class ImageHostReport(msgspec.Struct, frozen=True, kw_only=True):
    """Docker's place on one host; ``root`` is ``None`` without docker, bytes are ``None`` where they are unknown."""

    host: str
    root: str | None
    driver: str
    free_bytes: int | None
    total_bytes: int | None
    images: int


class ImageCacheReport(PlainData, frozen=True, kw_only=True):
    """The images of all hosts, one that several have once."""

    schema: str = "sparkrun.image-cache/1"
    origin: str
    cluster: str | None
    hosts: tuple[ImageHostReport, ...]
    images: tuple[ImageReport, ...]
    differing: Mapping[str, tuple[str, ...]] = {}
    """Tags that mean different images on different hosts, with those hosts."""
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every host answered and docker could read what it was asked to."""
        return not self.unreachable and all(copy.verified is not False for image in self.images for copy in image.copies)


class ImageChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does, or would do, to an image on one host. ``frees_bytes`` is at least what the disk gains: layers that only images
    which go together have are not in it."""

    host: str
    id: str
    names: tuple[str, ...]
    outcome: Outcome
    why: str = ""
    reason: str | None = None
    """Why it was refused or kept."""
    frees_bytes: int | None = 0


class ImageCacheChange(PlainData, frozen=True, kw_only=True):
    """What a command did, or with ``applied`` false would do, on all hosts."""

    schema: str = "sparkrun.image-cache-change/1"
    action: Action
    applied: bool
    origin: str
    cluster: str | None
    images: tuple[ImageChange, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def frees_bytes(self) -> int:
        """On all hosts together."""
        return sum(change.frees_bytes or 0 for change in self.images)

    @property
    def complete(self) -> bool:
        """Whether every host answered, and nothing that was named was refused or had to stay."""
        bad = {"kept"} if self.action == "prune" else {"kept", "refused"}
        return not self.unreachable and not any(change.outcome in bad for change in self.images)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**super().to_json(), "frees_bytes": self.frees_bytes}
