"""How what hosts lack comes to them: from whom, by which chain of hosts, and what nothing can bring. Touches nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sparkrun.containers.images import REFRESH_PATIENCE_S, load_action, pull_action, suits
from sparkrun.containers.layers import ImageStock, StockedImage, save_script
from sparkrun.core.cluster_manager import TransferMode
from sparkrun.core.facts import HostFacts
from sparkrun.core.needs import Item, Need
from sparkrun.core.plan import Branch, Flow, Gap, HostAction, Transfer
from sparkrun.core.routes import Link, best_root, chain_from
from sparkrun.core.sources import HERE, Stocks
from sparkrun.models.files import HubFile, HubStock, Selection, bytes_lacking, plan_streams, read_script, wanted_files
from sparkrun.models.hub import Fetch, Snapshot, download_action, keep_action, receive_action
from sparkrun.utils.text import size_text

LOAD_ROOM = 2
"""``docker load`` unpacks the whole archive beside the layers before it makes layers of it."""
STREAM_BYTES_S = 1_000_000_000
"""About what one ssh stream moves on a processor with AES instructions, however fast the link is."""
LINK_SHARE = 0.9
"""How much of a link's speed a stream gets of it."""
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
    selection: Selection = "auto"
    copied_once: bool = False
    """Whether all hosts share one cache of models."""
    failed: Mapping[Attempt, str] = {}
    """Ways that were tried, and why they failed."""


class Distribution(msgspec.Struct, frozen=True):
    """What will be brought, and what cannot be."""

    transfers: tuple[Transfer, ...] = ()
    gaps: tuple[Gap, ...] = ()


def plan_distribution(needs: Sequence[Need], facts: Mapping[str, HostFacts], stocks: Stocks, rules: Rules) -> Distribution:
    """How each need is met. All transfers of a round run at the same time; what is left for later (``Transfer.onward``) is planned anew."""
    transfers: list[Transfer] = []
    gaps: list[Gap] = []
    for item in dict.fromkeys(need.item for need in needs):
        mine = [need for need in needs if need.item == item and not need.refresh]
        if fresh := [need.host for need in needs if need.item == item and need.refresh]:
            look = tuple(_refresh(item, fresh, rules))
            transfers += look
            if look:
                continue  # what the others get is what comes of it
        view = _View(item, facts, stocks, rules, {need.host for need in mine if need.required})
        found = _bring(view, _once(view, _really(view, [need.host for need in mine])))
        transfers += found.transfers
        gaps += found.gaps
    return Distribution(tuple(transfers), tuple(gaps))


def _refresh(item: Item, hosts: Sequence[str], rules: Rules) -> Iterator[Transfer]:
    """A look for a newer image of the same name, once in a launch."""
    if rules.offline or Attempt(REGISTRY, "", item.what) in rules.failed:
        return
    names = ", ".join(hosts)
    yield Transfer(
        title=f"image {item.what} on {names} (docker pull, if there is a newer one)",
        actions=tuple(pull_action(host, item.what, patience_s=REFRESH_PATIENCE_S) for host in hosts),
        kind="image",
        what=item.what,
        way="pull",
        optional=True,
        refresh=True,
    )


class _View:
    """One item, and who has it."""

    def __init__(self, item: Item, facts: Mapping[str, HostFacts], stocks: Stocks, rules: Rules, required: set[str]) -> None:
        self.item, self.facts, self.stocks, self.rules, self.required = item, facts, stocks, rules, required
        self.holders = tuple(host for host in _head_first(facts, rules.head) if self.has(host))
        self.links = tuple(link for link in stocks.links if Attempt(link.source, link.target) not in rules.failed)

    def facts_of(self, machine: str) -> HostFacts | None:
        return self.stocks.here if machine == HERE else self.facts.get(machine)

    def has(self, machine: str) -> bool:
        """Whether it is there, whole."""
        seen = self.facts_of(machine)
        if seen is None:
            return False
        if self.item.kind == "image":
            return self.image(machine) is not None
        return seen.model.path is not None and bool(self.files(machine))

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
        return wanted_files(self.hub_stock(machine).files.get(commit or "", ()), self.item.model, self.rules.selection)

    def can_give(self, source: str, host: str) -> bool:
        """Whether what a machine has is of use to a host, and was not tried in vain."""
        if Attempt(source, host, self.item.what) in self.rules.failed or host == source:
            return False
        if self.item.kind == "model":
            return True
        giver, taker = self.facts_of(source), self.facts_of(host)
        image = giver.docker.images.get(self.item.what) if giver else None
        return image is None or taker is None or suits(image, taker)


def _really(view: _View, hosts: Sequence[str]) -> list[str]:
    """Without hosts whose image is the same after all, though docker there calls it something else."""
    head = view.image(view.rules.head)
    return [host for host in hosts if not (head and (own := view.image(host)) and own.is_same(head))]


def _once(view: _View, hosts: list[str]) -> list[str]:
    """Of hosts that share one cache, the first."""
    return hosts[:1] if view.item.kind == "model" and view.rules.copied_once else hosts


def _bring(view: _View, hosts: list[str]) -> Distribution:
    transfers: list[Transfer] = []
    left = list(hosts)
    for plan in (_from_hosts, _from_here):
        if left and (found := plan(view, left)):
            transfers.append(found)
            left = [host for host in left if host not in found.hosts]
    onward = tuple(host for host in left if any(link.target == host and link.source in _arrived(transfers) for link in view.links))
    left = [host for host in left if host not in onward]
    if left and (fetch := _fetch(view, left)):
        transfers.append(fetch)
        left = [host for host in left if host not in (*fetch.hosts, *fetch.onward)]
    if onward and transfers:
        transfers[0] = msgspec.structs.replace(transfers[0], onward=onward)
    short = {gap.host: gap for transfer in transfers for gap in _no_room(view, transfer)}
    kept = tuple(filter(None, (_without(transfer, short) for transfer in transfers)))
    gaps = (*short.values(), *(_gap(view, host) for host in left))
    return Distribution(kept, tuple(gap for gap in gaps if gap.host in view.required))


def _arrived(transfers: Iterable[Transfer]) -> set[str]:
    return {host for transfer in transfers for host in (*transfer.hosts, transfer.source)}


# --- from a machine that has it ---------------------------------------------------------------------------------------------------------


def _from_hosts(view: _View, hosts: Sequence[str]) -> Transfer | None:
    """Handed on from a host that has it, as a chain."""
    if view.rules.mode not in ("auto", "delegated"):
        return None
    sources = [source for source in view.holders if any(view.can_give(source, host) for host in hosts)]
    chains = [chain_from(source, [host for host in hosts if view.can_give(source, host)], view.links) for source in sources]
    chain = max(chains, key=len, default=())
    if not chain:
        return None
    source = chain[0].source
    return _transfer(view, source, (Branch(source, chain),), f"{source} has it")


def _from_here(view: _View, hosts: Sequence[str]) -> Transfer | None:
    """From the control machine: to one host, which hands it on, or straight to each."""
    mode = view.rules.mode
    usable = [host for host in hosts if view.can_give(HERE, host) and host not in view.stocks.own]
    if mode not in ("auto", "local", "push") or view.stocks.here is None or not usable or not view.has(HERE):
        return None
    links = view.links if mode != "local" else ()
    return _transfer(view, HERE, tuple(_branches(_head_first(usable, view.rules.head), links)), "this machine has it")


def _branches(hosts: Sequence[str], links: Sequence[Link]) -> Iterator[Branch]:
    """Chains that together reach every host, the longest first."""
    left = list(hosts)
    while left:
        chain = best_root(left, left, links)
        first = chain[0].source if chain else left[0]
        yield Branch(first, chain)
        left = [host for host in left if host not in Branch(first, chain).hosts]


def _is_optional(view: _View, hosts: Iterable[str]) -> bool:
    return not any(host in view.required for host in hosts)


def _transfer(view: _View, source: str, branches: tuple[Branch, ...], why: str) -> Transfer:
    hosts = tuple(host for branch in branches for host in branch.hosts if host != source)
    reason = "; ".join(filter(None, (_mode_text(view), why, _links_text(branches))))
    make = _image_transfer if view.item.kind == "image" else _model_transfer
    return make(view, source, hosts, branches, reason)


def _image_transfer(view: _View, source: str, hosts: tuple[str, ...], branches: tuple[Branch, ...], why: str) -> Transfer:
    what, image = view.item.what, view.image(source)
    assert image is not None
    whole = Attempt(source, "", what) in view.rules.failed
    stocks = [view.image_stock(host) for host in hosts]
    held = 0 if whole or not all(stock.takes_parts for stock in stocks) else min(stock.has_of(image.layers) for stock in stocks)
    left_out = image.layers[:held]
    size = image.bytes_above(held)
    parts = f", {len(image.layers) - held} of {len(image.layers)} layers" if left_out else ""
    return Transfer(
        title=f"image {what} {_path_text(source, branches)} (save | load{parts}{_sized(size)})",
        kind="image",
        what=what,
        way="load",
        source=source,
        why=why,
        branches=branches,
        optional=_is_optional(view, hosts),
        flows=(Flow(save_script(what, left_out), tuple(load_action(host, what) for host in hosts), size),),
        size_bytes=size,
        bytes_by_host={} if size is None else dict.fromkeys(hosts, size),
        estimate_s=_estimate_s(view, source, branches, size, 1),
    )


def _model_transfer(view: _View, source: str, hosts: tuple[str, ...], branches: tuple[Branch, ...], why: str) -> Transfer:
    item, giver, commit = view.item, view.facts_of(source), view.commit(source)
    assert giver is not None
    assert commit is not None
    assert item.model is not None
    repo, files = item.model.repo or item.what, view.files(source)
    targets = {host: view.hub_stock(host) for host in hosts}
    streams = plan_streams(files, targets, view.rules.streams)
    flows = tuple(
        Flow(
            read_script(giver.hf_hub, repo, commit, entries),
            tuple(receive_action(host, view.facts[host].hf_hub, repo, entries) for host in hosts),
            sum(entry.size for entry in entries),
        )
        for entries in streams
    )
    size = sum(flow.size_bytes or 0 for flow in flows)
    refs = tuple(name for name, named in view.hub_stock(source).refs.items() if named == commit)
    snapshot = Snapshot(repo, commit, files, refs)
    return Transfer(
        title=f"model {item.what} {_path_text(source, branches)} ({len({file.key for file in files})} files{_sized(size)})",
        kind="model",
        what=item.what,
        way="copy",
        source=source,
        why=why,
        branches=branches,
        optional=_is_optional(view, hosts),
        flows=flows,
        size_bytes=size,
        bytes_by_host={host: bytes_lacking(files, stock) for host, stock in targets.items()},
        estimate_s=_estimate_s(view, source, branches, size, len(flows)),
        finish=tuple(keep_action(host, view.facts[host].hf_hub, snapshot) for host in hosts),
    )


def _estimate_s(view: _View, source: str, branches: Sequence[Branch], size: int | None, streams: int) -> float | None:
    """The time of the slowest branch, by the speed of its slowest link; ``None`` where one of them is not known."""
    speeds = [_link_bytes_s(view, link) for branch in branches for link in branch.links]
    if source == HERE:
        speeds += [_management_bytes_s(view.facts.get(branch.first), len(branches)) for branch in branches]
    if size is None or not speeds or any(speed is None for speed in speeds):
        return None
    return size / min(STREAM_BYTES_S * max(1, streams), *(speed for speed in speeds if speed))


def _link_bytes_s(view: _View, link: Link) -> float | None:
    seen = view.facts.get(link.source)
    if link.kind == "mgmt" or seen is None:
        return _management_bytes_s(seen, 1)
    return _bytes_s(max((port.speed_gbps or 0 for port in seen.fabric.active_ports), default=0))


def _management_bytes_s(seen: HostFacts | None, shared_by: int) -> float | None:
    interface = seen.fabric.interface(seen.fabric.management_interface) if seen else None
    speed = _bytes_s(interface.speed_gbps if interface and interface.speed_gbps else 0)
    return speed / shared_by if speed else None


def _bytes_s(gbit_s: float) -> float | None:
    return gbit_s * 1e9 / 8 * LINK_SHARE or None


# --- from a registry or a hub -----------------------------------------------------------------------------------------------------------


def _fetch(view: _View, hosts: Sequence[str]) -> Transfer | None:
    """Fetched where nobody has it: on one host that others can get it from, on this machine, or on each."""
    wanted = [host for host in hosts if host in view.required]
    if view.rules.offline or not wanted:
        return None
    on = _fetchers(view, wanted)
    if not on:
        return None
    what, names = view.item.what, ", ".join(host or "this machine" for host in on)
    onward = tuple(host for host in wanted if host not in on)
    why = "; ".join(filter(None, (_mode_text(view), "nobody here has it", f"then handed on to {', '.join(onward)}" if onward else "")))
    if view.item.kind == "image":
        actions, title = tuple(pull_action(host, what) for host in on), f"image {what} on {names} (docker pull)"
    else:
        actions, title = tuple(_download(view, host) for host in on), f"model {what} on {names} (from the hub)"
    way = "pull" if view.item.kind == "image" else "download"
    return Transfer(title=title, actions=actions, kind=view.item.kind, what=what, way=way, why=why, onward=onward)  # type: ignore[arg-type]


def _fetchers(view: _View, hosts: Sequence[str]) -> tuple[str, ...]:
    def untried(machines: Iterable[str]) -> tuple[str, ...]:
        return tuple(machine for machine in machines if Attempt(REGISTRY, machine, view.item.what) not in view.rules.failed)

    mode, free = view.rules.mode, untried(_head_first(hosts, view.rules.head))
    machine = view.stocks.here
    able = machine is not None and (view.item.kind == "model" or machine.docker.usable)
    here = untried((HERE,)) if able else ()
    if mode in ("local", "push"):
        return here or (() if able else free[:1])
    if mode == "pull":
        return free
    reached = chain_from(free[0], [host for host in hosts if host != free[0]], view.links) if free else ()
    if free and len(reached) == len(hosts) - 1:
        return free[:1]
    # Hosts that do not reach each other each fetch it; when the first way failed, this machine fetches for them once.
    return free if len(free) == len(hosts) else here if mode == "auto" else ()


def _download(view: _View, host: str) -> HostAction:
    seen = view.facts_of(host)
    assert seen is not None
    assert view.item.model is not None
    fetch = Fetch(
        view.item.model,
        view.item.revision,
        view.rules.image_for.get(host, ""),
        view.rules.token,
        # This interpreter exists on this machine only, and has the client.
        sys.executable if host == HERE or host in view.stocks.own else "",
        view.rules.selection,
        view.rules.endpoint,
    )
    return download_action(host, seen.hf_hub, fetch)


# --- what cannot be brought -------------------------------------------------------------------------------------------------------------


def _no_room(view: _View, transfer: Transfer) -> Iterator[Gap]:
    """Hosts of a transfer whose disk cannot take what they lack."""
    for host, size in transfer.bytes_by_host.items():
        if view.item.kind == "image":
            stock = view.image_stock(host)
            need, free, where = LOAD_ROOM * size, stock.free_bytes, stock.root
            way_out = f"make room on {host}: docker system df; docker image prune"
        else:
            need, free, where = size, view.hub_stock(host).free_bytes, view.facts[host].hf_hub
            way_out = f"make room on {host}, or set HF_HOME there to a larger disk"
        if free is not None and need > free:
            yield _gap_of(view, host, f"it needs {size_text(need)}, {size_text(free)} are free at {where}", way_out)


def _without(transfer: Transfer, short: Mapping[str, Gap]) -> Transfer | None:
    """The transfer, or nothing where a host of it has no room: then nothing is launched anyway."""
    return None if any(host in short for host in transfer.hosts) else transfer


def _gap(view: _View, host: str) -> Gap:
    tried = [reason for attempt, reason in view.rules.failed.items() if attempt.host == host and attempt.what == view.item.what]
    reason = tried[-1] if tried else f"offline, and {_why_not_here(view, host)}" if view.rules.offline else "nothing brings it there"
    return _gap_of(view, host, reason, _hint(view))


def _gap_of(view: _View, host: str, reason: str, hint: str) -> Gap:
    return Gap(host=host, kind=view.item.kind, what=view.item.what, reason=reason, hint=hint)


def _why_not_here(view: _View, host: str) -> str:
    here = view.stocks.here
    if view.holders:
        return f"{view.holders[0]}, which has it, does not reach {host}"
    if here is None:
        return "no other machine is known to have it"
    if view.item.kind == "model":
        return f"no machine has one to copy (here: {here.model.reason or here.hf_hub})"
    if not here.docker.usable:
        return f"this machine has no docker to copy it from ({here.docker.reason or 'docker is not installed'})"
    if other := here.docker.images.get(view.item.what):
        return f"this machine's copy is for {other.arch}"
    return "this machine's docker does not have it either"


def _hint(view: _View) -> str:
    if view.item.kind == "image":
        return f"fetch it there while there is a network: docker pull {view.item.what}"
    repo, _colon, _quant = view.item.what.partition(":")
    return f"fetch it, there or on this machine, while there is a network: hf download {repo}"


# --- words ------------------------------------------------------------------------------------------------------------------------------


def _mode_text(view: _View) -> str:
    return "" if view.rules.mode == "auto" else f"transfer mode {view.rules.mode}"


def _links_text(branches: Sequence[Branch]) -> str:
    kinds = {link.kind for branch in branches for link in branch.links}
    if kinds == {"fabric"}:
        return "handed on over the fabric"
    return "handed on over the management network" if kinds else ""


def _path_text(source: str, branches: Sequence[Branch]) -> str:
    """``from spark-1 to spark-2, spark-3``: hosts in the order in which bytes reach them."""
    hosts = ", ".join(" > ".join(host for host in branch.hosts if host != source) for branch in branches)
    return f"from {source} to {hosts}" if source else f"to {hosts}"


def _sized(size: int | None) -> str:
    return f", {size_text(size)}" if size else ""


def _head_first(hosts: Iterable[str], head: str) -> list[str]:
    return sorted(hosts, key=lambda host: host != head)
