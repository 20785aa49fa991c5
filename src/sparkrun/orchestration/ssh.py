"""The one place that reaches hosts: scripts on this machine or over OpenSSH, many hosts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import EventSink, Script, ignore_events
from sparkrun.core.hosts import parse_host
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.control_dir import choose_control_dir
from sparkrun.orchestration.local_host import is_local
from sparkrun.orchestration.primitives import build_ssh_kwargs
from sparkrun.orchestration.ssh_command import (
    CONNECT_TIMEOUT_S,
    Connection,
    SshSettings,
    build_ssh_cmd,
    fast_first,
)
from sparkrun.orchestration.ssh_errors import FailureKind, SshFailure, explain_ssh_failure
from sparkrun.orchestration.uploads import script_text

if TYPE_CHECKING:
    from threading import Event

    from sparkrun.orchestration.bulk import Poured, Sink
    from sparkrun.orchestration.ssh_sessions import Session

# What runs sessions is imported when the first one runs: every command makes a runner, and many reach no host.

__all__ = [
    "Connection",
    "FailureKind",
    "RemoteResult",
    "SshFailure",
    "SshRunner",
    "SshSettings",
    "build_ssh_cmd",
    "bulk_connection",
    "choose_control_dir",
    "explain_ssh_failure",
    "is_local",
    "make_ssh_runner",
    "run_remote_script",
]

HERE = "localhost"
SSH_FAILED = 255
"""What ssh ends with when it does not get through, or is cut off."""


def run_remote_script(host: str, text: str, settings: SshSettings, *, timeout_s: float) -> RemoteResult:
    """Run a script's text on ``host`` with ``bash -s``; the result says how it ended, nothing is raised for what the host does."""
    from sparkrun.orchestration.ssh_sessions import Session, run_sessions

    return run_sessions([Session(host, text, timeout_s)], settings)[0]


def bulk_connection(host: str, settings: SshSettings) -> Connection:
    """A connection for large data to ``host``: of its own, and the fastest of the ciphers that the user allows first. Contacts nobody."""
    from sparkrun.orchestration.ssh_sessions import ask_ssh

    told = ask_ssh([host], settings)[0].get("ciphers", ("",))[0]
    return Connection(ciphers=fast_first(cipher for cipher in told.split(",") if cipher))


def make_ssh_runner(config: SparkrunConfig, emit: EventSink = ignore_events, *, user: str | None = None) -> SshRunner:
    """The runner that ``config.yaml`` asks for; ``user`` is that of a cluster. Starts nothing and makes no file."""
    return SshRunner(build_ssh_kwargs(config, user=user, control_dir=choose_control_dir(config.env)), emit)


class SshRunner:
    """Runs scripts by name: directly on this machine, through a shared connection elsewhere, many hosts at once."""

    def __init__(self, settings: SshSettings, emit: EventSink = ignore_events) -> None:
        self.settings = settings
        self._emit = emit

    def with_user(self, user: str) -> SshRunner:
        """The same way to hosts, as another user where a host names none."""
        return SshRunner(msgspec.structs.replace(self.settings, user=user), self._emit)

    def with_users(self, users: Mapping[str, str]) -> SshRunner:
        """The same way to hosts, as these users on single ones."""
        return SshRunner(msgspec.structs.replace(self.settings, users={**self.settings.users, **users}), self._emit)

    def is_local(self, host: str) -> bool:
        """Whether ``host`` is this machine and no other user is asked for."""
        return is_local(host, self.settings.user_of(host))

    def resolves(self, host: str) -> bool:
        """Whether the name is known here. One whose look-up takes longer than a second is taken for known."""
        from sparkrun.orchestration.names import name_is_known  # only a launch asks

        return name_is_known(parse_host(host).name)

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """Run one script to its end."""
        return self.run_all([(host, call)], timeout_s=timeout_s)[0]

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: Event | None = None) -> tuple[RemoteResult, ...]:
        """Run several scripts at the same time, at most ``max_parallel`` of them; results in the given order."""
        from sparkrun.orchestration.ssh_sessions import run_sessions

        texts = _Texts()
        return run_sessions([self._session(host, call, texts, timeout_s) for host, call in calls], self.settings, stop)

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: Event | None = None,
    ) -> RemoteResult:
        """Run one script and hand each line on as it comes."""
        from sparkrun.orchestration.ssh_sessions import run_sessions

        session = msgspec.structs.replace(self._session(host, call, _Texts(), timeout_s), on_line=on_line)
        return run_sessions([session], self.settings, stop)[0]

    def run_here(self, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """Run one script on this machine, whatever user hosts are reached as."""
        return self._here().run(HERE, call, timeout_s=timeout_s)

    def stream_here(
        self, call: ScriptCall, on_line: Callable[[str], None], *, timeout_s: float | None, stop: Event | None = None
    ) -> RemoteResult:
        """Run one script on this machine, and hand each line on as it comes."""
        return self._here().stream(HERE, call, on_line, timeout_s=timeout_s, stop=stop)

    def _here(self) -> SshRunner:
        """To whom this machine is just this machine, whoever ``localhost`` is reached as."""
        return SshRunner(msgspec.structs.replace(self.settings, user=None, users={}), self._emit)

    def send_all(
        self, calls: Iterable[tuple[str, ScriptCall]], on_bytes: Callable[[int], None], *, idle_s: float, stop: Event | None = None
    ) -> tuple[RemoteResult, ...]:
        """Give the output of the calls' ``feed`` to all of their scripts, each over a connection of its own."""
        from sparkrun.orchestration.bulk import pour  # few launches have anything to bring

        given, texts = tuple(calls), _Texts()
        for host, call in given:
            self._emit(Script(host, call.masked()))
        sinks = [self._sink(host, texts.of(call)) for host, call in given]
        poured = pour(given[0][1].feed, sinks, on_bytes, idle_s=idle_s, stop=stop)
        return tuple(_sent(host, ended, idle_s) for (host, _call), ended in zip(given, poured, strict=True))

    def _sink(self, host: str, text: str) -> Sink:
        from sparkrun.orchestration.bulk import Sink

        ssh = [] if self.is_local(host) else build_ssh_cmd(host, self.settings, bulk_connection(host, self.settings))
        return Sink((*ssh, "bash", "-s"), text.encode("utf-8", "surrogateescape"))

    def _session(self, host: str, call: ScriptCall, texts: _Texts, timeout_s: float | None) -> Session:
        from sparkrun.orchestration.ssh_sessions import Session

        self._emit(Script(host, call.masked()))
        patience_s = CONNECT_TIMEOUT_S if call.connect_timeout_s is None else call.connect_timeout_s
        if timeout_s is not None:
            patience_s = min(patience_s, timeout_s)
        return Session(host, texts.of(call), timeout_s, patience_s, call.root)


def _sent(host: str, ended: Poured, idle_s: float) -> RemoteResult:
    """As a result of a script."""
    if ended.feed_error:
        return RemoteResult(host, -1, stderr=ended.feed_error, connected=True)
    lost = ended.returncode == SSH_FAILED
    return RemoteResult(
        host, ended.returncode, ended.stdout, ended.stderr, lost, ended.idle, connected=not lost, began=not lost, limit_s=idle_s
    )


class _Texts:
    """The text of the last call, kept: many hosts are often asked the same."""

    def __init__(self) -> None:
        self._last: tuple[ScriptCall, str] | None = None

    def of(self, call: ScriptCall) -> str:
        if self._last is None or self._last[0] != call:
            self._last = (call, script_text(call))
        return self._last[1]
