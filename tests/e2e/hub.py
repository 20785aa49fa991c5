"""A Hugging Face hub on an address of this machine: revisions, large files behind a redirect, gates, and a hang."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

LARGE_BYTES = 1_000_000
"""Larger files come from another place, as on the hub."""
CHUNK = 64 * 1024


class Repo(NamedTuple):
    """A model: its files by branch or tag, and who may have it."""

    files: Mapping[str, Mapping[str, bytes]]
    token: str = ""
    """Without it the gate stays shut (401 without any, 403 with another)."""

    def commit(self, revision: str) -> str:
        """The commit that a branch or tag stands for, or the commit itself."""
        commits = {name: hashlib.sha1(name.encode()).hexdigest() for name in self.files}
        return commits.get(revision, revision)

    def at(self, revision: str) -> Mapping[str, bytes] | None:
        """The files of a revision."""
        return next((found for name, found in self.files.items() if revision in (name, self.commit(name))), None)


class FakeHub:
    """``served`` counts the bytes of large files; a large file among ``hangs`` stands still after its first half, and one among ``damages``
    comes with another last byte. ``status`` answers everything, where it is set."""

    def __init__(self, address: str, repos: Mapping[str, Repo]) -> None:
        self.repos, self.served, self.asked = repos, 0, list[str]()
        self.hangs: tuple[bytes, ...] = ()
        self.damages: tuple[bytes, ...] = ()
        self.status: int | None = None
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self, body=True)

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def log_message(self, *_: object) -> None:
                pass

        self._servers = [ThreadingHTTPServer((address, 0), Handler) for _ in range(2)]
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """For ``HF_ENDPOINT``."""
        return self._address(0)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _address(self, number: int) -> str:
        host, port = self._servers[number].server_address[:2]
        return f"http://{host!s}:{port}"

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        path = urlsplit(request.path).path.strip("/")
        self.asked.append(path)
        if self.status:
            return _say(request, self.status, {"X-Error-Message": "not now"}, b"{}")
        if path.startswith("cdn/"):
            return self._send_large(request, path.removeprefix("cdn/"), body=body)
        name = next((name for name in self.repos if path.removeprefix("api/models/").startswith(f"{name}/")), None)
        if name is None and not (name := next((name for name in self.repos if path == f"api/models/{name}"), None)):
            return _say(request, 404, {"X-Error-Code": "RepoNotFound"}, b"{}")
        rest = path.removeprefix("api/models/").removeprefix(name).strip("/")
        repo = self.repos[name]
        if path.startswith("api/") and rest.startswith("tree/"):
            return self._list(request, repo, rest.removeprefix("tree/"))
        if path.startswith("api/"):
            revision = rest.removeprefix("revision/") or "main"
            return self._tell(request, name, repo, revision)
        given = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repo.token and given != repo.token:
            return _say(
                request, 403 if given else 401, {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model {name} is restricted"}
            )
        _resolve, _, rest = rest.partition("/")
        revision, _, file = rest.partition("/")
        return self._send(request, repo, revision, file, body=body)

    def _list(self, request: BaseHTTPRequestHandler, repo: Repo, revision: str) -> None:
        found = []
        for file, data in (repo.at(revision) or {}).items():
            entry: dict[str, object] = {"type": "file", "path": file, "size": len(data), "oid": blob_name(data)}
            if len(data) >= LARGE_BYTES:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            found.append(entry)
        return _say(request, 200, {"Content-Type": "application/json"}, json.dumps(found).encode())

    def _tell(self, request: BaseHTTPRequestHandler, name: str, repo: Repo, revision: str) -> None:
        files = repo.at(revision)
        if files is None:
            return _say(request, 404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
        told = {
            "id": name,
            "modelId": name,
            "sha": repo.commit(revision),
            "siblings": [{"rfilename": file} for file in files],
            "private": False,
        }
        return _say(request, 200, {"Content-Type": "application/json"}, json.dumps(told).encode())

    def _send(self, request: BaseHTTPRequestHandler, repo: Repo, revision: str, file: str, *, body: bool) -> None:
        data = (repo.at(revision) or {}).get(file)
        if data is None:
            return _say(request, 404, {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": repo.commit(revision)}
        if len(data) >= LARGE_BYTES:
            digest = hashlib.sha256(data).hexdigest()
            linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{digest}"', "Location": f"{self._address(1)}/cdn/{digest}"}
            return _say(request, 302, {**headers, **linked, "ETag": f'"{digest}"'})
        return _say(request, 200, {**headers, "ETag": f'"{blob_name(data)}"'}, data, body=body)

    def _send_large(self, request: BaseHTTPRequestHandler, digest: str, *, body: bool) -> None:
        data = next(
            d
            for repo in self.repos.values()
            for files in repo.files.values()
            for d in files.values()
            if hashlib.sha256(d).hexdigest() == digest
        )
        first, _dash, last = (request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(data), len(data))
        request.send_response(200 if (start, end) == (0, len(data)) else 206)
        request.send_header("Content-Length", str(end - start))
        request.send_header("ETag", f'"{digest}"')
        request.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        request.end_headers()
        for at in range(start, end if body else start, CHUNK):
            while data in self.hangs and at >= len(data) // 2:
                time.sleep(0.1)
            chunk = data[at : min(at + CHUNK, end)]
            if data in self.damages and at + len(chunk) == len(data):
                chunk = chunk[:-1] + bytes([chunk[-1] ^ 1])
            request.wfile.write(chunk)
            self.served += len(chunk)


def blob_name(data: bytes) -> str:
    """What git calls a file."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


def _say(request: BaseHTTPRequestHandler, code: int, headers: Mapping[str, str], data: bytes = b"", *, body: bool = True) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    if body and request.command != "HEAD":
        request.wfile.write(data)
