"""llama.cpp's `rpc-server`."""

from __future__ import annotations

import socket

from tests.e2e.bed.engine.arguments import EngineError, parse
from tests.e2e.bed.engine.record import log


def rpc_server(argv: list[str]) -> None:
    """Takes one connection after the other, for ever."""
    args = parse(argv)
    host, port = args.text("-H", "--host", default="127.0.0.1"), args.whole("-p", "--port", default=50052)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, port), family=family)
    except OSError as error:
        raise EngineError(f"Failed to create server socket on {host}:{port}: {error.strerror}") from None
    log(f"Starting RPC server on {host}:{port}")
    while True:
        peer, where = server.accept()
        log(f"Accepted client connection from {where[0]}")
        peer.close()
