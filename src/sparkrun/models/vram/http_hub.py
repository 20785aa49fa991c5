"""The hub over the network: one deadline a request, one budget for all of them, and never more of a file than was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.hub_reader import HubAnswer
from sparkrun.core.paths import home_dir

if TYPE_CHECKING:
    import http.client
    from urllib.request import Request

ENDPOINT = "https://huggingface.co"
TIMEOUT_S = 15.0
BUDGET_S = 30.0
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_CHUNK_BYTES = 65536
_LEFT_BEHIND_S = 1.0
"""How much longer than the deadline a request lives at the most that nobody waits for any more."""


class HttpHub:
    """Asks ``endpoint``. ``timeout_s`` bounds a request, ``budget_s`` all of them together; after that nobody is asked any more."""

    def __init__(self, endpoint: str = ENDPOINT, token: str = "", *, timeout_s: float = TIMEOUT_S, budget_s: float = BUDGET_S) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._budget_s = budget_s

    def get(self, path: str, *, start: int = 0, size_bytes: int) -> HubAnswer:
        """As ``HubReader.get``."""
        if self._budget_s <= 0:
            raise TimeoutError("the time for asking it is used up")
        limit_s, began = min(self._timeout_s, self._budget_s), time.monotonic()
        try:
            return _within(limit_s, lambda: _fetch(self._request(path, start, size_bytes), size_bytes, limit_s + _LEFT_BEHIND_S))
        finally:
            self._budget_s -= time.monotonic() - began

    def _request(self, path: str, start: int, size_bytes: int) -> Request:
        from urllib.request import Request  # takes a while to load; only who asks the hub needs it

        url = f"{self._endpoint}{path}"
        if urlsplit(url).scheme not in ("http", "https"):
            raise OSError(f"HF_ENDPOINT is {self._endpoint}, not an http address")
        request = Request(url, headers={"User-Agent": "sparkrun", "Range": f"bytes={start}-{start + size_bytes - 1}"})
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return request


def http_hub(config: SparkrunConfig) -> HttpHub:
    """The hub that environment (``HF_ENDPOINT``, ``HF_TOKEN``) and ``config.yaml`` (``hub.timeout_s``, ``hub.metadata_budget_s``) name."""
    return HttpHub(
        config.env.get("HF_ENDPOINT") or ENDPOINT,
        _token(config.env),
        timeout_s=config.number("hub.timeout_s", TIMEOUT_S),
        budget_s=config.number("hub.metadata_budget_s", BUDGET_S),
    )


def _token(env: Mapping[str, str]) -> str:
    """From the environment, else as ``hf auth login`` left it."""
    if said := next((env[name] for name in TOKEN_VARIABLES if env.get(name)), None):
        return said
    home = Path(env.get("HF_HOME") or home_dir(env) / ".cache" / "huggingface")
    try:
        return Path(env.get("HF_TOKEN_PATH") or home / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _within(limit_s: float, call: Callable[[], HubAnswer]) -> HubAnswer:
    """The outcome of a call that may hang where no timeout reaches it (looking up a name); one that is late is left behind."""
    outcome: list[HubAnswer | OSError] = []

    def work() -> None:
        try:
            outcome.append(call())
        except OSError as error:
            outcome.append(error)

    thread = Thread(target=work, name="hub", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not outcome:
        raise TimeoutError(f"{limit_s:g} s are over")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


def _fetch(request: Request, size_bytes: int, limit_s: float) -> HubAnswer:
    import http.client
    import urllib.error
    import urllib.request

    class KnownHost(urllib.request.HTTPRedirectHandler):
        """A moved repository is asked for with the token again; a storage elsewhere never sees it."""

        def redirect_request(  # noqa: PLR0913 - the signature is urllib's
            self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
        ) -> Request | None:
            new = super().redirect_request(req, fp, code, msg, headers, newurl)
            token = req.get_header("Authorization")
            if new and token and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
                new.add_unredirected_header("Authorization", token)
            return new

    try:
        with urllib.request.build_opener(KnownHost).open(request, timeout=limit_s) as answer:
            return HubAnswer(answer.status, _read(answer, size_bytes))
    except urllib.error.HTTPError as error:
        with error:
            return HubAnswer(error.code)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"not an HTTP answer: {error!r}") from error


def _read(answer: http.client.HTTPResponse, size_bytes: int) -> bytes:
    body = bytearray()
    while len(body) < size_bytes and (chunk := answer.read1(_CHUNK_BYTES)):
        body += chunk
    return bytes(body[:size_bytes])
