"""How one host is written: ``name``, ``user@name:port``, ``[ipv6]:port``. The only parser of host lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from sparkrun.core.errors import UsageError

SSH_PORT = 22
MAX_PORT = 65535

_HOST = re.compile(
    r"""
    (?:(?P<user>[A-Za-z0-9_][\w.+-]*)@)?
    (?:
        \[(?P<boxed>[^\[\]\s]+)\](?::(?P<boxed_port>\d{1,5}))?
      | (?P<name>\w[\w.-]*)(?::(?P<port>\d{1,5}))?
      | (?P<bare>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)
    )
    """,
    re.VERBOSE,
)
_NUMERIC = re.compile(r"[0-9.]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_FORMS = "a host is name, user@name, name:port or [ipv6]:port"


class HostAddress(msgspec.Struct, frozen=True):
    """The parts of ``user@host:port``; ``name`` is a name or an address without brackets. ``str`` gives the text back."""

    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        if self.port is None:
            return f"{user}{self.name}"
        return f"{user}[{self.name}]:{self.port}" if ":" in self.name else f"{user}{self.name}:{self.port}"


def parse_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Hosts from texts with commas, blanks or line ends between them, in order.

    Raises ``UsageError`` for a bad name, and for a machine that is named twice.
    """
    hosts = split_hosts(texts)
    seen: dict[tuple[str, int], str] = {}
    for host in hosts:
        machine = machine_key(host)
        if machine in seen:
            twice = host if seen[machine] == host else f"{seen[machine]} and {host}"
            raise UsageError(f"host given twice: {twice}", hint="name each host once")
        seen[machine] = host
    return hosts


def split_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """The words of a host list, not looked at."""
    return tuple(word for text in texts for word in re.split(r"[,\s]+", text) if word)


def parse_host(text: str) -> HostAddress:
    """The parts of one host. Raises ``UsageError``."""
    if text.startswith("-") or "@-" in text:
        raise UsageError(f"'{text}' is not a host: a host cannot begin with '-'", hint="look for an option whose value is missing")
    match = _HOST.fullmatch(text)
    if match is None:
        raise UsageError(f"'{text}' is not a host", hint=_FORMS)
    ipv6 = match["boxed"] or match["bare"]
    if not (_is_ipv6(ipv6) if ipv6 else _is_name(match["name"])):
        raise UsageError(f"'{text}' is not a host: {ipv6 or match['name']} is not an IP address", hint=_FORMS)
    port = match["boxed_port"] or match["port"]
    if port and not 1 <= int(port) <= MAX_PORT:
        raise UsageError(f"'{text}': port {port} is not between 1 and {MAX_PORT}")
    return HostAddress(ipv6 or match["name"], match["user"], int(port) if port else None)


def machine_key(text: str) -> tuple[str, int]:
    """What two spellings of one machine have in common: its name in one form, and the ssh port. The user does not count."""
    address = parse_host(text)
    name = address.name.casefold().rstrip(".")
    if ":" in name:
        import ipaddress  # only IPv6 has several spellings

        name = str(ipaddress.IPv6Address(name))
    return ("localhost" if name in _LOOPBACK else name), address.port or SSH_PORT


def _is_name(text: str) -> bool:
    """Whether the resolver may judge it: anything but digits and dots, and any whole IPv4 address."""
    if not _NUMERIC.fullmatch(text):
        return True
    parts = text.split(".")
    return len(parts) == 4 and all(part and len(part) <= 3 and int(part) <= 255 for part in parts)


def _is_ipv6(text: str) -> bool:
    import ipaddress  # most hosts have a name or an IPv4 address

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
