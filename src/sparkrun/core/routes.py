"""Who hands something on to whom: a chain of hosts along links that were seen to work. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

LinkKind = Literal["fabric", "mgmt"]
MOST_STEPS = 5_000
"""How long to look for a chain of all hosts before the longest one so far is taken."""


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """That one host can log in to another. ``way`` are the words of the ssh command there, ``ms`` what a login took."""

    source: str
    target: str
    kind: LinkKind
    way: tuple[str, ...]
    ms: int = 0


def chain_from(root: str, targets: Iterable[str], links: Sequence[Link]) -> tuple[Link, ...]:
    """The longest chain that starts at ``root`` and goes over targets only, each once.

    A stream is as fast as the slowest link of its chain, so a chain is all of one kind: the kind that reaches more hosts, of equals the
    fabric. Hosts that are left out are reached by another chain, later.
    """
    wanted = tuple(dict.fromkeys(targets))
    chains = [_longest(root, wanted, _by_source(links, kind)) for kind in ("fabric", "mgmt")]
    return max(chains, key=len)


def best_root(sources: Sequence[str], targets: Sequence[str], links: Sequence[Link]) -> tuple[Link, ...]:
    """The longest chain that any of the sources can begin; the earlier source where several are as good."""
    return max((chain_from(source, targets, links) for source in sources), key=len, default=())


def _by_source(links: Iterable[Link], kind: LinkKind) -> Mapping[str, tuple[Link, ...]]:
    found: dict[str, tuple[Link, ...]] = {}
    for link in links:
        if link.kind == kind:
            found[link.source] = (*found.get(link.source, ()), link)
    return found


def _longest(root: str, targets: Sequence[str], onward: Mapping[str, tuple[Link, ...]]) -> tuple[Link, ...]:
    best: tuple[Link, ...] = ()
    steps = MOST_STEPS
    stack: list[tuple[Link, ...]] = [()]
    while stack and steps and len(best) < len(targets):
        steps -= 1
        chain = stack.pop()
        best = max(best, chain, key=len)
        seen = {root, *(link.target for link in chain)}
        end = chain[-1].target if chain else root
        free = [link for link in onward.get(end, ()) if link.target in targets and link.target not in seen]
        # The last one pushed is tried first: the one that leads on to fewest others, which are then still free for the rest.
        free.sort(key=lambda link: (_ways_on(link.target, seen, targets, onward), targets.index(link.target)), reverse=True)
        stack.extend((*chain, link) for link in free)
    return best


def _ways_on(host: str, seen: set[str], targets: Sequence[str], onward: Mapping[str, tuple[Link, ...]]) -> int:
    return sum(link.target in targets and link.target not in seen for link in onward.get(host, ()))
