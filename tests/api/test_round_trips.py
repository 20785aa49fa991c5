"""How often a launch waits for hosts, one time after the other: what decides how it feels over a slow network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event

import pytest

from sparkrun import api
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.testing import FakeCluster

BESIDE = {"guard"}
"""Held open while the launch goes on: nothing waits for it."""
MOST = 4
MEASURED = {"vllm-distributed": 3, "vllm-ray": 3, "sglang": 3, "trtllm": 4, "atlas": 4, "llama-cpp": 4}
"""Look, start, wait for the answer; one more where some ranks have to be there before others begin."""
HOSTS = ("spark-1", "spark-2", "spark-3", "spark-4")


class Counted(FakeCluster):
    """Writes down each batch that the launch waits for, by the names of its scripts."""

    batches: list[str]

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: Event | None = None) -> tuple[RemoteResult, ...]:
        given = tuple(calls)
        self._note([call for _host, call in given])
        return tuple(super(Counted, self).run(host, call, timeout_s=timeout_s) for host, call in given)

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        self._note([call])
        return super().run(host, call, timeout_s=timeout_s)

    def stream(
        self, host: str, call: ScriptCall, on_line: Callable[[str], None], *, timeout_s: float | None, stop: Event | None = None
    ) -> RemoteResult:
        self._note([call])
        result = super().run(host, call, timeout_s=timeout_s or 0)
        for line in result.stdout.splitlines():
            on_line(line)
        return result

    def _note(self, calls: Sequence[ScriptCall]) -> None:
        names = "+".join(sorted({part.name for call in calls for part in call.chain} - BESIDE))
        if names and not (names == "observe" and self.batches):  # all hosts at once, each over a session of its own, which claims it
            self.batches.append(names)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("runtime", MEASURED)
def test_a_launch_takes_as_many_round_trips_whatever_the_number_of_hosts(tmp_path: Path, runtime: str, count: int) -> None:
    cluster = Counted(*HOSTS[:count], root=tmp_path / "home")
    cluster.batches = []
    cluster.join()
    for host in cluster.by_name.values():
        host.gpus = 1
        host.models["org/m"] = "/models/m"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"model: org/m\nruntime: {runtime}\ncontainer: e/v:1\ndefaults: {{tensor_parallel: {count}, host: 0.0.0.0}}\n")
    assert api.run(api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(hosts=HOSTS[:count])), sctx=cluster.sctx).ready
    assert len(cluster.batches) == (MEASURED[runtime] if count > 1 else 3) <= MOST, cluster.batches
