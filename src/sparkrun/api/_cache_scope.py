"""What the commands on caches share: whose caches they look at, and what runs there and must keep its files."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from sparkrun.api._context import reach
from sparkrun.api._workloads import OURSELVES, THIS_MACHINE, observe_status
from sparkrun.core.cluster_status import ClusterStatus, Workload
from sparkrun.core.context import SparkrunContext
from sparkrun.core.errors import RecipeError
from sparkrun.core.facts import Unreachable
from sparkrun.core.hosts import HostOptions, HostSelection, resolve_hosts
from sparkrun.core.model_source import parse_model

_FOLDER = re.compile(r"/models--([^/]+)(?:/|$)")


class Scope(msgspec.Struct, frozen=True):
    """The hosts of a command on caches, and how they are reached."""

    selection: HostSelection
    sctx: SparkrunContext

    @property
    def hosts(self) -> tuple[str, ...]:
        """In the order in which they were named."""
        return self.selection.hosts

    @property
    def cluster(self) -> str | None:
        """The saved cluster whose hosts these are."""
        return self.selection.cluster.name if self.selection.cluster else None


class Users(msgspec.Struct, frozen=True):
    """Who uses a thing on which hosts, as running workloads tell; ``unknown`` are hosts that could not tell, with the reason."""

    by_host: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    unknown: Mapping[str, str] = {}

    def refusal(self, thing: str, hosts: Iterable[str]) -> str | None:
        """Why ``thing`` must stay on these hosts; ``None`` when nothing there uses it."""
        for host in hosts:
            if ids := self.by_host.get(host, {}).get(thing):
                return f"{', '.join(ids)} uses it on {host}"
            if host in self.unknown:
                return f"what runs on {host} is unknown: {self.unknown[host]}"
        return None


def cache_scope(hosts: HostOptions, sctx: SparkrunContext) -> Scope:
    """The hosts that are named or configured, else this machine. Raises as ``resolve_hosts``."""
    sctx = reach(hosts, sctx)
    return Scope(resolve_hosts(hosts, sctx.config) or HostSelection((THIS_MACHINE,), OURSELVES), sctx)


def model_users(scope: Scope) -> Users:
    """The models that running workloads use, by host."""
    return users_of(observe_status(scope.selection, scope.sctx))


def users_of(status: ClusterStatus) -> Users:
    """The models in the labels of what lives."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for workload in status.workloads:
        repo = _repo(workload)
        for rank in workload.ranks:
            if repo and rank.alive:
                models = found.setdefault(rank.host, {})
                models[repo] = tuple(dict.fromkeys((*models.get(repo, ()), workload.cluster_id)))
    return Users(found, {host.host: _why_unknown(host) for host in status.unreachable})


def moment(epoch_s: float | None) -> str | None:
    """Seconds of the epoch as ISO 8601 in UTC."""
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds")


def pinned_by(sctx: SparkrunContext) -> tuple[str, str]:
    """Who pins something, ``user@machine``, and when."""
    who = f"{sctx.config.env.get('USER') or 'somebody'}@{platform.node()}"
    return who, datetime.now(UTC).isoformat(timespec="seconds")


def _why_unknown(host: Unreachable) -> str:
    return f"{host.reason} ({host.hint})" if host.hint else host.reason


def _repo(workload: Workload) -> str | None:
    text = workload.model or ""
    if found := _FOLDER.search(text):
        return found[1].replace("--", "/")
    try:
        return parse_model(text).repo
    except RecipeError:
        return None
