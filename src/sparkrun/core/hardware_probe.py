"""What hosts are made of, as they say themselves."""

from __future__ import annotations

from collections.abc import Sequence

from sparkrun.core.facts import HostFacts, Unreachable
from sparkrun.core.hardware import HostHardware
from sparkrun.core.remote import HostRunner
from sparkrun.orchestration.observe import Question, observe_hosts


def probe_host(host: str, runner: HostRunner) -> HostHardware | Unreachable:
    """The hardware of one host, or why it did not answer."""
    return probe_hosts((host,), runner)[host]


def probe_hosts(hosts: Sequence[str], runner: HostRunner) -> dict[str, HostHardware | Unreachable]:
    """The hardware of each host, all asked at once: one script and one round trip a host."""
    seen = observe_hosts(hosts, Question(), runner)
    return {each.host: each.hardware if isinstance(each, HostFacts) else each for each in seen}
