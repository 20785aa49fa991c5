"""The images that docker has on a host, as the host tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from sparkrun.core.pins import Pin, read_pin
from sparkrun.utils.jsonio import read_json
from sparkrun.utils.shell import Section

_SIZE = re.compile(r"([\d.]+) ?([kMGT]?B)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_FRACTION = re.compile(r"\.\d+")


class ImagePin(Pin, frozen=True):
    """Why an image must stay, and what it was called then."""

    name: str = ""


class ImageUser(msgspec.Struct, frozen=True):
    """A container that was made of an image. ``state`` is docker's word."""

    name: str
    state: str


class HostImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image on one host. ``unique_bytes`` is what no other image there has of it, as docker rounds it; ``None`` if it does not say."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    """``REPOSITORY@sha256:…``."""
    layers: tuple[str, ...] = ()
    """The sha256 of each layer's content, the lowest first."""
    size_bytes: int = 0
    unique_bytes: int | None = None
    arch: str = ""
    os: str = ""
    created_at: str = ""
    """ISO 8601, as the image itself says."""
    last_used_at: float | None = None
    """Seconds of the epoch: the last launch, or when it was built or named here. ``None`` where nobody knows, such as after a pull or
    a load without a launch: when it was made says nothing of that."""
    users: tuple[ImageUser, ...] = ()
    pin: ImagePin | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What it can be called by: tags, else digests, else its id."""
        return self.tags or self.digests or (self.id,)

    @property
    def dangling(self) -> bool:
        """Whether it has no name any more."""
        return not self.tags and not self.digests


class ImageStore(msgspec.Struct, frozen=True, kw_only=True):
    """Docker's images on one host at one moment. ``root`` is ``None`` on a host without docker."""

    host: str
    root: str | None
    driver: str
    now: float
    free_bytes: int | None
    total_bytes: int | None
    images: tuple[HostImage, ...]


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """An image in docker's own words."""

    id: str
    tags: tuple[str, ...] | None = None
    digests: tuple[str, ...] | None = None
    size: int = 0
    layers: tuple[str, ...] | None = None
    created: str | None = None
    arch: str | None = None
    os: str | None = None
    tagged: str | None = None


def parse_images(host: str, section: Section) -> ImageStore:
    """From what ``image_cache.sh`` says."""
    return ImageStore(
        host=host,
        root=section.text("ROOT"),
        driver=section.text("DRIVER") or "",
        now=float(section.number("NOW") or 0),
        free_bytes=section.kib("FREE_KIB"),
        total_bytes=section.kib("TOTAL_KIB"),
        images=tuple(_images(section)),
    )


def docker_bytes(text: str) -> int | None:
    """What docker means by ``1.982MB``."""
    found = _SIZE.fullmatch(text)
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def _images(section: Section) -> Iterator[HostImage]:
    told = {image.id: image for text in section.all("IMAGE") if (image := _decoded(text))}
    unique = dict(section.parted("UNIQUE"))
    used = {made: float(text) for made, text in section.parted("USED") if text.isdecimal()}
    pins = {made: read_pin(text, ImagePin) for made, text in section.parted("PIN")}
    users: dict[str, list[ImageUser]] = {}
    for made, rest in section.parted("CONTAINER"):
        state, _blank, name = rest.partition(" ")
        users.setdefault(made, []).append(ImageUser(name.removeprefix("/"), state))
    for image in told.values():
        moments = [used.get(image.id), _epoch(image.tagged)]
        yield HostImage(
            id=image.id,
            tags=tuple(sorted(image.tags or ())),
            digests=tuple(sorted(image.digests or ())),
            layers=image.layers or (),
            size_bytes=image.size,
            unique_bytes=docker_bytes(unique.get(image.id, "")),
            arch=image.arch or "",
            os=image.os or "",
            created_at=_moment(image.created),
            last_used_at=max((moment for moment in moments if moment), default=None),
            users=tuple(users.get(image.id, ())),
            pin=pins.get(image.id),
        )


def _decoded(text: str) -> _Told | None:
    try:
        return read_json(text, _Told)
    except msgspec.MsgspecError:
        return None


def _moment(text: str | None) -> str:
    """Go's nanoseconds are more than others read."""
    return _FRACTION.sub("", text or "")


def _epoch(text: str | None) -> float | None:
    try:
        moment = datetime.fromisoformat(_moment(text)).timestamp()
    except ValueError:
        return None
    return moment if moment > 0 else None
