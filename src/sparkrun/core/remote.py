"""The seam between what decides and what touches hosts: a named script with its parameters, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Protocol

import msgspec

Params = Mapping[str, str | tuple[str, ...]]


class Root(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a script runs as root, by sudo: without a password (``sudo -n``), or with this one, which goes to its stdin only."""

    password: str | None = None

    def __repr__(self) -> str:
        return "Root()" if self.password is None else "Root(password='***')"


class ScriptCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a script of ``sparkrun.scripts`` on a host.

    ``secrets`` are parameters too, kept apart so that no dump, log or metadata ever holds them.
    """

    name: str
    params: Params = {}
    secrets: Params = {}
    uploads: dict[str, str] = {}
    """Parameters that are files of the control machine: a folder or file by its path, packed when the script is sent."""
    root: Root | None = None
    connect_timeout_s: float | None = None
    """How long the host may take to let us in; ``None`` is the usual patience of whoever reaches it."""
    feed: tuple[str, ...] = ()
    """A command of the control machine, whose output is the script's standard input (``HostRunner.send_all``)."""
    then: ScriptCall | None = None
    """A script that begins in the same session once this one has succeeded. Where this one fails, that is how both end."""

    @property
    def chain(self) -> tuple[ScriptCall, ...]:
        """This script and those that follow it."""
        return (self, *(self.then.chain if self.then else ()))

    def masked(self) -> ScriptCall:
        """The same call with every secret value replaced, safe to print and to keep."""
        hidden = {key: _hide(value) for key, value in self.secrets.items()}
        root = self.root if self.root is None or self.root.password is None else Root("***")
        return msgspec.structs.replace(self, secrets=hidden, root=root, then=self.then.masked() if self.then else None)


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What ssh offers to a host: as whom, where, and with which keys (files that exist)."""

    user: str
    address: str
    port: int
    keys: tuple[str, ...] = ()
    agent: bool = False
    """Whether the keys of an ssh agent are offered too."""


class RemoteResult(msgspec.Struct, frozen=True):
    """How a script ended on a host. ``returncode`` 255 with ``unreachable`` means that the host itself did not answer."""

    host: str
    returncode: int
    stdout: str = ""
    stderr: str = ""
    unreachable: bool = False
    timed_out: bool = False
    connected: bool = False
    """Whether the host let us in: what went wrong then went wrong there, or while the script ran."""
    began: bool = False
    """Whether the script's own bash was seen to begin, behind sudo where it runs as root."""
    limit_s: float | None = None
    """The time that was over, when ``timed_out``."""
    login: Login | None = None
    """What was offered, when the host denied it."""

    @property
    def ok(self) -> bool:
        """Whether the script ran to its end without an error."""
        return self.returncode == 0 and not self.unreachable and not self.timed_out


class HostRunner(Protocol):
    """Runs scripts on hosts: over ssh, directly on this machine, or in a test's memory."""

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """Run to the end; never raises for what a host does, the result says it."""
        ...

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: Event | None = None,
    ) -> RemoteResult:
        """Run and hand each line of output on as it comes, until it ends or ``stop`` is set; ``stdout`` of the result stays empty."""
        ...

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: Event | None = None) -> tuple[RemoteResult, ...]:
        """Run several at the same time; results in the order of ``calls``. Once ``stop`` is set, those that still run are given up."""
        ...

    def run_here(self, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """Run on the control machine itself, as the user we are there, whoever we are on hosts."""
        ...

    def stream_here(
        self, call: ScriptCall, on_line: Callable[[str], None], *, timeout_s: float | None, stop: Event | None = None
    ) -> RemoteResult:
        """``stream`` on the control machine itself."""
        ...

    def send_all(
        self, calls: Iterable[tuple[str, ScriptCall]], on_bytes: Callable[[int], None], *, idle_s: float, stop: Event | None = None
    ) -> tuple[RemoteResult, ...]:
        """Run the one ``feed`` that the calls share once, and give what it prints to all of their scripts at the same time.

        ``on_bytes`` hears how much has gone out so far. A host that takes nothing for ``idle_s`` is given up, and holds up no other for
        longer; when the feed fails, every result says so. ``stop`` ends it all.
        """
        ...

    def is_local(self, host: str) -> bool:
        """Whether ``host`` is this machine, reached without ssh and without a network."""
        ...

    def resolves(self, host: str) -> bool:
        """Whether this machine's programs know the name of ``host``: one that only ssh knows is of no use in an address."""
        ...


def _hide(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return "***"
    return tuple(f"{item.partition('=')[0]}=***" if "=" in item else "***" for item in value)
