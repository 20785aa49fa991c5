from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.streams import Stream, stream_all
from sparkrun.testing import FakeCluster

CALL = ScriptCall("local_logs")


class Following(FakeCluster):
    """Hosts whose streams go on until they are stopped."""

    def __init__(self) -> None:
        self.stopped = {"a": threading.Event(), "b": threading.Event()}

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: threading.Event | None = None,
    ) -> RemoteResult:
        on_line(f"up {host}")
        assert stop is not None
        if stop.wait(20):
            self.stopped[host].set()
        return RemoteResult(host, 0)


class Answering(FakeCluster):
    """Hosts that send one line, the last host first."""

    def __init__(self) -> None:
        self.b_sent = threading.Event()

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: threading.Event | None = None,
    ) -> RemoteResult:
        if host == "a":
            assert self.b_sent.wait(20)
        on_line(host)
        self.b_sent.set()
        return RemoteResult(host, 3 if host == "b" else 0)


def test_streams_run_at_the_same_time_and_results_come_in_order() -> None:
    lines: list[str] = []
    results = stream_all([Stream("a", CALL, lines.append), Stream("b", CALL, lines.append)], Answering(), timeout_s=20)
    assert lines == ["b", "a"]
    assert [(each.host, each.returncode) for each in results] == [("a", 0), ("b", 3)]


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt])
def test_a_taker_of_lines_that_raises_ends_every_stream(error: type[BaseException]) -> None:
    hosts = Following()

    def raise_at_b(line: str) -> None:
        if line == "up b":
            raise error

    with pytest.raises(error):
        stream_all([Stream(host, CALL, raise_at_b) for host in "ab"], hosts, timeout_s=None)
    assert hosts.stopped["a"].wait(20)


def test_one_stream_needs_no_thread() -> None:
    threads: list[threading.Thread] = []
    hosts = Answering()
    hosts.b_sent.set()
    stream_all([Stream("b", CALL, lambda _line: threads.append(threading.current_thread()))], hosts, timeout_s=20)
    assert threads == [threading.current_thread()]
