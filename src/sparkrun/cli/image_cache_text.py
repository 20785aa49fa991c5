"""The images of hosts as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.api import ImageCacheChange, ImageCacheReport, ImageChange, ImageCopy, ImageHostReport, ImageReport
from sparkrun.cli.cache_text import NOTHING, age_text, freed_lines, joined_blocks, pin_lines, room_text, unknown_lines
from sparkrun.cli.tables import columns
from sparkrun.utils.text import counted, size_text

_TITLES = ("IMAGE", "ID", "SIZE", "LAST USED", "HOSTS", "CONTAINERS", "PIN")
_ID_LENGTH = 12


def report_text(report: ImageCacheReport, *, details: bool = False) -> str:
    """Hosts, images, names that differ, and what is unknown."""
    return joined_blocks(
        [
            [_host_line(host) for host in report.hosts],
            [line for image in report.images for line in _details(image)] if details else _table(report),
            [f"warning: {tag} is not the same image on {', '.join(hosts)}" for tag, hosts in sorted(report.differing.items())],
            unknown_lines(report.unreachable),
        ]
    )


def verify_text(report: ImageCacheReport) -> str:
    """What reading came to, one line a copy."""
    return joined_blocks([[_verdict(image, copy) for image in report.images for copy in image.copies], unknown_lines(report.unreachable)])


def change_text(change: ImageCacheChange) -> str:
    """What went or would go, and what that frees."""
    return joined_blocks([[_change_line(image, change) for image in change.images], unknown_lines(change.unreachable), _summary(change)])


def _host_line(host: ImageHostReport) -> str:
    if host.root is None:
        return f"{host.host}: no docker"
    return f"{host.host}: {host.root} ({host.driver}) — {counted(host.images, 'image')}{room_text(host.free_bytes, host.total_bytes)}"


def _table(report: ImageCacheReport) -> list[str]:
    rows = [_row(image, len(report.hosts)) for image in report.images]
    return columns([_TITLES, *rows]).splitlines() if rows else []


def _row(image: ImageReport, hosts: int) -> tuple[str, ...]:
    here = dict.fromkeys(copy.host for copy in image.copies)
    used = sorted(filter(None, (copy.last_used_at for copy in image.copies)))
    users = [user.name for copy in image.copies for user in copy.users]
    return (
        NOTHING if all(copy.dangling for copy in image.copies) else image.name,
        _short(image.copies[0].id),
        size_text(image.size_bytes),
        age_text(used[-1] if used else None),
        "all" if len(here) == hosts > 1 else ", ".join(here),
        ", ".join(users) or NOTHING,
        "yes" if any(copy.pin for copy in image.copies) else NOTHING,
    )


def _details(image: ImageReport) -> Iterator[str]:
    made = f"{image.os}/{image.arch}, created {image.created_at}"
    yield f"{image.name}: {size_text(image.size_bytes)}, {counted(image.layers, 'layer')}, {made}"
    yield from (f"  tag {tag}" for tag in image.tags)
    yield from (f"  digest {digest}" for digest in image.digests)
    for copy in image.copies:
        own = "" if copy.unique_bytes is None else f", {size_text(copy.unique_bytes)} of it in no other image"
        yield f"  on {copy.host}: {copy.id}{own}, last used {age_text(copy.last_used_at)}"
        yield from (f"    container {user.name} ({user.state})" for user in copy.users)
        yield from pin_lines(copy.pin)


def _verdict(image: ImageReport, copy: ImageCopy) -> str:
    what = {True: "good", None: "not read", False: f"damaged: {copy.reason}"}[copy.verified]
    return f"{copy.host}: {image.name} ({_short(copy.id)}): {what}"


def _change_line(image: ImageChange, change: ImageCacheChange) -> str:
    name = f"{image.host}: {_name(image)}"
    match image.outcome:
        case "refused" | "kept":
            return f"{name} stays: {image.reason}"
        case "pinned":
            return f"{name}: pinned"
        case "unpinned":
            return f"{name}: not pinned"
    size = "an unknown amount" if image.frees_bytes is None else size_text(image.frees_bytes)
    return f"{name} ({image.why}): {'freed' if change.applied else 'frees'} {size}"


def _name(image: ImageChange) -> str:
    return ", ".join(_short(name) if name == image.id else name for name in image.names)


def _summary(change: ImageCacheChange) -> list[str]:
    going = [image for image in change.images if image.outcome in ("planned", "removed")]
    if change.action in ("pin", "unpin"):
        return []
    least = "at least " if len(going) > 1 or any(image.frees_bytes is None for image in going) else ""
    return freed_lines(f"{least}{size_text(change.frees_bytes)}", going=bool(going), applied=change.applied)


def _short(made: str) -> str:
    return made.removeprefix("sha256:")[:_ID_LENGTH]
