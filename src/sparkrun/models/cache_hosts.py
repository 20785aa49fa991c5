"""Looking at the hub caches of hosts, reading their files, changing them: one script each, all hosts at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from sparkrun.core.facts import Unreachable
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.core.shared_caches import groups_of
from sparkrun.models.cache_rules import Check, RemovalPlan
from sparkrun.models.hub_cache import CachedModel, HubCache, parse_cache
from sparkrun.orchestration.host_reading import OnBytes, read_on_hosts
from sparkrun.orchestration.observe import CONNECT_TIMEOUT_S, silence_of
from sparkrun.orchestration.transfer_locks import lock_file
from sparkrun.utils.shell import parse_answers

LOOK_TIMEOUT_S = 120
"""A cache on a slow share, with nothing of it in memory, is walked for minutes rather than seconds."""
READ_BACK_TIMEOUT_S = 20

Verdict = Literal["ok", "wrong", "unreadable"]


class SharedCache(msgspec.Struct, frozen=True):
    """One physical cache, and the hosts that use it. ``cache`` is how the host sees it that acts for all: one that may write, if any."""

    hosts: tuple[str, ...]
    cache: HubCache

    @property
    def name(self) -> str:
        """The hosts, for a message."""
        return ", ".join(self.hosts)


class Finding(msgspec.Struct, frozen=True):
    """What reading a blob came to. ``expected_bytes`` where its length is wrong and the right one is known."""

    path: str
    verdict: Verdict
    expected_bytes: int | None = None


def look_at_caches(hosts: Sequence[str], hf_home: str, runner: HostRunner) -> tuple[tuple[SharedCache, ...], tuple[Unreachable, ...]]:
    """Every physical cache of these hosts once, in their order, and the hosts that could not tell.

    ``hf_home`` is where hosts keep models, when it is not for them to say. A cache on a network file system that has no marker gets one
    if it can be written; the other hosts are asked then whether they read it too.
    """
    call = ScriptCall("model_cache", {"HF_HOME_OVERRIDE": hf_home, "MARK": "1"}, connect_timeout_s=CONNECT_TIMEOUT_S)
    results = runner.run_all([(host, call) for host in hosts], timeout_s=LOOK_TIMEOUT_S)
    seen = {result.host: cache for result in results if (cache := _cache_of(result)) is not None}
    silent = tuple(_silent(result) for result in results if result.host not in seen)
    ids = _read_back(seen, hf_home, runner) if len(seen) > 1 and any(cache.marked for cache in seen.values()) else {}
    groups = groups_of({host: ids.get(host, cache.cache_id) for host, cache in seen.items()})
    return tuple(SharedCache(group, _actor([seen[host] for host in group])) for group in groups), silent


def verify_files(
    tasks: Mapping[str, tuple[str, Sequence[Check]]], runner: HostRunner, on_bytes: OnBytes
) -> dict[str, tuple[Finding, ...] | Unreachable]:
    """Read files and compare: by host, the hub's folder and what to check there. A host that fails has read nothing."""
    calls = {host: _verify_call(hub, checks) for host, (hub, checks) in tasks.items()}
    return {result.host: _findings(result) for result in read_on_hosts(calls, runner, on_bytes)}


def removal_call(cache: HubCache, plans: Iterable[RemovalPlan], folders: Mapping[str, str]) -> ScriptCall:
    """Remove what was planned. ``folders`` are those of the models, by id."""
    chosen = tuple(plans)
    remove = tuple(f"{removal.inode} {removal.path}" for plan in chosen for removal in plan.removals)
    missing = tuple(f"{folders[plan.repo]} {file}" for plan in chosen for file in plan.missing)
    bringing = tuple(f"{folders[plan.repo]} {lock_file('model', plan.repo)}" for plan in chosen if plan.repo)
    return ScriptCall("model_change", {"HUB": cache.hub, "REMOVE": remove, "MISSING": missing, "BRINGING": bringing})


def pin_call(cache: HubCache, model: CachedModel, note: str) -> ScriptCall:
    """Pin a model; ``note`` is one line of JSON (``Pin``)."""
    return ScriptCall("model_change", {"HUB": cache.hub, "PIN": model.folder, "NOTE": note})


def unpin_call(cache: HubCache, model: CachedModel) -> ScriptCall:
    """Lift a pin."""
    return ScriptCall("model_change", {"HUB": cache.hub, "UNPIN": model.folder})


def _cache_of(result: RemoteResult) -> HubCache | None:
    section = parse_answers(result.stdout).section("CACHE")
    return parse_cache(result.host, section) if result.ok and section.complete else None


def _silent(result: RemoteResult) -> Unreachable:
    return silence_of(result, "what it said of its cache")


def _read_back(seen: Mapping[str, HubCache], hf_home: str, runner: HostRunner) -> dict[str, str]:
    call = ScriptCall("cache_identity", {"HF_HOME_OVERRIDE": hf_home}, connect_timeout_s=CONNECT_TIMEOUT_S)
    results = runner.run_all([(host, call) for host in seen], timeout_s=READ_BACK_TIMEOUT_S)
    told = {result.host: parse_answers(result.stdout).section("CACHE").text("CACHE_ID") for result in results if result.ok}
    return {host: text for host, text in told.items() if text}


def _actor(caches: Sequence[HubCache]) -> HubCache:
    return next((cache for cache in caches if cache.writable), caches[0])


def _verify_call(hub: str, checks: Iterable[Check]) -> ScriptCall:
    wanted = tuple(f"{check.kind} {check.value} {check.path}" for check in checks)
    return ScriptCall("model_verify", {"HUB": hub, "WANTED": wanted, "LIFELINE": "1"}, connect_timeout_s=CONNECT_TIMEOUT_S)


def _findings(result: RemoteResult) -> tuple[Finding, ...] | Unreachable:
    section = parse_answers(result.stdout).section("VERIFY")
    if not result.ok or not section.complete:
        return _silent(result)
    return tuple(finding for key, value in section.pairs if (finding := _finding(key, value)))


def _finding(key: str, value: str) -> Finding | None:
    match key:
        case "OK":
            return Finding(value, "ok")
        case "WRONG":
            return Finding(value, "wrong")
        case "UNREADABLE":
            return Finding(value, "unreadable")
        case "SIZE":
            size, _blank, path = value.partition(" ")
            return Finding(path, "wrong", int(size))
    return None
