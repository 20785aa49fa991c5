"""A claim is all hosts or none, and is let go of when its session ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from sparkrun.core.errors import HostsBusyError
from sparkrun.core.events import Event, Note
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration import claims as module
from sparkrun.orchestration.claims import Claims, claiming


class Hosts(HostRunner):
    """Hosts that one session at a time may claim."""

    def __init__(self) -> None:
        self.locks: dict[str, threading.Lock] = {}
        self.silent: set[str] = set()

    def lock(self, host: str) -> threading.Lock:
        return self.locks.setdefault(host, threading.Lock())

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: threading.Event | None = None,
    ) -> RemoteResult:
        del call, timeout_s
        if host in self.silent:
            return RemoteResult(host, 255, stderr="ssh: connect to host: No route to host", unreachable=True)
        if not self.lock(host).acquire(blocking=False):
            for line in ("SPARKRUN_CLAIM_START", "CLAIMED=0", "REASON=busy"):
                on_line(line)
            return RemoteResult(host, 1)
        on_line("CLAIMED=1")
        assert stop is not None
        assert stop.wait(20)
        self.lock(host).release()
        return RemoteResult(host, 0)

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        raise NotImplementedError

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float) -> tuple[RemoteResult, ...]:
        raise NotImplementedError

    def is_local(self, host: str) -> bool:
        del host
        return False


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


def free(hosts: Hosts, name: str) -> bool:
    return not hosts.lock(name).locked()


def test_all_hosts_are_held_until_the_block_is_left(hosts: Hosts) -> None:
    with claiming(hosts, lambda _event: None) as claims:
        assert claims.take(["a", "b"]) == ()
        assert not free(hosts, "a")
        assert not free(hosts, "b")
    assert free(hosts, "a")
    assert free(hosts, "b")


def test_a_silent_host_leaves_the_others_free(hosts: Hosts) -> None:
    hosts.silent.add("b")
    with claiming(hosts, lambda _event: None) as claims:
        (failed,) = claims.take(["a", "b"])
        assert (failed.host, failed.unreachable) == ("b", True)
        assert free(hosts, "a")


def test_another_launch_is_waited_for_and_told_once(hosts: Hosts) -> None:
    events: list[Event] = []
    other = Claims(hosts, events.append)
    other.take(["b"])
    threading.Timer(0.5, other.release).start()
    with claiming(hosts, events.append) as claims:
        assert claims.take(["a", "b"]) == ()
    assert [event.text for event in events if isinstance(event, Note)] == ["another launch is at work on b: waiting for it"]


def test_two_that_want_the_same_hosts_in_another_order_both_get_them(hosts: Hosts) -> None:
    def launch(order: list[str]) -> None:
        with claiming(hosts, lambda _event: None) as claims:
            assert claims.take(order) == ()
            done.append(order)

    done: list[list[str]] = []
    threads = [threading.Thread(target=launch, args=(order,)) for order in (["a", "b"], ["b", "a"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(done) == 2


def test_patience_has_an_end_that_names_the_host(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0)
    other = Claims(hosts, lambda _event: None)
    other.take(["a"])
    with claiming(hosts, lambda _event: None) as claims, pytest.raises(HostsBusyError, match="at work on a for 0 s"):
        claims.take(["a"])
    other.release()
