"""How long ``status`` waits for a host."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Event

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.local_executor import LocalExecutor
from sparkrun.orchestration.status import query_status_for_cluster
from sparkrun.testing import FakeCluster


class Noting(FakeCluster):
    """Hosts in memory that keep what they were asked."""

    asked: list[ScriptCall]

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: Event | None = None) -> tuple[RemoteResult, ...]:
        wanted = list(calls)
        self.asked = [call for _host, call in wanted]
        return super().run_all(wanted, timeout_s=timeout_s)


def test_a_host_that_is_off_is_waited_for_no_longer_than_three_seconds(tmp_path: Path) -> None:
    hosts = Noting("a", "b", root=tmp_path)
    hosts["b"].reachable = False
    status = query_status_for_cluster(dict.fromkeys(hosts.hosts, (LocalExecutor(),)), hosts)
    assert [call.connect_timeout_s for call in hosts.asked] == [3, 3]
    (unknown,) = status.unreachable
    assert (unknown.host, unknown.reason) == ("b", "unreachable: no route to host (b port 22)")
    assert unknown.hint is not None
