"""Sessions over an ssh connection that is open already, asked for at its control socket without starting another ssh.

The protocol is that of OpenSSH's PROTOCOL.mux, version 4, in use since OpenSSH 5.4. Numbers are 32 bits, big endian; a text is its length
and its bytes; a packet is its length and its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from sparkrun.orchestration.control_dir import NAME_DIGITS, fits_a_socket
from sparkrun.orchestration.ssh_command import SshSettings
from sparkrun.utils.fanout import Pipes

VERSION = 4
HELLO, NEW_SESSION, FAILURE, EXIT_MESSAGE, SESSION_OPENED = 0x1, 0x10000002, 0x80000003, 0x80000004, 0x80000006
DENIED = 0x80000002
NO_ESCAPE = 0xFFFFFFFF
LOST = 255
"""The exit code of a session whose connection ended, as the ssh program has it."""
REFUSED = -2
"""The exit code of a session that the connection does not want to carry: it has too many, or speaks another protocol."""


class SharedSession:
    """One command on the host behind a control socket. Raises ``OSError`` when nobody listens there."""

    def __init__(self, control_socket: str, command: str) -> None:
        self._buffer = b""
        self._code: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pipes = Pipes()
        try:
            self._socket.setblocking(False)
            self._socket.connect(control_socket)
            self._ask(command)
        except BaseException:
            self.kill()
            self.pipes.close()
            raise
        self.pipes.close(*self.pipes.far)

    @property
    def exit_fd(self) -> int | None:
        """The control socket: it tells the exit code, and closes when all output has been delivered."""
        return self._socket.fileno()

    def ended(self) -> int | None:
        """The exit code once the connection has closed the session; ``LOST`` or ``REFUSED`` when it never gave one."""
        try:
            while chunk := self._socket.recv(4096):
                self._buffer += chunk
        except BlockingIOError:
            self._take_packets()
            return self._code if self._code == REFUSED else None
        except OSError:
            pass  # reset: the other side is gone, which the code below says
        self._take_packets()
        return LOST if self._code is None else self._code

    def kill(self) -> None:
        """Leave: the other side then closes the session and its standard input."""
        self._socket.close()

    def _ask(self, command: str) -> None:
        hello = struct.pack(">II", HELLO, VERSION)
        # Agent forwarding is asked for always: the connection grants it only when the user's configuration does.
        flags = struct.pack(">IIIII", 0, 0, 1, 0, NO_ESCAPE)  # terminal, X11, agent, subsystem, escape character
        request = struct.pack(">II", NEW_SESSION, 0) + _text("") + flags + _text("") + _text(command)
        self._socket.sendall(_packet(hello) + _packet(request))
        for fd in self.pipes.far:
            socket.send_fds(self._socket, [b"\0"], [fd])

    def _take_packets(self) -> None:
        for packet in self._packets():
            kind, value = struct.unpack_from(">II", packet.ljust(8, b"\0"))
            if kind == EXIT_MESSAGE:
                self._code = struct.unpack_from(">I", packet, 8)[0]
            elif kind in {FAILURE, DENIED} or (kind == HELLO and value != VERSION):
                self._code = REFUSED

    def _packets(self) -> Iterator[bytes]:
        while len(self._buffer) >= 4:
            end = 4 + struct.unpack_from(">I", self._buffer)[0]
            if len(self._buffer) < end:
                return
            packet, self._buffer = self._buffer[4:end], self._buffer[end:]
            yield packet


class ControlSocket:
    """Where the shared connection to a host has its socket, if it has one now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inode = self._now()

    @property
    def exists(self) -> bool:
        """Whether it was there when this was made."""
        return self._inode is not None

    def discard(self) -> None:
        """Take a socket that does not answer out of everybody's way, unless another has taken its place meanwhile."""
        if self.exists and self._now() == self._inode:
            with contextlib.suppress(OSError):
                Path(self.path).unlink()

    def _now(self) -> int | None:
        with contextlib.suppress(OSError):
            return os.lstat(self.path).st_ino
        return None


def find_socket(host: str, settings: SshSettings) -> ControlSocket | None:
    """The socket for ``host`` with these settings; ``None`` where connections cannot be shared."""
    if settings.control_dir is None or not _is_usable(settings.control_dir):
        return None
    what = [host, settings.user_of(host) or "", settings.key or "", *settings.options, *_config_stamps()]
    name = hashlib.sha256("\0".join(what).encode("utf-8", "surrogateescape")).hexdigest()[:NAME_DIGITS]
    return ControlSocket(f"{settings.control_dir}/{name}")


@lru_cache(maxsize=16)
def _is_usable(folder: str) -> bool:
    """Make it where it is missing. Whoever can reach a control socket is logged in: it has to be ours alone, and no link."""
    if not fits_a_socket(folder):
        return False
    try:
        with contextlib.suppress(FileExistsError):
            Path(folder).mkdir(mode=0o700)
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o077 == 0


@lru_cache(maxsize=1)
def _config_stamps() -> tuple[str, ...]:
    """A change of ssh's own configuration may mean another machine behind the same name."""
    return tuple(_stamps((Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))))


def _stamps(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            yield f"{status.st_mtime_ns}/{status.st_size}"


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


def _packet(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content
