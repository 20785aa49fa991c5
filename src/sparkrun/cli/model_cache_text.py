"""Model caches as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.api import CacheReport, ModelCacheChange, ModelCacheReport, ModelChange, ModelReport, Verification
from sparkrun.cli.cache_text import NOTHING, age_text, freed_lines, joined_blocks, pin_lines, room_text, unknown_lines
from sparkrun.cli.tables import columns
from sparkrun.utils.text import counted, printable, size_text

_TITLES = ("MODEL", "SIZE", "LAST USED", "PIN", "STATE")
_MOST_SHOWN = 20
"""How many parts of one model a plan lists; the rest is counted."""


def report_text(report: ModelCacheReport, *, details: bool = False) -> str:
    """The caches one after the other, each with its models; last what is unknown."""
    return joined_blocks([*(_cache_lines(cache, details=details) for cache in report.caches), unknown_lines(report.unreachable)])


def verify_text(report: ModelCacheReport) -> str:
    """What reading came to, one line a model and one for each thing that is wrong."""
    return joined_blocks([*(_verify_lines(cache) for cache in report.caches), unknown_lines(report.unreachable)])


def change_text(change: ModelCacheChange) -> str:
    """What went or would go, and what that frees."""
    return joined_blocks([*_change_blocks(change), unknown_lines(change.unreachable), _summary(change)])


def _cache_lines(cache: CacheReport, *, details: bool) -> list[str]:
    lines = [_title(cache)]
    if details:
        return [*lines, *(line for model in cache.models for line in _details(model))]
    if cache.models:
        lines += [f"  {line}" for line in columns([_TITLES, *(_row(model) for model in cache.models)]).splitlines()]
    return lines


def _title(cache: CacheReport) -> str:
    hosts = ", ".join(cache.hosts) + (" (one cache)" if cache.shared else "")
    room = room_text(cache.free_bytes, cache.total_bytes)
    if not cache.here:
        return f"{hosts}: {cache.hub} is not there yet{room}"
    writable = "" if cache.writable else ", not writable for this user"
    return f"{hosts}: {cache.hub} — {counted(len(cache.models), 'model')}, {size_text(cache.disk_bytes)}{room}{writable}"


def _row(model: ModelReport) -> tuple[str, ...]:
    return (model.model, size_text(model.disk_bytes), age_text(model.last_used_at), "yes" if model.pin else NOTHING, _state(model))


def _state(model: ModelReport) -> str:
    if model.state == "unknown":
        return "unknown: this user may not read all of it"
    damage = [problem for problem in model.problems if problem.damage]
    if damage:
        return f"damaged: {damage[0].path}" + (f" and {len(damage) - 1} more" if len(damage) > 1 else "")
    waste = sum(problem.kind in ("unfinished", "detached", "unreferenced") for problem in model.problems)
    return "whole" + (f", {waste} to prune" if waste else "")


def _details(model: ModelReport) -> Iterator[str]:
    yield f"  {model.model}: {size_text(model.disk_bytes)}, last used {age_text(model.last_used_at)}, {_state(model)}"
    if model.linked_to:
        yield f"    its folder is a link to {model.linked_to}"
    yield from pin_lines(model.pin)
    if model.used_by:
        yield f"    used by {', '.join(model.used_by)}"
    for snapshot in model.snapshots:
        yield f"    snapshot {snapshot.revision}" + (f" ({', '.join(snapshot.refs)})" if snapshot.refs else "")
        rows = [(f"      {printable(file.name)}", _size(file.size_bytes), file.state) for file in snapshot.files]
        yield from columns(rows).splitlines() if rows else ()
    for problem in model.problems:
        yield f"    {problem.kind}: {problem.path} ({problem.text})"


def _verify_lines(cache: CacheReport) -> list[str]:
    lines = [_title(cache)]
    for model in cache.models:
        found = model.verification
        if found is None:
            lines.append(f"  {model.model}: not read")
            continue
        damage = [problem for problem in model.problems if problem.damage]
        wrong = [f"    {file.files[0] if file.files else file.blob}: {file.reason}" for file in found.wrong]
        wrong += [f"    {problem.path}: {problem.text}" for problem in damage]
        lines.append(f"  {model.model}: {counted(len(wrong), 'file') + ' wrong' if wrong else 'good'} ({_extent(found)})")
        lines += wrong
        if found.unchecked and not found.quick:
            lines.append(f"    {counted(len(found.unchecked), 'file')} cannot be checked: no name says what is in them")
    return lines


def _extent(found: Verification) -> str:
    files = counted(found.checked_blobs, "file")
    return f"the length of {files} compared" if found.quick else f"{files}, {size_text(found.checked_bytes)} read"


def _size(size_bytes: int | None) -> str:
    return NOTHING if size_bytes is None else size_text(size_bytes)


def _change_blocks(change: ModelCacheChange) -> Iterator[list[str]]:
    for cache in change.caches:
        lines = [f"{', '.join(cache.hosts)}: {cache.hub}"]
        for model in cache.models:
            lines += _change_lines(model, change)
        if cache.failed:
            lines += [f"  failed: {cache.failed.reason}", *(f"    hint: {line}" for line in (cache.failed.hint or "").splitlines())]
        if not cache.models:
            lines.append("  nothing to do")
        yield lines


def _change_lines(model: ModelChange, change: ModelCacheChange) -> Iterator[str]:
    name = model.model or "what belongs to no model"
    if model.pinned is not None:
        yield f"  {name}: {'pinned' if model.pinned else 'not pinned'}"
        return
    if model.refused:
        yield f"  {name} stays: {model.refused}"
        return
    yield f"  {name}: {'freed' if change.applied else 'frees'} {size_text(model.frees_bytes)}"
    for removal in model.removals[:_MOST_SHOWN]:
        kept = f"; kept: {removal.reason}" if removal.outcome == "kept" else ""
        yield f"    {removal.path} ({removal.why}{kept})"
    if len(model.removals) > _MOST_SHOWN:
        yield f"    and {len(model.removals) - _MOST_SHOWN} more"
    for command in model.commands:
        yield f"    the next launch brings it again, or there: {command}"


def _summary(change: ModelCacheChange) -> list[str]:
    if change.action in ("pin", "unpin"):
        return []
    gone = "removed" if change.applied else "planned"
    going = any(removal.outcome == gone for cache in change.caches for model in cache.models for removal in model.removals)
    return freed_lines(size_text(change.frees_bytes), going=going, applied=change.applied)
