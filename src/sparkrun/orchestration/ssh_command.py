"""The words of every ssh command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sparkrun.core.hosts import parse_host

CONNECT_TIMEOUT_S = 10.0
ALIVE_INTERVAL_S = 5
ALIVE_COUNT = 3
"""A host that leaves this many questions of ssh unanswered, one an interval, is given up: it froze, or the network was cut."""
PERSIST_S = 300
"""How long a shared connection stays open after its last use."""
MAX_PARALLEL = 20
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""The fastest ones on processors with AES instructions, which every accelerator host has: 3 to 4 times ChaCha20-Poly1305."""


class SshSettings(msgspec.Struct, frozen=True):
    """How hosts are reached unless a host names its own user or port. ``options`` go to ssh as they are and win over ours.

    Host keys are judged as the user's own ssh configuration says (``StrictHostKeyChecking``); without a word there, a host that is not in
    ``known_hosts`` is refused, because nobody can be asked.
    """

    user: str | None = None
    users: Mapping[str, str] = {}
    """As whom single hosts are reached, in place of ``user``."""
    key: str | None = None
    options: tuple[str, ...] = ()
    max_parallel: int = MAX_PARALLEL
    control_dir: str | None = None
    """A private folder for the sockets of shared connections; ``None`` shares none."""

    def user_of(self, host: str) -> str | None:
        """As whom a host is reached that names nobody itself; ``None`` leaves it to ssh."""
        return self.users.get(host) or self.user


class Connection(msgspec.Struct, frozen=True):
    """How one ssh process connects: on its own, or shared through ``socket`` from there on, for others to use.

    ``ciphers``, best first, are for bulk data, which goes over a connection of its own and uncompressed.
    """

    connect_timeout_s: float = CONNECT_TIMEOUT_S
    socket: str | None = None
    ciphers: tuple[str, ...] = ()


def build_ssh_cmd(host: str, settings: SshSettings, connection: Connection = Connection()) -> list[str]:
    """The words that open a non-interactive session on ``host``; the remote command is appended by the caller."""
    address = parse_host(host)
    user = address.user or settings.user_of(host)
    words = ["ssh", "-o", "BatchMode=yes"]
    if user:
        words += ["-l", user]
    if address.port:
        words += ["-p", str(address.port)]
    if settings.key:
        words += ["-i", settings.key]
    # ssh takes the first value of an option: what the user says comes before what we would choose.
    return [*words, *settings.options, *_options(connection), "--", address.name]


def between_hosts(user: str, address: str, port: int | None) -> list[str]:
    """The words by which one host opens a session on another, for bulk data; the remote command is appended by the caller.

    A host that is not known there yet is taken for what it says it is (``accept-new``); one whose key has changed is refused.
    """
    pairs = {
        "BatchMode": "yes",
        "ConnectTimeout": "5",
        "StrictHostKeyChecking": "accept-new",
        "ServerAliveInterval": str(ALIVE_INTERVAL_S),
        "ServerAliveCountMax": str(ALIVE_COUNT),
        "ControlMaster": "no",
        "ControlPath": "none",
        "Compression": "no",
        "Ciphers": f"^{','.join(FAST_CIPHERS)}",
        "LogLevel": "ERROR",
    }
    options = [word for key, value in pairs.items() for word in ("-o", f"{key}={value}")]
    return ["ssh", *options, *(["-l", user] if user else []), *(["-p", str(port)] if port else []), "--", address]


def build_config_cmd(host: str, settings: SshSettings) -> list[str]:
    """The words that make ssh tell what it would use for ``host``, contacting nobody."""
    return ["ssh", "-G", *build_ssh_cmd(host, settings)[1:]]


def fast_first(ciphers: Iterable[str]) -> tuple[str, ...]:
    """The same ciphers, with the fastest in front: none is added to what the user allows."""
    allowed = tuple(ciphers)
    return (*(cipher for cipher in FAST_CIPHERS if cipher in allowed), *(cipher for cipher in allowed if cipher not in FAST_CIPHERS))


def _options(connection: Connection) -> list[str]:
    pairs = {
        "ConnectTimeout": str(max(1, round(connection.connect_timeout_s))),
        "ServerAliveInterval": str(ALIVE_INTERVAL_S),
        "ServerAliveCountMax": str(ALIVE_COUNT),
        # What went wrong is read from what ssh says: a quieter setting of the user would hide it.
        "LogLevel": "INFO",
        # Settings that are meant for the user's own sessions and would break ours.
        "RequestTTY": "no",
        "RemoteCommand": "none",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        **_sharing(connection),
    }
    return [word for key, value in pairs.items() for word in ("-o", f"{key}={value}")]


def _sharing(connection: Connection) -> dict[str, str]:
    if connection.ciphers:
        return {"ControlMaster": "no", "ControlPath": "none", "Compression": "no", "Ciphers": ",".join(connection.ciphers)}
    if connection.socket:
        return {"ControlMaster": "auto", "ControlPath": connection.socket, "ControlPersist": str(PERSIST_S)}
    return {"ControlMaster": "no", "ControlPath": "none"}
