"""Whether a host is this machine, told without asking a resolver: that would touch the network."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from sparkrun.core.hosts import parse_host

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@lru_cache(maxsize=1024)
def is_local(host: str, user: str | None = None) -> bool:
    """Whether ``host`` is one of this machine's own names or addresses, and the user wanted there is the one we are."""
    address = parse_host(host)
    wanted = address.user or user
    if address.port is not None or (wanted and wanted != own_user()):
        return False
    name = _canonical(address.name)
    return name in _LOOPBACK or name in _own_names() or name in _own_addresses() or _bindable_without_proc(name)


@lru_cache(maxsize=1)
def own_user() -> str:
    """The user who runs this, empty when the system does not know."""
    import getpass  # only where a user is named

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _canonical(name: str) -> str:
    """One spelling of an IPv6 address, lower case for a name."""
    if ":" not in name:
        return name.lower().rstrip(".")
    import socket  # few hosts are named by an IPv6 address

    with contextlib.suppress(OSError):
        return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, name))
    return name.lower()


@lru_cache(maxsize=1)
def _own_names() -> frozenset[str]:
    hostname = os.uname().nodename.lower()
    return frozenset({hostname, hostname.partition(".")[0]})


@lru_cache(maxsize=1)
def _own_addresses() -> frozenset[str]:
    return frozenset((*_own_ipv4(), *_own_ipv6()))


def _own_ipv4() -> Iterator[str]:
    """The kernel's routing table marks each address of its own (proc_net(5))."""
    with contextlib.suppress(OSError):
        previous = ""
        for line in Path("/proc/net/fib_trie").read_text(encoding="ascii").splitlines():
            if "/32 host LOCAL" in line:
                yield previous
            previous = line.rpartition(" ")[2]


def _own_ipv6() -> Iterator[str]:
    import socket  # a host that is named, or is this machine's loopback, needs none

    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.partition(" ")[0]))


def _bindable_without_proc(name: str) -> bool:
    """Where the kernel shows no tables (macOS): only an own address can be bound. Linux may allow any (ip_nonlocal_bind)."""
    if Path("/proc/net").exists():
        return False
    import socket  # see above

    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            socket.inet_pton(family, name)
            probe.bind((name, 0))
            return not name.startswith("127.")
    return False
