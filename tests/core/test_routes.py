"""Who hands on to whom."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.routes import Link, chain_from

HOSTS = tuple("abcdefgh")


def links(*pairs: str, kind: str = "fabric") -> tuple[Link, ...]:
    """``ab``: from a to b."""
    return tuple(Link(pair[0], pair[1], kind, ("ssh", pair[1])) for pair in pairs)  # type: ignore[arg-type]


def mesh(hosts: Iterable[str]) -> tuple[Link, ...]:
    names = tuple(hosts)
    return links(*(f"{one}{other}" for one in names for other in names if one != other))


def path(chain: Iterable[Link]) -> str:
    return "".join(link.target for link in chain)


def test_a_chain_takes_every_host_of_a_switch_in_order() -> None:
    assert path(chain_from("a", "bcd", mesh("abcd"))) == "bcd"


def test_a_ring_is_gone_round() -> None:
    ring = links("ab", "ba", "bc", "cb", "cd", "dc", "da", "ad")

    assert path(chain_from("a", "bcd", ring)) in ("bcd", "dcb")


def test_a_host_that_leads_nowhere_comes_last() -> None:
    assert path(chain_from("a", "bcd", links("ab", "ac", "ad", "bc", "cb", "cd"))) == "bcd"


def test_hosts_that_are_no_targets_hand_nothing_on() -> None:
    assert path(chain_from("a", "c", links("ab", "bc"))) == ""


def test_the_fabric_is_preferred_and_a_chain_is_of_one_kind() -> None:
    mixed = (*links("ab"), *links("ab", "bc", kind="mgmt"))

    assert [link.kind for link in chain_from("a", "b", mixed)] == ["fabric"]
    assert [link.kind for link in chain_from("a", "bc", mixed)] == ["mgmt", "mgmt"]


def test_sixteen_hosts_without_a_way_through_all_of_them_are_decided_at_once() -> None:
    names = [chr(ord("a") + number) for number in range(16)]
    two_islands = (*mesh(names[:9]), *mesh(names[9:]))

    assert len(chain_from("a", names[1:], two_islands)) == 8


@given(st.sets(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS))), st.sets(st.sampled_from(HOSTS[1:]), min_size=1))
def test_a_chain_goes_along_links_over_targets_each_once(pairs: set[tuple[str, str]], targets: set[str]) -> None:
    known = links(*(one + other for one, other in sorted(pairs) if one != other))
    chain = chain_from("a", sorted(targets), known)

    assert [link.source for link in chain] == ["a", *path(chain)][: len(chain)]
    assert set(chain) <= set(known)
    assert len(set(path(chain))) == len(chain)
    assert set(path(chain)) <= targets
    if any(link.source == "a" and link.target in targets for link in known):
        assert chain
