"""The far side of a control socket: an ssh connection that exists in memory only."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading

HELLO, NEW_SESSION, FAILURE, EXIT_MESSAGE, SESSION_OPENED = 0x1, 0x10000002, 0x80000003, 0x80000004, 0x80000006


class FakeMaster:
    """Carries sessions in this machine's shell. ``does`` says what becomes of one: run, refuse, freeze, vanish or another version."""

    def __init__(self, path: str, does: str = "run") -> None:
        self.does = does
        self.commands: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._held: list[object] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more sessions."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.sendall(packet(HELLO, 3 if self.does == "other version" else 4))
        assert struct.unpack(">II", read_packet(client)) == (HELLO, 4)
        request = read_packet(client)
        fds = [socket.recv_fds(client, 1, 1)[1][0] for _ in range(3)]
        size = struct.unpack_from(">I", request, 36)[0]
        self.commands.append(request[40 : 40 + size].decode())
        if self.does == "run":
            self._run(client, fds)
        elif self.does == "refuse":
            client.sendall(packet(FAILURE, 0))
        elif self.does == "freeze":
            client.sendall(packet(SESSION_OPENED, 0, 1))
            self._held.append((client, fds))
            return
        for fd in fds:
            os.close(fd)
        client.close()

    def _run(self, client: socket.socket, fds: list[int]) -> None:
        client.sendall(packet(SESSION_OPENED, 0, 1))
        process = subprocess.Popen(["bash", "-c", self.commands[-1]], stdin=fds[0], stdout=fds[1], stderr=fds[2])
        code = process.wait()
        with contextlib.suppress(BrokenPipeError):
            client.sendall(packet(EXIT_MESSAGE, 1, code))


def packet(*numbers: int) -> bytes:
    content = struct.pack(f">{len(numbers)}I", *numbers)
    return struct.pack(">I", len(content)) + content


def read_packet(client: socket.socket) -> bytes:
    return read(client, struct.unpack(">I", read(client, 4))[0])


def read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += client.recv(size - len(data))
    return data
