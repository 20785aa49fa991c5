"""The images that hosts have: seeing, checking, pinning and removing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from sparkrun.api._cache_scope import Scope, cache_scope, moment, pinned_by
from sparkrun.api._image_cache_results import (
    Action,
    ImageCacheChange,
    ImageCacheReport,
    ImageChange,
    ImageCopy,
    ImageHostReport,
    ImageReport,
    Outcome,
)
from sparkrun.containers.image_cache import HostImage, ImagePin, ImageStore
from sparkrun.containers.image_hosts import look_at_images, pin_call, read_images, removal_call, unpin_call
from sparkrun.containers.image_rules import (
    Copy,
    ImageRemoval,
    answers_to,
    copies_of,
    differing_names,
    plan_delete,
    plan_prune,
    refusal,
)
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import NotCachedError, UsageError
from sparkrun.core.events import Bytes
from sparkrun.core.facts import Unreachable
from sparkrun.core.hosts import HostOptions
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.host_changes import Changed, change_hosts
from sparkrun.utils.text import did_you_mean

Groups = tuple[tuple[Copy, ...], ...]
Verdicts = Mapping[tuple[str, str], str | None]
"""What is wrong with an image by host and id, ``None`` for nothing."""


class _Look(msgspec.Struct, frozen=True):
    scope: Scope
    stores: tuple[ImageStore, ...]
    unreachable: tuple[Unreachable, ...]

    def holding(self, name: str | None) -> Groups:
        """Every image, or those that answer to a name, with all their copies. Raises ``NotCachedError`` when none does."""
        groups = copies_of(self.stores)
        if name is None:
            return groups
        chosen = tuple(group for group in groups if any(answers_to(copy.image, name) for copy in group))
        if not chosen:
            raise self._unknown(name)
        return chosen

    def _unknown(self, name: str) -> NotCachedError:
        names = {each for store in self.stores for image in store.images for each in image.tags}
        asked = ", ".join(store.host for store in self.stores) or "any host that answered"
        silent = "".join(f"; {host.host} is unknown: {host.reason}" for host in self.unreachable)
        hint = did_you_mean(name, names) or "see them all: sparkrun image-cache list"
        return NotCachedError(f"no image '{name}' on {asked}{silent}", hint=hint)


def image_cache(hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> ImageCacheReport:
    """Every image of the hosts. A host that cannot tell is in ``unreachable``. Raises ``HostsError``."""
    look = _look(hosts, sctx)
    return _report(look, look.holding(None))


def inspect_image(image: str, hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> ImageCacheReport:
    """The images that answer to a tag, a digest or an id. Raises ``NotCachedError`` when no host has one."""
    look = _look(hosts, sctx)
    return _report(look, look.holding(image))


def verify_images(image: str | None = None, hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> ImageCacheReport:
    """Let docker read one image, or all, as a whole on every host: it says which layer is missing or damaged. Progress comes as events."""
    look = _look(hosts, sctx)
    groups = look.holding(image)
    wanted: dict[str, list[str]] = {}
    for host, found in (copy for group in groups for copy in group):
        wanted.setdefault(host, []).append(found.id)
    total = sum(copy.image.size_bytes for group in groups for copy in group)
    emit = look.scope.sctx.emit
    answers = read_images(wanted, look.scope.sctx.runner, lambda done, seconds: emit(Bytes("verify", done, total, seconds)))
    silent = tuple(answer for answer in answers.values() if isinstance(answer, Unreachable))
    verdicts = {
        (host, made): reason for host, answer in answers.items() if not isinstance(answer, Unreachable) for made, reason in answer.items()
    }
    return _report(look, groups, verdicts, silent)


def delete_image(image: str, hosts: HostOptions = HostOptions(), *, apply: bool = False, sctx: SparkrunContext) -> ImageCacheChange:
    """Remove an image from the hosts. Refused where it is pinned or a container has it. Without ``apply``: tell what would go."""
    look = _look(hosts, sctx)
    copies = [copy for group in look.holding(image) for copy in group if answers_to(copy.image, image)]
    return _carry_out("delete", look, [(host, plan_delete(found, image)) for host, found in copies], apply=apply)


def prune_images(
    hosts: HostOptions = HostOptions(), *, older_than_days: float | None = None, apply: bool = False, sctx: SparkrunContext
) -> ImageCacheChange:
    """Remove images without a name; with ``older_than_days`` also those that nothing has used for longer. Without ``apply``: tell what
    would go. What is pinned, or what any container has, is left alone."""
    if older_than_days is not None and older_than_days < 0:
        raise UsageError(f"an image cannot be unused for {older_than_days:g} days")
    look = _look(hosts, sctx)
    plans = [(store.host, removal) for store in look.stores for removal in plan_prune(store, older_than_days=older_than_days)]
    return _carry_out("prune", look, plans, apply=apply)


def pin_image(image: str, hosts: HostOptions = HostOptions(), *, reason: str = "", sctx: SparkrunContext) -> ImageCacheChange:
    """Protect an image on the hosts from ``delete_image`` and ``prune_images``: what the name means there now."""
    by, at = pinned_by(sctx)
    note = msgspec.json.encode(ImagePin(by=by, at=at, reason=reason, name=image)).decode()
    return _pins("pin", image, hosts, lambda found: pin_call(found, note), sctx)


def unpin_image(image: str, hosts: HostOptions = HostOptions(), *, sctx: SparkrunContext) -> ImageCacheChange:
    """Lift the protection."""
    return _pins("unpin", image, hosts, unpin_call, sctx)


def _look(hosts: HostOptions, sctx: SparkrunContext) -> _Look:
    scope = cache_scope(hosts, sctx)
    return _Look(scope, *look_at_images(scope.hosts, scope.sctx.runner))


# --- reports ------------------------------------------------------------------------------------------------------------------------


def _report(look: _Look, groups: Groups, verdicts: Verdicts | None = None, silent: Iterable[Unreachable] = ()) -> ImageCacheReport:
    return ImageCacheReport(
        origin=look.scope.selection.origin,
        cluster=look.scope.cluster,
        hosts=tuple(_host_report(store) for store in look.stores),
        images=tuple(_image_report(group, verdicts) for group in groups),
        differing=dict(differing_names(groups)),
        unreachable=(*look.unreachable, *silent),
    )


def _host_report(store: ImageStore) -> ImageHostReport:
    return ImageHostReport(
        host=store.host,
        root=store.root,
        driver=store.driver,
        free_bytes=store.free_bytes,
        total_bytes=store.total_bytes,
        images=len(store.images),
    )


def _image_report(group: Sequence[Copy], verdicts: Verdicts | None) -> ImageReport:
    first = group[0].image
    return ImageReport(
        name=next((copy.image.names[0] for copy in group if not copy.image.dangling), first.id),
        tags=tuple(dict.fromkeys(tag for copy in group for tag in copy.image.tags)),
        digests=tuple(dict.fromkeys(digest for copy in group for digest in copy.image.digests)),
        size_bytes=max(copy.image.size_bytes for copy in group),
        layers=len(first.layers),
        arch=first.arch,
        os=first.os,
        created_at=first.created_at,
        copies=tuple(_copy_report(copy, verdicts) for copy in group),
    )


def _copy_report(copy: Copy, verdicts: Verdicts | None) -> ImageCopy:
    host, image = copy
    read = verdicts is not None and (host, image.id) in verdicts
    reason = verdicts[host, image.id] if verdicts is not None and read else None
    return ImageCopy(
        host=host,
        id=image.id,
        tags=image.tags,
        unique_bytes=image.unique_bytes,
        last_used_at=moment(image.last_used_at),
        dangling=image.dangling,
        users=image.users,
        pin=image.pin,
        verified=reason is None if read else None,
        reason=reason,
    )


# --- changes ------------------------------------------------------------------------------------------------------------------------


def _carry_out(action: Action, look: _Look, plans: Sequence[tuple[str, ImageRemoval]], *, apply: bool) -> ImageCacheChange:
    allowed: dict[str, list[ImageRemoval]] = {}
    for host, removal in plans:
        if refusal(removal.image) is None:
            allowed.setdefault(host, []).append(removal)
    done: dict[str, Changed] = {}
    if apply:
        calls = [(host, removal_call(removals)) for host, removals in allowed.items()]
        done = dict(zip(allowed, change_hosts(calls, look.scope.sctx.runner), strict=True))
    failed = (changed.failed for changed in done.values() if changed.failed)
    return _change(action, look, [_image_change(host, removal, done.get(host)) for host, removal in plans], failed, applied=apply)


def _image_change(host: str, removal: ImageRemoval, done: Changed | None) -> ImageChange:
    image = removal.image
    names = tuple(name for name in removal.names if name != image.id) or (image.id,)
    if refused := refusal(image):
        return ImageChange(host=host, id=image.id, names=names, outcome="refused", why=removal.why, reason=refused)
    if done is None:
        return ImageChange(host=host, id=image.id, names=names, outcome="planned", why=removal.why, frees_bytes=removal.frees_bytes)
    reason = done.reason(f"{image.id} {removal.names[-1]}")
    if reason:
        return ImageChange(host=host, id=image.id, names=names, outcome="kept", why=removal.why, reason=reason)
    return ImageChange(host=host, id=image.id, names=names, outcome="removed", why=removal.why, frees_bytes=removal.frees_bytes)


def _pins(
    action: Literal["pin", "unpin"], name: str, hosts: HostOptions, make_call: Callable[[HostImage], ScriptCall], sctx: SparkrunContext
) -> ImageCacheChange:
    look = _look(hosts, sctx)
    copies = [copy for group in look.holding(name) for copy in group if answers_to(copy.image, name)]
    done = change_hosts([(host, make_call(image)) for host, image in copies], look.scope.sctx.runner)
    outcome: Outcome = "pinned" if action == "pin" else "unpinned"
    changes = [
        ImageChange(host=host, id=image.id, names=image.names, outcome="kept", reason=changed.failed.reason)
        if changed.failed
        else ImageChange(host=host, id=image.id, names=image.names, outcome=outcome)
        for (host, image), changed in zip(copies, done, strict=True)
    ]
    return _change(action, look, changes, (changed.failed for changed in done if changed.failed), applied=True)


def _change(
    action: Action, look: _Look, changes: Iterable[ImageChange], failed: Iterable[Unreachable], *, applied: bool
) -> ImageCacheChange:
    return ImageCacheChange(
        action=action,
        applied=applied,
        origin=look.scope.selection.origin,
        cluster=look.scope.cluster,
        images=tuple(changes),
        unreachable=(*look.unreachable, *failed),
    )
