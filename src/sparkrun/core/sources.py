"""Where there is to bring from: a look at every host and at the control machine, for what a launch lacks. One round trip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sparkrun.containers.layers import ImageStock, parse_image_stock
from sparkrun.core.context import SparkrunContext
from sparkrun.core.fabric import InterfaceAddress
from sparkrun.core.facts import HostFacts
from sparkrun.core.hosts import parse_host
from sparkrun.core.needs import Item, Need
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.core.routes import Link, LinkKind
from sparkrun.models.files import HubStock, parse_hub_stock
from sparkrun.orchestration.observe import Question, Wanted, observe_here
from sparkrun.orchestration.ssh_command import between_hosts
from sparkrun.utils.shell import Section, parse_answers, quote

HERE = ""
"""The control machine, among the names of hosts."""
LOOK_TIMEOUT_S = 60


class Stocks(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen. Machines that did not answer have no stock."""

    here: HostFacts | None = None
    """The control machine, where it is none of the hosts."""
    own: frozenset[str] = frozenset()
    """Hosts that are the control machine itself."""
    images: dict[str, ImageStock] = {}
    models: dict[tuple[str, str], HubStock] = {}
    """By machine and model (``Item.what``)."""
    links: tuple[Link, ...] = ()


def look_at_sources(needs: Sequence[Need], facts: Mapping[str, HostFacts], interface: str, sctx: SparkrunContext) -> Stocks:
    """Ask all hosts and this machine what they have of it, and which other hosts they reach. Hosts that are assumed stay unasked."""
    runner = sctx.runner
    facts = {host: seen for host, seen in facts.items() if not seen.assumed}
    own = frozenset(host for host in facts if runner.is_local(host))
    items = tuple(dict.fromkeys(need.item for need in needs))
    here = None if own else _this_machine(items, sctx)
    asked = [(host, call, key) for host, seen in facts.items() for key, call in _questions(seen, items)]
    asked += [(host, ScriptCall("reach", {"WAYS": ways}), "reach") for host in facts if (ways := _ways_from(host, facts, interface))]
    results = runner.run_all([(host, call) for host, call, _key in asked], timeout_s=LOOK_TIMEOUT_S)
    found = [(host, key, result) for (host, _call, key), result in zip(asked, results, strict=True) if result.ok]
    if here:
        found += [
            (HERE, key, result) for key, call in _questions(here, items) if (result := runner.run_here(call, timeout_s=LOOK_TIMEOUT_S)).ok
        ]
    return Stocks(
        here=here,
        own=own,
        images={machine: parse_image_stock(_section(result)) for machine, key, result in found if key == "images"},
        models={(machine, key.what): parse_hub_stock(_section(result)) for machine, key, result in found if isinstance(key, Item)},
        links=tuple(link for host, key, result in found if key == "reach" for link in _links(host, result, facts)),
    )


def _this_machine(items: Iterable[Item], sctx: SparkrunContext) -> HostFacts | None:
    images = tuple(item.what for item in items if item.kind == "image")
    models = [Wanted(item.what, item.revision) for item in items if item.kind == "model"]
    first = models[0] if models else Wanted("")
    looked = observe_here(Question(model=first.model, revision=first.revision, further=tuple(models[1:]), images=images), sctx.runner)
    return looked if isinstance(looked, HostFacts) else None


def _questions(seen: HostFacts, items: Iterable[Item]) -> Iterator[tuple[str | Item, ScriptCall]]:
    images = tuple(item.what for item in items if item.kind == "image")
    if images and seen.docker.usable:
        yield "images", ScriptCall("docker_stock", {"IMAGES": images})
    for item in items:
        if item.model and item.model.repo:
            yield item, ScriptCall("hub_stock", {"HUB": seen.hf_hub, "REPO": item.model.repo})


def _section(result: RemoteResult) -> Section:
    return parse_answers(result.stdout).section("STOCK")


def _ways_from(host: str, facts: Mapping[str, HostFacts], interface: str) -> tuple[str, ...]:
    """Each host begins with the one after it: sshd turns some away when many come at once (``MaxStartups``)."""
    names = list(facts)
    at = names.index(host)
    return tuple(
        f"{other}\t{kind}\t{address}\t{' '.join(quote(word) for word in between_hosts(facts[other].user, address, parse_host(other).port))}"
        for other in (*names[at + 1 :], *names[:at])
        for kind, address in addresses_between(facts[host], facts[other], interface)
    )


def _links(host: str, result: RemoteResult, facts: Mapping[str, HostFacts]) -> Iterator[Link]:
    for line in parse_answers(result.stdout).section("REACH").all("REACHED"):
        other, kind, address, ms = line.split("\t")
        if other in facts:
            seen = facts[other]
            yield Link(
                host,
                other,
                "fabric" if kind == "fabric" else "mgmt",
                tuple(between_hosts(seen.user, address, parse_host(other).port)),
                int(ms),
            )


def addresses_between(one: HostFacts, other: HostFacts, interface: str) -> tuple[tuple[LinkKind, str], ...]:
    """By which addresses one host may reach another, best first: on the fabric where both are on the same subnet, then the management's."""
    fabric = [
        own.address
        for port in other.fabric.active_ports
        for own in port.addresses
        if any(_same_subnet(own, near) for mine in one.fabric.active_ports for near in mine.addresses)
    ]
    management = [own.address for own in other.fabric.management_addresses if own.is_global and own.is_v4]
    named = [] if management else [parse_host(other.host).name]
    ways: list[tuple[LinkKind, str]] = [("fabric", address) for address in fabric if interface != "mgmt"]
    return (*ways, *(("mgmt", address) for address in dict.fromkeys((*management, *named))))


def _same_subnet(one: InterfaceAddress, other: InterfaceAddress) -> bool:
    import ipaddress  # only where something is brought

    return ipaddress.ip_interface(str(one)).network == ipaddress.ip_interface(str(other)).network
