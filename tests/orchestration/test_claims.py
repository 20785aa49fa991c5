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
        self.stuck: set[str] = set()
        """Hosts whose look never ends."""

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
        assert (timeout_s, call.params["CLAIM"], call.params["LIFELINE"]) == (None, "1", "1")
        if host in self.silent:
            return RemoteResult(host, 255, stderr="ssh: connect to host: No route to host", unreachable=True)
        if not self.lock(host).acquire(blocking=False):
            for line in ("SPARKRUN_CLAIM_START", "CLAIMED=0", "REASON=busy"):
                on_line(line)
            return RemoteResult(host, 1)
        for line in ("SPARKRUN_HOST_START", f"HOSTNAME={host}", "SPARKRUN_HOST_END", *(() if host in self.stuck else ("LOOKED=1",))):
            on_line(line)
        assert stop is not None
        assert stop.wait(20)
        self.lock(host).release()
        return RemoteResult(host, 0)

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        raise NotImplementedError

    def run_all(
        self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: threading.Event | None = None
    ) -> tuple[RemoteResult, ...]:
        raise NotImplementedError

    def is_local(self, host: str) -> bool:
        del host
        return False


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


def take(claims: Claims, *hosts: str, timeout_s: float = 20) -> tuple[RemoteResult, ...]:
    return claims.take([(host, ScriptCall("observe", {"MODEL": "m"})) for host in hosts], timeout_s=timeout_s)


def free(hosts: Hosts, name: str) -> bool:
    return not hosts.lock(name).locked()


def test_all_hosts_are_held_until_the_block_is_left(hosts: Hosts) -> None:
    with claiming(hosts, lambda _event: None) as claims:
        seen = take(claims, "a", "b")
        assert [(result.host, result.ok, f"HOSTNAME={result.host}" in result.stdout) for result in seen] == [
            ("a", True, True),
            ("b", True, True),
        ]
        assert not free(hosts, "a")
        assert not free(hosts, "b")
    assert free(hosts, "a")
    assert free(hosts, "b")


def test_a_silent_host_leaves_the_others_free(hosts: Hosts) -> None:
    hosts.silent.add("b")
    with claiming(hosts, lambda _event: None) as claims:
        assert [(result.host, result.ok, result.unreachable) for result in take(claims, "a", "b")] == [
            ("a", True, False),
            ("b", False, True),
        ]
        assert free(hosts, "a")


def test_a_look_that_does_not_end_is_given_up(hosts: Hosts) -> None:
    hosts.stuck.add("b")
    with claiming(hosts, lambda _event: None) as claims:
        assert [(result.host, result.timed_out) for result in take(claims, "a", "b", timeout_s=0.2)] == [("a", False), ("b", True)]
        assert free(hosts, "a")


def test_another_launch_is_waited_for_and_told_once(hosts: Hosts) -> None:
    events: list[Event] = []
    other = Claims(hosts, events.append)
    take(other, "b")
    threading.Timer(0.5, other.release).start()
    with claiming(hosts, events.append) as claims:
        assert all(result.ok for result in take(claims, "a", "b"))
    assert [event.text for event in events if isinstance(event, Note)] == ["another launch is at work on b: waiting for it"]


def test_two_that_want_the_same_hosts_in_another_order_both_get_them(hosts: Hosts) -> None:
    def launch(order: list[str]) -> None:
        with claiming(hosts, lambda _event: None) as claims:
            assert all(result.ok for result in take(claims, *order))
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
    take(other, "a")
    with claiming(hosts, lambda _event: None) as claims, pytest.raises(HostsBusyError, match="at work on a for 0 s"):
        take(claims, "a")
    other.release()
