"""Scripts that remove things from the caches of hosts, and what they say they did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sparkrun.core.facts import Unreachable
from sparkrun.core.remote import HostRunner, RemoteResult, ScriptCall
from sparkrun.orchestration.observe import silence_of
from sparkrun.utils.shell import parse_answers

CHANGE_TIMEOUT_S = 3600
"""Removing hundreds of gigabytes takes its time on some file systems."""


class Changed(msgspec.Struct, frozen=True):
    """What a change did on one host. ``kept``: why something that was to go is still there. ``failed``: why the rest was not done."""

    removed: tuple[str, ...] = ()
    kept: Mapping[str, str] = {}
    failed: Unreachable | None = None

    def reason(self, thing: str) -> str | None:
        """Why a thing is still there; ``None`` for one that is gone."""
        if thing in self.removed:
            return None
        return self.kept.get(thing) or (self.failed.reason if self.failed else "its host did not say")


def change_hosts(calls: Iterable[tuple[str, ScriptCall]], runner: HostRunner) -> tuple[Changed, ...]:
    """Run scripts that answer in a section ``CHANGE``, all at once; results in the order of ``calls``."""
    return tuple(_changed(result) for result in runner.run_all(calls, timeout_s=CHANGE_TIMEOUT_S))


def _changed(result: RemoteResult) -> Changed:
    section = parse_answers(result.stdout).section("CHANGE")
    kept = dict(text.split("\t", 1) for text in section.all("KEPT") if "\t" in text)
    failed = None if result.ok and section.complete else silence_of(result, "the change")
    return Changed(section.all("REMOVED"), kept, failed)
