"""A server on a free loopback port that answers each request as a test says, byte for byte."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

Handler = Callable[[socket.socket, threading.Event], None]
"""Answers one request on its connection; the event is set when the engine closes."""


class FakeEngine:
    """`requests` holds what came, head and body together. A request nobody prepared gets 404."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._server = socket.create_server((address, port), family=family)
        self.port: int = self._server.getsockname()[1]
        self.requests: list[str] = []
        self.closing = threading.Event()
        self._handlers: dict[str, list[Handler]] = {}
        self._lock = threading.Lock()
        self.asked = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, request: str, *handlers: Handler) -> None:
        """What to do with `GET /path`, the first time, the second, …; the last goes on for ever."""
        self._handlers[request] = list(handlers)

    def wait_asked(self, request: str, times: int = 1) -> None:
        with self.asked:
            assert self.asked.wait_for(lambda: self.count(request) >= times, 15), f"{request} came {self.count(request)} times"

    def count(self, request: str) -> int:
        return sum(text.startswith(request + " ") for text in self.requests)

    def bodies(self, request: str) -> list[dict[str, object]]:
        return [json.loads(text.partition("\r\n\r\n")[2]) for text in self.requests if text.startswith(request + " ")]

    def close(self) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            text = _read_request(connection)
            if text:
                handler = self._take(text)
                with self.asked:
                    self.requests.append(text)
                    self.asked.notify_all()
                handler(connection, self.closing)

    def _take(self, text: str) -> Handler:
        with self._lock:
            waiting = self._handlers.get(" ".join(text.split(" ")[:2]), [answer(404, "not found")])
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def answer(status: int, body: str = "", *headers: str) -> Handler:
    """A whole answer with its length."""
    data = body.encode()
    return raw(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n" + "".join(f"{line}\r\n" for line in headers) + "\r\n" + body)


def raw(*pieces: str) -> Handler:
    """Exactly these pieces, each in a packet of its own, and the end of the connection."""

    def send(connection: socket.socket, _closing: threading.Event) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece.encode())

    return send


def chunked(*pieces: str) -> Handler:
    return raw(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n",
        *(f"{len(piece.encode()):x}\r\n{piece}\r\n" for piece in pieces),
        "0\r\n\r\n",
    )


def never() -> Handler:
    """Accepts, reads, and says nothing for as long as the engine lives."""

    def wait(_connection: socket.socket, closing: threading.Event) -> None:
        closing.wait(30)

    return wait


def then_never(*pieces: str) -> Handler:
    """Begins to answer, and goes on no further."""

    def send(connection: socket.socket, closing: threading.Event) -> None:
        connection.sendall("".join(pieces).encode())
        closing.wait(30)

    return send


def silent() -> Handler:
    """Closes the connection without a word."""
    return lambda _connection, _closing: None


def reset() -> Handler:
    """Resets the connection."""

    def send(connection: socket.socket, _closing: threading.Event) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return send


def event(**delta: object) -> str:
    """One server-sent event of a chat completion."""
    return "data: " + json.dumps({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}) + "\n\n"


def _read_request(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return (head + b"\r\n\r\n" + body).decode()
