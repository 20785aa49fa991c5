"""The compile caches that launches leave on hosts: what there is, and removing what was not used for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from sparkrun.api._cache_scope import cache_scope, moment
from sparkrun.api._plain import PlainData
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import UsageError
from sparkrun.core.facts import Unreachable
from sparkrun.core.hosts import HostOptions
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.observe import CONNECT_TIMEOUT_S, silence_of
from sparkrun.runtimes.runtime_cache import PRUNE_AFTER_DAYS
from sparkrun.utils.shell import Section, parse_answers

TIMEOUT_S = 600
KIB = 1024
MINUTES_A_DAY = 24 * 60
MOST_MINUTES = 10**9
"""About two thousand years: find takes no more."""


class RuntimeCacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The compiled kernels of one model. ``outcome``: ``fresh`` stays, ``planned`` would go, ``removed`` went, ``kept`` could not go."""

    path: str
    size_bytes: int | None
    last_used_at: str | None
    outcome: Literal["fresh", "planned", "removed", "kept"]
    reason: str | None = None


class RuntimeCacheHost(msgspec.Struct, frozen=True, kw_only=True):
    """The runtime cache of one host."""

    host: str
    root: str
    entries: tuple[RuntimeCacheEntry, ...]


class RuntimeCacheReport(PlainData, frozen=True, kw_only=True):
    """What was, or with ``applied`` false would be, removed on all hosts."""

    schema: str = "sparkrun.runtime-cache/1"
    applied: bool
    max_age_days: float
    origin: str
    hosts: tuple[RuntimeCacheHost, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def frees_bytes(self) -> int:
        """Of what is planned or removed, on all hosts."""
        going = (entry for host in self.hosts for entry in host.entries if entry.outcome in ("planned", "removed"))
        return sum(entry.size_bytes or 0 for entry in going)

    @property
    def complete(self) -> bool:
        """Whether every host answered and nothing had to stay that was to go."""
        return not self.unreachable and all(entry.outcome != "kept" for host in self.hosts for entry in host.entries)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**super().to_json(), "frees_bytes": self.frees_bytes}


def prune_runtime_cache(
    hosts: HostOptions = HostOptions(), *, max_age_days: float | None = None, apply: bool = False, sctx: SparkrunContext
) -> RuntimeCacheReport:
    """Remove the entries of the runtime caches that no launch has used for ``max_age_days`` and no running container has.

    The default is ``runtime_cache.prune.max_age_days`` of config.yaml, else 30. Without ``apply``: tell what would go. Raises
    ``UsageError`` for an age that is none, such as 0.
    """
    scope = cache_scope(hosts, sctx)
    age_days = sctx.config.number("runtime_cache.prune.max_age_days", PRUNE_AFTER_DAYS) if max_age_days is None else max_age_days
    if not 1 <= age_days * MINUTES_A_DAY <= MOST_MINUTES:
        raise UsageError(f"nothing is pruned after {age_days:g} days", hint="name an age: --older-than 30")
    call = ScriptCall(
        "runtime_cache",
        {"PRUNE_MINUTES": str(round(age_days * MINUTES_A_DAY)), "APPLY": "1" if apply else ""},
        connect_timeout_s=CONNECT_TIMEOUT_S,
    )
    results = scope.sctx.runner.run_all([(host, call) for host in scope.hosts], timeout_s=TIMEOUT_S)
    found = [(result, parse_answers(result.stdout).section("RUNTIME_CACHE")) for result in results]
    return RuntimeCacheReport(
        applied=apply,
        max_age_days=age_days,
        origin=scope.selection.origin,
        hosts=tuple(_host(result, section, applied=apply) for result, section in found if result.ok and section.complete),
        unreachable=tuple(silence_of(result, "the look at its cache") for result, section in found if not (result.ok and section.complete)),
    )


def _host(result: RemoteResult, section: Section, *, applied: bool) -> RuntimeCacheHost:
    return RuntimeCacheHost(host=result.host, root=section.text("ROOT") or "", entries=tuple(_entries(section, applied=applied)))


def _entries(section: Section, *, applied: bool) -> Iterator[RuntimeCacheEntry]:
    stale, removed = set(section.all("STALE")), set(section.all("REMOVED"))
    kept = dict(text.split("\t", 1) for text in section.all("KEPT") if "\t" in text)
    for text in sorted(section.all("ENTRY"), key=lambda text: text.split(" ", 2)[-1]):
        kib, used, path = text.split(" ", 2)
        outcome: Literal["fresh", "planned", "removed", "kept"] = "fresh"
        if path in stale:
            outcome = "removed" if path in removed else "kept" if applied else "planned"
        yield RuntimeCacheEntry(
            path=path,
            size_bytes=int(kib) * KIB if kib.isdecimal() else None,
            last_used_at=moment(float(used)) if used.isdecimal() else None,
            outcome=outcome,
            reason=kept.get(path),
        )
