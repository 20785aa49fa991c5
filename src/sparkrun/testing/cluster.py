"""Hosts in memory behind the same seam as real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.context import SparkrunContext
from sparkrun.core.events import Event as ProgressEvent
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.testing.host import FakeHost
from sparkrun.testing.hub import FakeHub
from sparkrun.testing.relay import sink_call


class FakeCluster:
    """Named hosts, and a ``sctx`` that reaches them. Every event of an operation is kept in ``events``."""

    def __init__(self, *hosts: str, root: Path, env: Mapping[str, str] | None = None) -> None:
        self.by_name = {name: FakeHost(name) for name in hosts or ("localhost",)}
        self.control = FakeHost("control")
        """This machine: what it has can be copied to the others. It has no docker, until a test says otherwise."""
        self.control.docker.trouble = "docker_missing"
        self.hub = FakeHub(reachable=False)
        """The Hugging Face hub: nobody answers there until a test says so."""
        self.root = root
        self.events: list[ProgressEvent] = []
        self.round_trips = 0
        self.only_ssh_knows: set[str] = set()
        """Hosts whose names mean nothing outside of ssh's configuration."""
        self._env = {"HOME": str(root), **(env or {})}

    def __getitem__(self, host: str) -> FakeHost:
        return self.by_name[host]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts."""
        return tuple(self.by_name)

    @property
    def sctx(self) -> SparkrunContext:
        """A context whose files lie below ``root`` and whose hosts are these."""
        config = SparkrunConfig.load(self._env)
        return SparkrunContext(config, lambda: self, self.root, self.events.append, make_hub=lambda: self.hub)

    def join(self) -> None:
        """Put all hosts into one network, 10.0.0.1 and so on in their order, by which ssh reaches them."""
        for number, host in enumerate(self.by_name.values(), start=1):
            host.fabric = {
                "FABRIC_PORT_COUNT": "0",
                "FABRIC_IF_COUNT": "1",
                "FABRIC_IF_0_NAME": "eth0",
                "FABRIC_IF_0_ADDRESSES": f"10.0.0.{number}/24",
                "FABRIC_ROUTE_IF": "eth0",
                "FABRIC_SSH_ADDRESS": f"10.0.0.{number}",
            }

    def run(self, host: str, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """What the host answers; an unknown or switched-off one does not."""
        del timeout_s
        self.round_trips += 1
        fake = self.by_name.get(host)
        if fake is None or not fake.reachable:
            return RemoteResult(host, 255, stderr=f"ssh: connect to host {host} port 22: No route to host", unreachable=True)
        code, text = fake.answer(call)
        return RemoteResult(host, code, text)

    def stream(
        self,
        host: str,
        call: ScriptCall,
        on_line: Callable[[str], None],
        *,
        timeout_s: float | None,
        stop: Event | None = None,
    ) -> RemoteResult:
        """The answer line by line."""
        del stop
        result = self._relay(host, call) if call.name == "relay" else self.run(host, call, timeout_s=timeout_s or 0)
        for line in result.stdout.splitlines():
            on_line(line)
        return RemoteResult(host, result.returncode, "", result.stderr, result.unreachable)

    def run_all(self, calls: Iterable[tuple[str, ScriptCall]], *, timeout_s: float, stop: Event | None = None) -> tuple[RemoteResult, ...]:
        """One after the other, in order."""
        del stop
        return tuple(self.run(host, call, timeout_s=timeout_s) for host, call in calls)

    def run_here(self, call: ScriptCall, *, timeout_s: float) -> RemoteResult:
        """What this machine answers."""
        del timeout_s
        return RemoteResult("localhost", *self.control.answer(call))

    def stream_here(
        self, call: ScriptCall, on_line: Callable[[str], None], *, timeout_s: float | None, stop: Event | None = None
    ) -> RemoteResult:
        """The answer of this machine line by line."""
        del stop
        result = self.run_here(call, timeout_s=timeout_s or 0)
        for line in result.stdout.splitlines():
            on_line(line)
        return msgspec.structs.replace(result, stdout="")

    def send_all(
        self, calls: Iterable[tuple[str, ScriptCall]], on_bytes: Callable[[int], None], *, idle_s: float, stop: Event | None = None
    ) -> tuple[RemoteResult, ...]:
        """Every host gets all of it at once."""
        del stop
        given = tuple(calls)
        assert len({call.feed for _host, call in given}) == 1
        on_bytes(1000)
        return tuple(self._relay(host, call) if call.name == "relay" else self.run(host, call, timeout_s=idle_s) for host, call in given)

    def _relay(self, first: str, call: ScriptCall) -> RemoteResult:
        """Every host of the chain that can be reached runs its own script; those after one that cannot are not heard of."""
        told: list[str] = []
        for host, values in zip(call.params["HOSTS"], call.params["VALUES"], strict=True):
            if (fake := self.by_name.get(host)) is None or not fake.reachable:
                told.append(f"{host}\tLOST=255")
                break
            if values:
                code, text = fake.answer(sink_call(str(call.params["SINK"]), values))
                told += [f"{host}\t{line}" for line in text.splitlines()] + [f"{host}\tRETURNED={code}"]
        return RemoteResult(first, 0, "\n".join(told))

    def is_local(self, host: str) -> bool:
        """Only ``localhost`` is this machine."""
        return host == "localhost"

    def resolves(self, host: str) -> bool:
        """Every name but those in ``only_ssh_knows``."""
        return host not in self.only_ssh_knows
