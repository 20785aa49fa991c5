"""Networks between hosts: as they should be, and with things gone wrong."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from sparkrun.core.fabric import FabricFacts, FabricPort
from tests.core.fabric.hosts import address, interface, network, port

Networks = dict[str, FabricFacts]
Ports = list[FabricPort]

# A place among all ports, and what happens there.
_ACCIDENTS = st.tuples(
    st.integers(0, 30),
    st.sampled_from(
        [
            "down",
            "bare",
            "moved",
            "ipv6",
            "link-local",
            "loopback",
            "clash",
            "second",
            "long prefix",
            "short prefix",
            "other gid",
            "gone",
            "extra",
        ]
    ),
)


@st.composite
def switched_networks(draw: st.DrawFn) -> Networks:
    """Hosts on a switch: every rail is a subnet, and every host has a port on each."""
    rails = draw(st.integers(1, 3))
    return _networks([[f"192.168.{rail}.{n + 1}/24" for rail in range(rails)] for n in range(draw(st.integers(2, 5)))])


@st.composite
def rings(draw: st.DrawFn) -> Networks:
    """Hosts in a circle, each link by one or two subnets; which port of a host leads where is left to chance."""
    count, functions = draw(st.integers(3, 5)), draw(st.integers(1, 2))
    order = draw(st.permutations(range(count)))
    addresses: list[list[str]] = [[] for _ in range(count)]
    for link in range(count):
        for function in range(functions):
            for octet, host in ((1, order[link]), (2, order[(link + 1) % count])):
                addresses[host].append(f"192.168.{10 * link + function}.{octet}/24")
    return _networks([own[turn:] + own[:turn] for own in addresses for turn in [draw(st.integers(0, 1))]])


@st.composite
def odd_networks(draw: st.DrawFn) -> Networks:
    """A sound network after up to four accidents."""
    facts = draw(st.one_of(switched_networks(), rings()))
    for place, accident in draw(st.lists(_ACCIDENTS, min_size=1, max_size=4)):
        facts = _struck(facts, place, accident)
    return facts


def any_networks() -> st.SearchStrategy[Networks]:
    """Sound and odd ones."""
    return st.one_of(odd_networks(), switched_networks(), rings())


def _networks(addresses: list[list[str]]) -> Networks:
    return {_host_name(n): _network(n, [_port(n, at, text) for at, text in enumerate(own)]) for n, own in enumerate(addresses)}


def _struck(facts: Networks, place: int, accident: str) -> Networks:
    places = [(n, at) for n, seen in enumerate(facts.values()) for at in range(len(seen.ports))]
    if not places:
        return facts
    n, at = places[place % len(places)]
    ports = list(facts[_host_name(n)].ports)
    if accident == "gone":
        del ports[at]
    elif accident == "extra":
        ports.append(_port(n, len(ports) + 4, f"192.168.99.{n + 1}/24"))
    else:
        ports[at] = _changed(ports[at], n, accident)
    return {**facts, _host_name(n): _network(n, ports)}


def _changed(struck: FabricPort, n: int, accident: str) -> FabricPort:
    own = struck.addresses[0].address if struck.addresses else "10.99.0.1"
    addresses = {
        "bare": (),
        "moved": (address("192.168.0.77/24"),),
        "ipv6": (address("fd00::7/64"),),
        "link-local": (address(f"169.254.9.{n + 1}/16"),),
        "loopback": (address("127.0.0.5/8"),),
        "clash": (address("192.168.0.1/24"),),
        "second": (address(f"172.30.{n}.1/24"), *struck.addresses),
        "long prefix": (address(f"{own}/30"),) if ":" not in own else (),
        "short prefix": (address(f"{own}/16"),) if ":" not in own else (),
    }
    if accident in addresses:
        return msgspec.structs.replace(struck, addresses=addresses[accident])
    if accident == "other gid":
        return msgspec.structs.replace(struck, gids={index + 2: gid for index, gid in struck.gids.items()})
    return msgspec.structs.replace(struck, state="DOWN")


def _host_name(n: int) -> str:
    return f"10.0.0.{n + 1}"


def _port(host: int, at: int, text: str) -> FabricPort:
    return port(f"h{host}x{at}", f"h{host}f{at}", text, pci=f"0000:0{at}:00.0")


def _network(n: int, ports: Ports) -> FabricFacts:
    return network(tuple(ports), interface(f"h{n}m", f"10.0.0.{n + 1}/24"), route=f"h{n}m")
