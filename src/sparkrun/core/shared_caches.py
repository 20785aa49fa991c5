"""Which hosts use the same physical Hugging Face cache, told from what each of them calls it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

_OWN_SOURCE = re.compile(r"net:[^:]*:(?:localhost|127\.|\[::1\])")
"""A source that means another server on every host: what is mounted from it is told apart by its marker alone."""


class CacheIdentity(msgspec.Struct, frozen=True):
    """A cache as one host sees it: ``place`` (``net:TYPE:SOURCE:INODE``, ``local:BOOT_ID:DEVICE:INODE``), and the word in its marker."""

    place: str
    marker: str = ""

    @property
    def networked(self) -> bool:
        """Whether it is on a file system that several hosts may mount."""
        return self.place.startswith("net:")

    @property
    def telling(self) -> bool:
        """Whether equal places are the same cache."""
        return bool(self.place) and not _OWN_SOURCE.match(self.place)


def parse_identity(text: str) -> CacheIdentity:
    """From ``HostFacts.hf_cache_id``. A source may hold blanks, a marker is 32 hex digits at the end."""
    place, _blank, marker = text.rpartition(" ")
    return CacheIdentity(place, marker) if place and re.fullmatch(r"[0-9a-f]{32}", marker) else CacheIdentity(text)


def groups_of(cache_ids: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Hosts that share one cache, together; both orders are those of ``cache_ids`` (``hf_cache_id`` by host). An empty id is alone.

    The same place is the same cache. So is the same marker, where all but one host reach it over a network: that one may be the server.
    On several local disks an equal marker is only a copy, such as one image on all disks.
    """
    seen = {host: parse_identity(text) for host, text in cache_ids.items()}
    servers = Counter(seen_as.marker for seen_as in dict.fromkeys(seen.values()) if seen_as.marker and not seen_as.networked)
    group_by_key: dict[str, str] = {}
    hosts_by_group: dict[str, list[str]] = {}
    for host, identity in seen.items():
        keys = tuple(_keys(identity, servers))
        found = list(dict.fromkeys(group_by_key[key] for key in keys if key in group_by_key)) or [host]
        group = found[0]
        for other in found[1:]:
            hosts_by_group[group] += hosts_by_group.pop(other)
        group_by_key = {key: group if value in found else value for key, value in group_by_key.items()} | dict.fromkeys(keys, group)
        hosts_by_group.setdefault(group, []).append(host)
    order = list(seen)
    groups = (tuple(sorted(group, key=order.index)) for group in hosts_by_group.values())
    return tuple(sorted(groups, key=lambda hosts: order.index(hosts[0])))


def _keys(identity: CacheIdentity, servers: Mapping[str, int]) -> Iterable[str]:
    if identity.telling:
        yield identity.place
    if identity.marker and (identity.networked or servers[identity.marker] == 1):
        yield identity.marker
