"""One transfer as a value: its streams, who hands them on, how many bytes, how long, and why. Touches nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import msgspec

from sparkrun.containers.images import REFRESH_PATIENCE_S, load_action, pull_action
from sparkrun.containers.layers import save_script
from sparkrun.core.facts import HostFacts
from sparkrun.core.item_view import Attempt, ItemView
from sparkrun.core.needs import Item
from sparkrun.core.plan import Branch, Flow, HostAction, Transfer
from sparkrun.core.routes import Link
from sparkrun.core.sources import HERE
from sparkrun.models.files import bytes_lacking, plan_streams, read_script
from sparkrun.models.hub import Fetch, Snapshot, download_action, keep_action, receive_action
from sparkrun.utils.text import size_text

STREAM_BYTES_S = 1_000_000_000
"""About what one ssh stream moves on a processor with AES instructions, however fast the link is."""
LINK_SHARE = 0.9
"""How much of a link's speed a stream gets of it."""

ASIDE_BYTES_S = 100_000_000
"""How fast docker at least writes an image aside: all of it, before it prints the first byte of its archive."""
IMAGE_IDLE_S = 120


def transfer_from(view: ItemView, source: str, branches: tuple[Branch, ...], why: str) -> Transfer:
    """The item from a machine that has it along chains of hosts. ``why`` tells of the source."""
    hosts = tuple(host for branch in branches for host in branch.hosts if host != source)
    reason = "; ".join(filter(None, (_mode_text(view), why, _links_text(branches))))
    make = _image_transfer if view.item.kind == "image" else _model_transfer
    return make(view, source, hosts, branches, reason)


def fetch_by(view: ItemView, machines: Sequence[str], onward: tuple[str, ...]) -> Transfer:
    """The item from its registry or hub by machines themselves; ``onward`` are the hosts that get it from them afterwards."""
    what, names = view.item.what, ", ".join(machine or "this machine" for machine in machines)
    why = "; ".join(filter(None, (_mode_text(view), _why_fetched(view), f"then handed on to {', '.join(onward)}" if onward else "")))
    told = Transfer(title="", kind=view.item.kind, what=what, way="pull", why=why, onward=onward)
    if view.item.kind == "image":
        pulls = tuple(pull_action(machine, what) for machine in machines)
        return msgspec.structs.replace(told, title=f"image {what} on {names} (docker pull)", actions=pulls)
    downloads = tuple(_download(view, machine) for machine in machines)
    return msgspec.structs.replace(told, title=f"model {what} on {names} (from the hub)", actions=downloads, way="download")


def refresh_by(item: Item, hosts: Sequence[str]) -> Transfer:
    """A look for a newer image of the same name."""
    return Transfer(
        title=f"image {item.what} on {', '.join(hosts)} (docker pull, if there is a newer one)",
        actions=tuple(pull_action(host, item.what, patience_s=REFRESH_PATIENCE_S) for host in hosts),
        kind="image",
        what=item.what,
        way="pull",
        optional=True,
        refresh=True,
    )


def _image_transfer(view: ItemView, source: str, hosts: tuple[str, ...], branches: tuple[Branch, ...], why: str) -> Transfer:
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
        idle_s=IMAGE_IDLE_S + image.size_bytes // ASIDE_BYTES_S,
        size_bytes=size,
        bytes_by_host={} if size is None else dict.fromkeys(hosts, size),
        estimate_s=_estimate_s(view, source, branches, size, 1),
    )


def _model_transfer(view: ItemView, source: str, hosts: tuple[str, ...], branches: tuple[Branch, ...], why: str) -> Transfer:
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
        idle_s=view.rules.idle_s,
        size_bytes=size,
        bytes_by_host={host: bytes_lacking(files, stock) for host, stock in targets.items()},
        estimate_s=_estimate_s(view, source, branches, size, len(flows)),
        finish=tuple(keep_action(host, view.facts[host].hf_hub, snapshot) for host in hosts),
    )


def _estimate_s(view: ItemView, source: str, branches: Sequence[Branch], size: int | None, streams: int) -> float | None:
    """The time of the slowest branch, by the speed of its slowest link; ``None`` where one of them is not known."""
    speeds = [_link_bytes_s(view, link) for branch in branches for link in branch.links]
    if source == HERE:
        speeds += [_management_bytes_s(view.facts.get(branch.first), len(branches)) for branch in branches]
    if size is None or not speeds or any(speed is None for speed in speeds):
        return None
    return size / min(STREAM_BYTES_S * max(1, streams), *(speed for speed in speeds if speed))


def _link_bytes_s(view: ItemView, link: Link) -> float | None:
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


def _download(view: ItemView, host: str) -> HostAction:
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
        view.rules.idle_s,
        view.item.allow,
        view.item.ignore,
    )
    return download_action(host, seen.hf_hub, fetch)


def _is_optional(view: ItemView, hosts: Iterable[str]) -> bool:
    return not any(host in view.required for host in hosts)


def _mode_text(view: ItemView) -> str:
    asked = view.rules.mode
    if view.mode != asked:
        why = "this machine has no docker" if view.stocks.here else "this machine is one of the hosts"
        return f"transfer mode auto in place of {asked}: {why}"
    return "" if asked == "auto" else f"transfer mode {asked}"


def _why_fetched(view: ItemView) -> str:
    if view.mode == "pull":
        return ""
    if view.mode in ("local", "push"):
        return "this machine does not have it"
    return f"{view.holders[0]} has it, but cannot hand it on" if view.holders else "nobody here has it"


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
