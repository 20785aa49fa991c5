"""The seam between what decides and what touches hosts: a named script with its parameters, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Protocol

import msgspec

Params = Mapping[str, str | tuple[str, ...]]


class ScriptCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a script of ``sparkrun.scripts`` on a host.

    ``secrets`` are parameters too, kept apart so that no dump, log or metadata ever holds them.
    """

    name: str
    params: Params = {}
    secrets: Params = {}

    def masked(self) -> ScriptCall:
        """The same call with every secret value replaced, safe to print and to keep."""
        hidden = {key: _hide(value) for key, value in self.secrets.items()}
        return ScriptCall(self.name, self.params, hidden)


class RemoteResult(msgspec.Struct, frozen=True):
    """How a script ended on a host. ``returncode`` 255 with ``unreachable`` means that the host itself did not answer."""

    host: str
    returncode: int
    stdout: str = ""
    stderr: str = ""
    unreachable: bool = False
    timed_out: bool = False

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

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float) -> tuple[RemoteResult, ...]:
        """Run several at the same time; results in the order of ``calls``."""
        ...

    def is_local(self, host: str) -> bool:
        """Whether ``host`` is this machine, reached without ssh and without a network."""
        ...


def _hide(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return "***"
    return tuple(f"{item.partition('=')[0]}=***" if "=" in item else "***" for item in value)
