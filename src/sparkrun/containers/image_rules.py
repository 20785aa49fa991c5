"""Which images are the same, which nobody needs, and what removing one takes. Decides, touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sparkrun.containers.image_cache import HostImage, ImageStore

DAY_S = 86400
_SHORTEST_ID = 8
"""A beginning of an id that is shorter could as well be a name."""


class Copy(NamedTuple):
    """An image on one host."""

    host: str
    image: HostImage


class ImageRemoval(msgspec.Struct, frozen=True):
    """What to take from an image: ``names`` in order, the id as the last takes it whole. ``frees_bytes`` ``None``: docker does not say."""

    image: HostImage
    names: tuple[str, ...]
    why: str
    frees_bytes: int | None


def copies_of(stores: Sequence[ImageStore]) -> tuple[tuple[Copy, ...], ...]:
    """The images of all hosts, copies of one together, in the order of hosts and then as docker lists them.

    The same by id, by digest, or by name and layers: storage drivers and registries give one image several ids, its layers stay what they
    are. Layers alone do not tell: images that differ in their settings have the same.
    """
    groups: list[list[Copy]] = []
    by_key: dict[object, list[Copy]] = {}
    for store in stores:
        for image in store.images:
            copy, keys = Copy(store.host, image), _keys(image)
            found = (by_key[key] for key in keys if key in by_key)
            group = next((group for group in found if all(other.host != store.host for other in group)), None)
            if group is None:
                group = []
                groups.append(group)
            group.append(copy)
            by_key |= dict.fromkeys(keys, group)
    return tuple(tuple(group) for group in groups)


def answers_to(image: HostImage, name: str) -> bool:
    """Whether ``name`` is a tag (``:latest`` may be left out), a digest, or an id or the beginning of one."""
    plain = name.removeprefix("sha256:")
    if len(plain) >= _SHORTEST_ID and image.id.removeprefix("sha256:").startswith(plain):
        return True
    return (
        name in image.tags or f"{name}:latest" in image.tags or name in image.digests or name in {_digest(text) for text in image.digests}
    )


def plan_delete(image: HostImage, name: str) -> ImageRemoval:
    """Take the whole image; only the one tag, where ``name`` is a tag and there are others."""
    tag = name if name in image.tags else f"{name}:latest"
    if tag in image.tags and len(image.tags) > 1:
        others = ", ".join(other for other in image.tags if other != tag)
        return ImageRemoval(image, (tag,), f"only the name goes: it is {others} too", 0)
    return _whole(image, "the image")


def plan_prune(store: ImageStore, *, older_than_days: float | None = None) -> tuple[ImageRemoval, ...]:
    """Images without a name; with ``older_than_days`` also those that no launch has used for longer. None that a container has."""
    found = []
    for image in store.images:
        if image.users:
            continue
        if image.dangling:
            found.append(_whole(image, "it has no name any more"))
        elif older_than_days is not None and (days := unused_days(image, store)) > older_than_days:
            found.append(_whole(image, f"unused for {days:.0f} days"))
    return tuple(found)


def unused_days(image: HostImage, store: ImageStore) -> float:
    """Days since its last use; 0 where nobody knows."""
    return max(0.0, (store.now - image.last_used_at) / DAY_S) if image.last_used_at else 0.0


def refusal(image: HostImage) -> str | None:
    """Why an image must stay; ``None`` when it may go."""
    if image.users:
        return "; ".join(f"container {user.name} ({user.state}) has it" for user in image.users)
    if image.pin:
        return image.pin.text
    return None


def differing_names(groups: Iterable[Sequence[Copy]]) -> Mapping[str, tuple[str, ...]]:
    """Tags that mean different images on different hosts, with those hosts."""
    seen: dict[str, dict[int, list[str]]] = {}
    for number, group in enumerate(groups):
        for host, image in group:
            for tag in image.tags:
                seen.setdefault(tag, {}).setdefault(number, []).append(host)
    return {tag: tuple(host for hosts in images.values() for host in hosts) for tag, images in seen.items() if len(images) > 1}


def _whole(image: HostImage, why: str) -> ImageRemoval:
    return ImageRemoval(image, (*(image.tags or image.digests), image.id), why, image.unique_bytes)


def _keys(image: HostImage) -> tuple[object, ...]:
    named = tuple((tag, image.layers, image.arch, image.os) for tag in image.tags if image.layers)
    return (image.id, *_digests(image), *named)


def _digests(image: HostImage) -> set[str]:
    return {_digest(text) for text in image.digests}


def _digest(text: str) -> str:
    return text.rpartition("@")[2]
