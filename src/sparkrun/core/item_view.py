"""One item that hosts lack: who has it, who can give it to whom, and what decides between ways. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from sparkrun.containers.images import suits
from sparkrun.containers.layers import ImageStock, StockedImage
from sparkrun.core.cluster_manager import TransferMode
from sparkrun.core.facts import HostFacts
from sparkrun.core.needs import Item
from sparkrun.core.sources import HERE, Stocks
from sparkrun.models.files import HubFile, HubStock, Selection, wanted_files
from sparkrun.runtimes.model_files import snapshot_revision

REGISTRY = "registry"
"""A registry of images or a hub of models, as a source."""


class Attempt(NamedTuple):
    """A way that was tried: something from a source to a host, or (``what`` empty) the link between two hosts."""

    source: str
    host: str
    what: str = ""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What decides between ways, besides what was seen."""

    mode: TransferMode = "auto"
    offline: bool = False
    head: str = ""
    """The host that fetches for the others."""
    image_for: Mapping[str, str] = {}
    """By host, the image it will run: it can fetch a model where the host itself has no program for that."""
    token: str = ""
    endpoint: str = ""
    """Address of the hub, where it is another than the usual one."""
    streams: int = 2
    idle_s: float = 120
    """How long nothing of a model may move before its transfer is given up."""
    selection: Selection = "auto"
    copied_once: bool = False
    """Whether all hosts share one cache of models."""
    failed: Mapping[Attempt, str] = {}
    """Ways that were tried, and why they failed."""


class ItemView:
    """One item, and who has it."""

    def __init__(self, item: Item, facts: Mapping[str, HostFacts], stocks: Stocks, rules: Rules, required: set[str]) -> None:
        self.item, self.facts, self.stocks, self.rules, self.required = item, facts, stocks, rules, required
        self.holders = tuple(host for host in head_first(facts, rules.head) if self.has(host))
        self.links = tuple(link for link in stocks.links if Attempt(link.source, link.target) not in rules.failed)

    @property
    def mode(self) -> TransferMode:
        """The mode that was asked for; ``auto`` where that is this machine's part and it cannot have the item, or is one of the hosts."""
        here = self.stocks.here
        able = here is not None and (self.item.kind == "model" or here.docker.usable)
        return "auto" if self.rules.mode in ("local", "push") and not able else self.rules.mode

    def facts_of(self, machine: str) -> HostFacts | None:
        return self.stocks.here if machine == HERE else self.facts.get(machine)

    def has(self, machine: str) -> bool:
        """Whether it is there, whole."""
        seen = self.facts_of(machine)
        if seen is None:
            return False
        if self.item.kind == "image":
            return self.image(machine) is not None
        found = seen.further.get(self.item.what, seen.model)
        return found.path is not None and snapshot_revision(found.path) in (None, self.commit(machine)) and bool(self.files(machine))

    def image(self, machine: str) -> StockedImage | None:
        return self.image_stock(machine).images.get(self.item.what)

    def image_stock(self, machine: str) -> ImageStock:
        return self.stocks.images.get(machine, ImageStock())

    def hub_stock(self, machine: str) -> HubStock:
        return self.stocks.models.get((machine, self.item.what), HubStock())

    def commit(self, machine: str) -> str | None:
        return self.hub_stock(machine).commit_of(self.item.revision)

    def files(self, machine: str) -> tuple[HubFile, ...]:
        """The wanted files of a machine that has them."""
        commit = self.commit(machine)
        assert self.item.model is not None
        chosen = wanted_files(self.hub_stock(machine).files.get(commit or "", ()), self.item.model, self.rules.selection)
        return tuple(file for file in chosen if _matches(file.path, self.item))

    def can_give(self, source: str, host: str) -> bool:
        """Whether what a machine has is of use to a host, and was not tried in vain."""
        if Attempt(source, host, self.item.what) in self.rules.failed or host == source:
            return False
        if self.item.kind == "model":
            return True
        giver, taker = self.facts_of(source), self.facts_of(host)
        image = giver.docker.images.get(self.item.what) if giver else None
        return image is None or taker is None or suits(image, taker)


def _matches(path: str, item: Item) -> bool:
    """Whether the entry of a recipe wants the file. Patterns are globs that heed case, as the hub's client takes them."""
    allowed = not item.allow or any(fnmatchcase(path, pattern) for pattern in item.allow)
    return allowed and not any(fnmatchcase(path, pattern) for pattern in item.ignore)


def head_first(hosts: Iterable[str], head: str) -> list[str]:
    """The same hosts, with the head in front where it is one of them."""
    return sorted(hosts, key=lambda host: host != head)
