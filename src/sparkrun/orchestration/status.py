"""What runs on a set of hosts, by every executor that can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sparkrun.core.cluster_status import ClusterStatus, join_workloads
from sparkrun.core.facts import Unreachable, WorkloadFacts
from sparkrun.core.remote import HostRunner, RemoteResult
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.executor import Executor
from sparkrun.orchestration.observe import workloads_of

STATUS_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 3
"""A host that does not let us in by then is shown as unknown: nobody waits longer for a host that is off."""


def query_status_for_cluster(hosts: Mapping[str, Sequence[Executor]], runner: HostRunner) -> ClusterStatus:
    """Ask every host for the given executors, all at the same time. A host that fails any of them is unknown."""
    executors = {executor.plugin_name: executor for asked in hosts.values() for executor in asked}
    questions = [
        (executor, msgspec.structs.replace(executor.status_call(), connect_timeout_s=CONNECT_TIMEOUT_S)) for executor in executors.values()
    ]
    # One question after the other, each for all hosts: its script is put together once.
    asked = [(host, executor, call) for executor, call in questions for host, wanted in hosts.items() if executor in wanted]
    results = runner.run_all(((host, call) for host, _executor, call in asked), timeout_s=STATUS_TIMEOUT_S)
    found: list[WorkloadFacts] = []
    lost: dict[str, Unreachable] = {}
    for (_host, executor, _call), result in zip(asked, results, strict=True):
        _take(result, executor, found, lost)
    return ClusterStatus(tuple(hosts), join_workloads(found), tuple(lost.values()))


def _take(result: RemoteResult, executor: Executor, found: list[WorkloadFacts], lost: dict[str, Unreachable]) -> None:
    if result.ok:
        found.extend(workloads_of(result, executor.plugin_name))
    else:
        scope = None if result.unreachable or result.timed_out else executor.plugin_name
        lost.setdefault(result.host, Unreachable(result.host, failure_text(result), failure_hint(result), scope))
