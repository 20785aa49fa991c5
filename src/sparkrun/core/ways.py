"""How what hosts lack comes to them: from whom, by which chain of hosts, and what nothing can bring. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.facts import HostFacts
from sparkrun.core.item_view import REGISTRY, Attempt, ItemView, Rules, head_first
from sparkrun.core.needs import Item, Need
from sparkrun.core.plan import Branch, Gap, Transfer
from sparkrun.core.routes import Link, best_root, chain_from
from sparkrun.core.shared_caches import groups_of
from sparkrun.core.sources import HERE, Stocks
from sparkrun.core.transfer_plans import fetch_by, refresh_by, transfer_from
from sparkrun.models.files import patterns_of
from sparkrun.utils.shell import quote
from sparkrun.utils.text import size_text

LOAD_ROOM = 2
"""``docker load`` unpacks the whole archive beside the layers before it makes layers of it."""


class Distribution(msgspec.Struct, frozen=True):
    """What will be brought, and what cannot be."""

    transfers: tuple[Transfer, ...] = ()
    gaps: tuple[Gap, ...] = ()
    left_out: tuple[Gap, ...] = ()
    """What hosts do without that need not have it, for lack of room."""


def plan_distribution(needs: Sequence[Need], facts: Mapping[str, HostFacts], stocks: Stocks, rules: Rules) -> Distribution:
    """How each need is met. All transfers of a round run at the same time; what is left for later (``Transfer.onward``) is planned anew."""
    transfers: list[Transfer] = []
    gaps: list[Gap] = []
    left_out: list[Gap] = []
    for item in dict.fromkeys(need.item for need in needs):
        mine = [need for need in needs if need.item == item and not need.refresh]
        if fresh := [need.host for need in needs if need.item == item and need.refresh]:
            look = tuple(_refresh(item, fresh, rules))
            transfers += look
            if look:
                continue  # what the others get is what comes of it
        view = ItemView(item, facts, stocks, rules, {need.host for need in mine if need.required})
        found = _bring(view, _once(view, _really(view, [need.host for need in mine])))
        transfers += found.transfers
        gaps += found.gaps
        left_out += found.left_out
    return Distribution(tuple(transfers), tuple(gaps), tuple(left_out))


def _refresh(item: Item, hosts: Sequence[str], rules: Rules) -> Iterator[Transfer]:
    """Once in a launch."""
    if not rules.offline and Attempt(REGISTRY, "", item.what) not in rules.failed:
        yield refresh_by(item, hosts)


def _really(view: ItemView, hosts: Sequence[str]) -> list[str]:
    """Without hosts whose image is the same after all, though docker there calls it something else."""
    head = view.image(view.rules.head)
    return [host for host in hosts if not (head and (own := view.image(host)) and own.is_same(head))]


def _once(view: ItemView, hosts: list[str]) -> list[str]:
    """Of hosts that share one cache of models, the first."""
    if view.item.kind == "image" or not hosts:
        return hosts
    if view.rules.copied_once:
        return hosts[:1]
    return [group[0] for group in groups_of({host: view.facts[host].hf_cache_id for host in hosts})]


def _bring(view: ItemView, hosts: list[str]) -> Distribution:
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
        why = f"{transfers[0].why}; then handed on to {', '.join(onward)}"
        transfers[0] = msgspec.structs.replace(transfers[0], onward=onward, why=why)
    short = {gap.host: gap for transfer in transfers for gap in _no_room(view, transfer)}
    if spared := tuple(gap for gap in short.values() if gap.host not in view.required):
        others = _bring(view, [host for host in hosts if all(gap.host != host for gap in spared)])
        return msgspec.structs.replace(others, left_out=(*spared, *others.left_out))
    kept = tuple(filter(None, (_without(transfer, short) for transfer in transfers)))
    gaps = (*short.values(), *(_gap(view, host) for host in left))
    return Distribution(kept, tuple(gap for gap in gaps if gap.host in view.required))


def _arrived(transfers: Iterable[Transfer]) -> set[str]:
    return {host for transfer in transfers for host in (*transfer.hosts, transfer.source)}


# --- from a machine that has it ---------------------------------------------------------------------------------------------------------


def _from_hosts(view: ItemView, hosts: Sequence[str]) -> Transfer | None:
    """Handed on from a host that has it, as a chain."""
    if view.mode not in ("auto", "delegated"):
        return None
    whole = [source for source in view.holders if source not in hosts]
    sources = [source for source in whole if any(view.can_give(source, host) for host in hosts)]
    chains = [chain_from(source, [host for host in hosts if view.can_give(source, host)], view.links) for source in sources]
    chain = max(chains, key=len, default=())
    if not chain:
        return None
    source = chain[0].source
    return transfer_from(view, source, (Branch(source, chain),), f"{source} has it")


def _from_here(view: ItemView, hosts: Sequence[str]) -> Transfer | None:
    """From the control machine: to one host, which hands it on, or straight to each."""
    mode = view.mode
    usable = [host for host in hosts if view.can_give(HERE, host) and host not in view.stocks.own]
    if mode not in ("auto", "local", "push") or view.stocks.here is None or not usable or not view.has(HERE):
        return None
    links = view.links if mode != "local" else ()
    return transfer_from(view, HERE, tuple(_branches(head_first(usable, view.rules.head), links)), "this machine has it")


def _branches(hosts: Sequence[str], links: Sequence[Link]) -> Iterator[Branch]:
    """Chains that together reach every host, the longest first."""
    left = list(hosts)
    while left:
        chain = best_root(left, left, links)
        first = chain[0].source if chain else left[0]
        yield Branch(first, chain)
        left = [host for host in left if host not in Branch(first, chain).hosts]


# --- from a registry or a hub -----------------------------------------------------------------------------------------------------------


def _fetch(view: ItemView, hosts: Sequence[str]) -> Transfer | None:
    """Fetched where nobody has it: on one host that others can get it from, on this machine, or on each."""
    wanted = [host for host in hosts if host in view.required]
    on = () if view.rules.offline or not wanted else _fetchers(view, wanted)
    return fetch_by(view, on, tuple(host for host in wanted if host not in on)) if on else None


def _fetchers(view: ItemView, hosts: Sequence[str]) -> tuple[str, ...]:
    def untried(machines: Iterable[str]) -> tuple[str, ...]:
        return tuple(machine for machine in machines if Attempt(REGISTRY, machine, view.item.what) not in view.rules.failed)

    mode, free = view.mode, untried(head_first(hosts, view.rules.head))
    machine = view.stocks.here
    able = machine is not None and (view.item.kind == "model" or machine.docker.usable)
    here = untried((HERE,)) if able else ()
    if mode in ("local", "push"):
        return here
    if mode == "pull":
        return free
    reached = chain_from(free[0], [host for host in hosts if host != free[0]], view.links) if free else ()
    if free and len(reached) == len(hosts) - 1:
        return free[:1]
    # Hosts that do not reach each other each fetch it; when the first way failed, this machine fetches for them once.
    return free if len(free) == len(hosts) else here if mode == "auto" else ()


# --- what cannot be brought -------------------------------------------------------------------------------------------------------------


def _no_room(view: ItemView, transfer: Transfer) -> Iterator[Gap]:
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


def _gap(view: ItemView, host: str) -> Gap:
    tried = [reason for attempt, reason in view.rules.failed.items() if attempt.host == host and attempt.what == view.item.what]
    reason = tried[-1] if tried else f"offline, and {_why_not_here(view, host)}" if view.rules.offline else "nothing brings it there"
    return _gap_of(view, host, reason, _hint(view))


def _gap_of(view: ItemView, host: str, reason: str, hint: str) -> Gap:
    return Gap(host=host, kind=view.item.kind, what=view.item.what, reason=reason, hint=hint)


def _why_not_here(view: ItemView, host: str) -> str:
    here = view.stocks.here
    if holder := next((each for each in view.holders if each != host), None):
        return f"{holder}, which has it, cannot log in there"
    if here is None:
        return "no other machine is known to have it"
    if view.item.kind == "model":
        return f"no machine has one to copy (here: {here.model.reason or here.hf_hub})"
    if not here.docker.usable:
        return f"this machine has no docker to copy it from ({here.docker.reason or 'docker is not installed'})"
    if other := here.docker.images.get(view.item.what):
        return f"this machine's copy is for {other.arch}"
    return "this machine's docker does not have it either"


def _hint(view: ItemView) -> str:
    mesh = "let hosts log in to each other with keys (ssh-copy-id), or " if view.holders else ""
    if view.item.kind == "image":
        return f"{mesh}fetch it there while there is a network: docker pull {view.item.what}"
    return f"{mesh}fetch it, there or on this machine, while there is a network: {hub_command(view.item)}"


def hub_command(item: Item) -> str:
    """What fetches a model by hand: the revision that is wanted, and no other quantisations."""
    repo, _colon, _quant = item.what.partition(":")
    wanted = [f"--include {quote(pattern)}" for pattern in (*(patterns_of(item.model) if item.model else ()), *item.allow)]
    return " ".join(("hf download", repo, *([f"--revision {quote(item.revision)}"] if item.revision else []), *wanted))
