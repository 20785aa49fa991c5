"""The OpenAI-style server of an engine."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.e2e.bed.engine.arguments import EngineError
from tests.e2e.bed.engine.knobs import Knobs
from tests.e2e.bed.engine.record import die, log

WORDS = ("stand", "-in", " engine", " ready")
GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
EMBEDDING = ("/v1/embeddings", "/v1/pooling", "/v1/score", "/v1/rerank")


class Service(NamedTuple):
    """What is served where. ``health_only``: a rank that answers for its own health and nothing else."""

    names: tuple[str, ...]
    host: str
    port: int
    api_key: str = ""
    pooling: bool = False
    any_model: bool = False
    """Answers whatever model is asked for, as engines with one model do."""
    health_only: bool = False


def serve(service: Service, knobs: Knobs) -> None:
    """Until a signal ends it. Raises ``EngineError`` when the port is taken."""
    family = socket.AF_INET6 if ":" in service.host else socket.AF_INET
    server_class = type("Server", (ThreadingHTTPServer,), {"address_family": family, "request_queue_size": 128})
    handler = type("Handler", (Handler,), {"service": service, "knobs": knobs, "opened": time.monotonic()})
    try:
        server = server_class((service.host, service.port), handler)
    except OSError as error:
        where = f"('{service.host}', {service.port})"
        raise EngineError(f"ERROR: [Errno {error.errno}] error while attempting to bind on address {where}: {error.strerror}") from None
    if knobs.crash_ready_s >= 0:
        threading.Timer(knobs.crash_ready_s, die, (knobs.text, knobs.code)).start()
    log(f"INFO Uvicorn running on http://{service.host}:{service.port} (Press CTRL+C to quit)")
    log("INFO Application startup complete.")
    server.serve_forever()


def wait_for_end() -> None:
    """What a rank does that serves nobody."""
    while True:
        signal.pause()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    service: Service
    knobs: Knobs
    opened: float

    def do_GET(self) -> None:
        """Health, models, metrics."""
        if self._held_back():
            return
        path = self.path.partition("?")[0]
        if path in {"/health", "/health_generate", "/ping"}:
            self._answer({"status": "ok"})
        elif self.service.health_only:
            self._answer({"error": "not found"}, 404)
        elif path == "/metrics":
            self._send(b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", "text/plain")
        elif path == "/version":
            self._answer({"version": "0.0.0+standin"})
        elif path == "/v1/models" and self._allowed():
            models = [{"id": name, "object": "model", "owned_by": "bed", "max_model_len": 8192} for name in self.service.names]
            self._answer({"object": "list", "data": models})
        elif path != "/v1/models":
            self._answer({"error": "not found"}, 404)

    def do_POST(self) -> None:
        """Questions."""
        request = self._read()
        if self._held_back() or request is None or not self._allowed():
            return
        paths = EMBEDDING if self.service.pooling else GENERATING
        model = str(request.get("model", self.service.names[0]))
        if self.path.partition("?")[0] not in paths or self.service.health_only:
            self._answer({"error": {"message": "Not Found", "code": 404}}, 404)
        elif model not in self.service.names and not self.service.any_model:
            self._answer({"error": {"message": f"The model `{model}` does not exist.", "type": "NotFoundError", "code": 404}}, 404)
        elif self.service.pooling:
            self._answer({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}], "model": model})
        elif request.get("stream"):
            self._stream(model)
        else:
            self._answer(_completion(model))

    def log_message(self, text: str, *values: object) -> None:
        """As an access log."""
        log(f'INFO: {self.client_address[0]} - "{text % values}"')

    def _held_back(self) -> bool:
        """Whether it has answered 503, or never will answer."""
        open_s = time.monotonic() - self.opened
        if 0 <= self.knobs.silent_after_s <= open_s:
            wait_in_thread()
        if open_s < self.knobs.unhealthy_s:
            self._answer({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)
            return True
        return False

    def _allowed(self) -> bool:
        if not self.service.api_key or self.headers.get("Authorization") == f"Bearer {self.service.api_key}":
            return True
        self._answer({"error": "Unauthorized"}, 401)
        return False

    def _read(self) -> dict[str, Any] | None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            request = json.loads(body or b"{}")
        except ValueError:
            request = None
        if isinstance(request, dict):
            return request
        self._answer({"error": {"message": "the body is no JSON object", "code": 400}}, 400)
        return None

    def _answer(self, body: object, status: int = 200) -> None:
        self._send(json.dumps(body).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in WORDS:
            self._event(_chunk(model, {"content": word}, None))
        self._event(_chunk(model, {}, "stop"))
        self._event({**_chunk(model, {}, None), "choices": [], "usage": _usage()})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, data: object) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def wait_in_thread() -> None:
    """For ever, in a thread that nobody waits for."""
    threading.Event().wait()


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": len(WORDS), "total_tokens": 1 + len(WORDS)}


def _chunk(model: str, delta: dict[str, str], reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "text": delta.get("content", ""), "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice]}


def _completion(model: str) -> dict[str, Any]:
    text = "".join(WORDS)
    choice = {"index": 0, "finish_reason": "stop", "text": text, "message": {"role": "assistant", "content": text}}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": _usage()}
