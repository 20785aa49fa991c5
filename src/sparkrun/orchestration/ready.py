"""Waiting for a workload to answer, and finding out why it does not."""

from __future__ import annotations

from threading import Event

import msgspec

from sparkrun.core.plan import Watch
from sparkrun.core.remote import HostRunner, RemoteResult
from sparkrun.orchestration.apply import failure_text
from sparkrun.utils.shell import parse_answers

EVIDENCE_TIMEOUT_S = 15

_REASONS = {
    "died": "the engine ended",
    "gone": "the engine is gone",
    "replaced": "another process took its place",
    "port_timeout": "nothing listens on its port in time",
    "health_timeout": "it did not become healthy in time",
    "inference_timeout": "it gave no first token in time",
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the wait ended. Times are milliseconds since the wait began."""

    ready: bool
    reason: str = ""
    body: str = ""
    message: str = ""
    """The observer's own words."""
    unreachable: bool = False
    port_open_ms: int | None = None
    healthy_ms: int | None = None
    first_token_ms: int | None = None
    model_id: str | None = None

    @property
    def died(self) -> bool:
        """Whether there is no engine any more to wait for."""
        return self.reason in {"died", "gone", "replaced"}

    @property
    def in_doubt(self) -> bool:
        """Whether nothing can be told of the engine any more: what runs it is gone."""
        return self.reason == "docker_gone"

    def explain(self) -> str:
        """The reason in words."""
        said = f": {self.body}" if self.body else ""
        if self.reason.startswith("http_"):
            return f"it answered HTTP {self.reason.removeprefix('http_')}{said}"
        return (self.message or _REASONS.get(self.reason, self.reason)) + said

    def hint(self) -> str | None:
        """What may help."""
        if self.reason.endswith("_timeout"):
            return f"give it longer under readiness: {self.reason}_s, or leave it running for a look: --keep-on-failure"
        if self.reason in {"http_404", "http_400"}:
            return "a server without chat needs readiness: {inference: false}"
        return None


class Evidence(msgspec.Struct, frozen=True):
    """What a dead engine left behind."""

    exit_code: int | None = None
    lines: tuple[str, ...] = ()
    hint: str | None = None
    ended_ms: int | None = None
    """When it ended, in milliseconds of its own host's clock, which was at ``now_ms`` when it told."""
    now_ms: int | None = None
    found: bool = True
    """Whether its host could tell anything of it."""


def watch_ready(watch: Watch, runner: HostRunner, stop: Event | None = None) -> Outcome:
    """Run the observer on the host until the workload answers or cannot any more, or until ``stop`` is set."""
    lines: list[str] = []
    result = runner.stream(watch.host, watch.call, lines.append, timeout_s=watch.timeout_s, stop=stop)
    said = parse_answers("\n".join(lines)).section("READY")
    if said.flag("READY") is None:
        return Outcome(ready=False, reason=failure_text(result), unreachable=result.unreachable or result.timed_out)
    return Outcome(
        ready=bool(said.flag("READY")),
        reason=said.text("REASON") or "",
        body=said.text("BODY") or "",
        message=said.text("MESSAGE") or "",
        port_open_ms=said.number("PORT_OPEN_MS"),
        healthy_ms=said.number("HEALTH_MS"),
        first_token_ms=said.number("FIRST_TOKEN_MS"),
        model_id=said.text("MODEL_ID"),
    )


def evidence_of(result: RemoteResult) -> Evidence:
    """What the evidence script told."""
    if not result.ok:
        return Evidence(lines=(f"(no log: {failure_text(result)})",), found=False)
    said = parse_answers(result.stdout).section("EVIDENCE")
    return Evidence(said.number("EXIT_CODE"), said.all("LOG"), said.text("OOM_HINT"), said.number("ENDED_MS"), said.number("NOW_MS"))
