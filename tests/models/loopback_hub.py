"""A Hugging Face hub on loopback, with a storage beside it to which it sends who wants a file: real requests, ranges and redirects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import NamedTuple


class Asked(NamedTuple):
    """One request: to ``hub`` or ``storage``, with which range and token."""

    server: str
    path: str
    range: str
    token: str


class LoopbackHub:
    """Repositories by id, each with its files. ``info`` is laid over the listing; ``hangs`` makes it accept and say nothing.

    ``sizes`` lists files that are not here; ``refusals`` are HTTP codes by path prefix; ``whole`` makes the storage ignore ranges.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.sizes: dict[str, dict[str, int | None]] = {}
        self.info: dict[str, dict[str, object]] = {}
        self.moved: dict[str, str] = {}
        self.refusals: dict[str, int] = {}
        self.hangs = False
        self.whole = False
        self.asked: list[Asked] = []
        self.over = Event()
        self.endpoint = self.storage = ""

    def listing(self, repo: str) -> bytes:
        """What the hub's API says of a repository."""
        sizes: dict[str, int | None] = {name: len(body) for name, body in self.files[repo].items()}
        siblings = [{"rfilename": name, "size": size} for name, size in (sizes | self.sizes.get(repo, {})).items()]
        return json.dumps({"id": repo, "siblings": siblings, "private": False, **self.info.get(repo, {})}).encode()


@contextmanager
def loopback_hub() -> Iterator[LoopbackHub]:
    """Serves until the block ends."""
    hub = LoopbackHub()
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub, name)) for name in ("hub", "storage")]
    hub.endpoint, hub.storage = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    threads = [Thread(target=server.serve_forever, args=(0.02,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(hub: LoopbackHub, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_said: object) -> None:
            """Nothing on standard error."""

        def do_GET(self) -> None:
            wanted, token = self.headers.get("Range", ""), self.headers.get("Authorization", "")
            hub.asked.append(Asked(name, self.path, wanted, token))
            if hub.hangs:
                hub.over.wait()
                return
            code, body, location = _answer(hub, name, self.path, wanted)
            self.send_response(code)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _answer(hub: LoopbackHub, name: str, path: str, wanted: str) -> tuple[int, bytes, str]:
    if refused := next((code for prefix, code in hub.refusals.items() if path.startswith(prefix)), None):
        return refused, b"", ""
    for old, new in hub.moved.items():
        if old in path:
            return 307, b"", path.replace(old, new)
    if info := re.match(r"/api/models/(.+)/revision/", path):
        return (200, hub.listing(info[1]), "") if info[1] in hub.files else (401, b"", "")
    file = re.match(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
    if file is None or file[2] not in hub.files.get(file[1], {}):
        return 404, b"", ""
    if name == "hub" and not file[2].endswith(".json"):
        return 302, b"", f"{hub.storage}{path}"
    body = hub.files[file[1]][file[2]]
    span = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
    return (200, body, "") if hub.whole or span is None else (206, body[int(span[1]) : int(span[2]) + 1], "")
