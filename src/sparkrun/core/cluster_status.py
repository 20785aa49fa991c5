"""What runs where, joined over hosts. A host that did not answer is unknown, never empty."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from sparkrun.core.facts import Unreachable, WorkloadFacts
from sparkrun.core.identity import matches_id


class State(StrEnum):
    """How a workload is, by all its ranks that could be seen."""

    READY = "ready"
    STARTING = "starting"
    UNHEALTHY = "unhealthy"
    RUNNING = "running"
    """Alive; whether it answers cannot be told."""
    PARTIAL = "partial"
    """Some ranks live and some do not, or some are on hosts that did not answer."""
    EXITED = "exited"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One workload over all hosts that were looked at."""

    cluster_id: str
    state: State
    ranks: tuple[WorkloadFacts, ...]
    recipe: str | None = None
    recipe_ref: str | None = None
    runtime: str | None = None
    model: str | None = None
    served_model_name: str | None = None
    port: int | None = None
    tensor_parallel: int = 1
    launch: str | None = None
    digest: str | None = None
    placed: tuple[str, ...] = ()
    """Where all its ranks are, as whoever launched it calls the hosts; empty when its ranks do not tell."""
    missing: int = 0
    """How many of its ranks were not seen: gone, or on hosts that did not answer."""

    @property
    def head(self) -> WorkloadFacts:
        """The rank that answers requests."""
        return self.ranks[0]

    @property
    def head_seen(self) -> bool:
        """Whether ``head`` is the rank that answers requests, and not another one because that was not seen."""
        return not _number(self.head, "rank")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where its ranks are, each host once."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    @property
    def lacking(self) -> tuple[str, ...]:
        """Hosts that it was launched on and on which nothing of it was seen, as long as ranks are missing."""
        return tuple(host for host in self.placed if host not in self.hosts) if self.missing else ()

    @property
    def alive(self) -> bool:
        """Whether any of its ranks lives."""
        return any(rank.alive for rank in self.ranks)

    def answers_to(self, name: str) -> bool:
        """Whether ``name`` is its id, the beginning of it, its recipe, model or served name, or that of one of its containers."""
        names = {self.cluster_id, self.recipe, self.recipe_ref, self.model, self.served_model_name, *(rank.name for rank in self.ranks)}
        return name in names or matches_id(name, self.cluster_id)


class ClusterStatus(msgspec.Struct, frozen=True):
    """Everything seen on a set of hosts at one moment."""

    hosts: tuple[str, ...]
    workloads: tuple[Workload, ...]
    unreachable: tuple[Unreachable, ...] = ()

    @property
    def idle_hosts(self) -> tuple[str, ...]:
        """Hosts that answered and run nothing of ours."""
        busy = {host for workload in self.workloads if workload.alive for host in workload.hosts}
        lost = {host.host for host in self.unreachable}
        return tuple(host for host in self.hosts if host not in busy | lost)

    def workload(self, cluster_id: str) -> Workload | None:
        """A workload by its full id."""
        return next((workload for workload in self.workloads if workload.cluster_id == cluster_id), None)

    def matching(self, name: str) -> tuple[Workload, ...]:
        """Every workload that answers to ``name``; an exact id wins over all."""
        exact = self.workload(name)
        return (exact,) if exact else tuple(workload for workload in self.workloads if workload.answers_to(name))


def join_workloads(found: Iterable[WorkloadFacts]) -> tuple[Workload, ...]:
    """Ranks on several hosts as workloads, in order of first sight; ranks in rank order."""
    by_id: dict[str, list[WorkloadFacts]] = {}
    for facts in found:
        by_id.setdefault(facts.cluster_id, []).append(facts)
    return tuple(_workload(cluster_id, ranks) for cluster_id, ranks in by_id.items())


def _workload(cluster_id: str, found: list[WorkloadFacts]) -> Workload:
    ranks = tuple(sorted(found, key=lambda rank: _number(rank, "rank") or 0))
    head = ranks[0]
    missing = max((_number(rank, "ranks") or 0) for rank in ranks) - len({_number(rank, "rank") for rank in ranks})
    return Workload(
        cluster_id=cluster_id,
        state=_state(ranks, missing),
        ranks=ranks,
        recipe=_text(head, "recipe"),
        recipe_ref=_text(head, "recipe_ref"),
        runtime=_text(head, "runtime"),
        model=_text(head, "model"),
        served_model_name=_text(head, "served_model_name"),
        port=_number(head, "port"),
        tensor_parallel=_number(head, "tensor_parallel") or 1,
        launch=_text(head, "launch"),
        digest=_text(head, "digest"),
        placed=tuple(filter(None, (_text(head, "hosts") or "").split(","))),
        missing=max(0, missing),
    )


def _state(ranks: tuple[WorkloadFacts, ...], missing: int) -> State:
    living = [rank for rank in ranks if rank.alive]
    if not living:
        return State.EXITED
    if len(living) < len(ranks) or missing > 0:
        return State.PARTIAL
    head = ranks[0]
    if head.port_open is None:
        return State.RUNNING
    if not head.port_open or head.health == 503:
        return State.STARTING  # llama.cpp, vLLM and SGLang answer 503 while they load
    return State.READY if head.health == 200 else State.UNHEALTHY


def _text(facts: WorkloadFacts, key: str) -> str | None:
    value = facts.labels.get(key)
    return str(value) if value is not None else None


def _number(facts: WorkloadFacts, key: str) -> int | None:
    value = facts.labels.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
