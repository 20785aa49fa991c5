"""What every entry point of ``sparkrun.api`` works with: settings, hosts and an ear for progress."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import EventSink, ignore_events
from sparkrun.core.hub_reader import HubReader
from sparkrun.core.remote import HostRunner

Approve = Callable[[str, tuple[str, ...]], bool]


class SparkrunContext(msgspec.Struct, frozen=True, dict=True):
    """``sctx``: the settings in force, the way to hosts, and where events go."""

    config: SparkrunConfig
    make_runner: Callable[[], HostRunner]
    """Asked once, by whoever first touches a host."""
    cwd: Path
    emit: EventSink = ignore_events
    offline: bool = False
    online: bool = False
    """Asked for outright: that a cluster is ``offline`` does not hold then."""
    approve: Approve | None = None
    """Asks the user whether an untrusted recipe may run these things; ``None``: nobody can be asked, so it may not."""
    make_hub: Callable[[], HubReader] | None = None
    """The Hugging Face hub, for what a model is made of; each has its own budget of time. ``None``: it is not asked."""

    @cached_property
    def runner(self) -> HostRunner:
        """The way to hosts."""
        return self.make_runner()
