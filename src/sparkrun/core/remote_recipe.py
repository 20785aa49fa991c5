"""Recipes behind an https address: hosts from a list, every redirect checked again, a size limit, and a copy for a bad network."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from sparkrun.core.errors import RecipeError, RecipeNotFoundError
from sparkrun.core.events import EventSink, Warn, ignore_events
from sparkrun.utils.files import write_atomic

ALLOWED_HOSTS = ("spark-arena.com",)
"""Hosts whose recipes are read without being asked to. They are not trusted for it."""

MAX_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 3
TIMEOUT_S = 30.0

CATALOG_PREFIX = "@spark-arena/"
_CATALOG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_REDIRECTS = (301, 302, 303, 307, 308)


class RecipeUrlError(RecipeError):
    """A recipe cannot be read from that address."""


class HttpAnswer(NamedTuple):
    """The answer to one request, redirects not followed. ``body`` is cut one byte after the limit."""

    status: int
    body: bytes = b""
    location: str | None = None


HttpGet = Callable[[str, float, int], HttpAnswer]
"""Get an address within so many seconds, and at most so many bytes plus one. Raises ``OSError`` when the network fails."""


class RemoteText(NamedTuple):
    """The text of a recipe and where it is from. ``cached``: the network failed, or is not to be used."""

    text: str
    url: str
    cached: bool


def is_remote(reference: str) -> bool:
    """Whether a recipe is named by an address or by its number in the Spark Arena catalogue."""
    return "://" in reference or reference.startswith(CATALOG_PREFIX)


def remote_url(reference: str) -> str:
    """The address of a reference that ``is_remote``. Raises ``RecipeUrlError``."""
    if not reference.startswith(CATALOG_PREFIX):
        return reference
    number = reference.removeprefix(CATALOG_PREFIX)
    if not _CATALOG_ID.fullmatch(number):
        raise RecipeUrlError(f"{reference!r} is not {CATALOG_PREFIX}<id>", hint="copy the id from the recipe's page")
    return f"https://spark-arena.com/api/recipes/{number}/raw"


def remote_name(reference: str) -> str:
    """What to call the recipe: its number in the catalogue, or the stem of the address."""
    if reference.startswith(CATALOG_PREFIX):
        return reference.removeprefix(CATALOG_PREFIX)
    stem = re.sub(r"\.ya?ml$", "", urlsplit(reference).path.rstrip("/").rpartition("/")[2])
    return re.sub(r"[^\w.-]", "-", stem) or "recipe"


def remote_cache(cache_dir: Path) -> Path:
    """Where copies of fetched recipes lie."""
    return cache_dir / "remote-recipes"


class RemoteAccess(msgspec.Struct, frozen=True):
    """How recipes are read from the network. ``any_host``: the user vouches for the address."""

    cache_dir: Path
    offline: bool = False
    any_host: bool = False
    emit: EventSink = ignore_events
    get: HttpGet | None = None


def fetch_recipe(url: str, access: RemoteAccess) -> RemoteText:
    """The text behind ``url``, or the copy kept from the last time when the network fails or is not to be used.

    Raises ``RecipeUrlError`` for an address, host, size or answer that is not acceptable, ``RecipeNotFoundError`` for a missing one.
    """
    _check(url, access.any_host)
    cache = remote_cache(access.cache_dir) / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.yaml"
    if access.offline:
        return RemoteText(_cached(cache, f"{url}: no copy from an earlier time, and offline"), url, True)
    try:
        body = _follow(url, access)
    except OSError as error:
        text = _cached(cache, f"{url}: {_reason(error)}")
        access.emit(Warn(f"{url}: {_reason(error)}; the copy from the last time is used"))
        return RemoteText(text, url, True)
    text = _decode(url, body)
    try:
        write_atomic(cache, text)
    except OSError as error:
        access.emit(Warn(f"cannot keep a copy of {url}: {error.strerror}"))
    return RemoteText(text, url, False)


def http_get(url: str, timeout_s: float, limit_bytes: int) -> HttpAnswer:
    """One request over the network, with the proxies of the environment."""
    import http.client  # with urllib.request a good part of the start-up time; only remote recipes need them
    import urllib.error
    import urllib.request

    class Here(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_request: object) -> None:
            """Follow nothing."""

    end = time.monotonic() + timeout_s
    request = urllib.request.Request(url, headers={"User-Agent": "sparkrun", "Accept": "text/yaml, text/plain, */*"})
    try:
        answer = urllib.request.build_opener(Here).open(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        answer = error
    except http.client.HTTPException as error:
        raise OSError(f"not an HTTP answer: {error!r}") from error
    with answer:
        body = bytearray()
        while len(body) <= limit_bytes and (chunk := answer.read1(65536)):
            body += chunk
            if time.monotonic() > end:
                raise TimeoutError(f"no end after {timeout_s:g} s")
        return HttpAnswer(answer.status, bytes(body[: limit_bytes + 1]), answer.headers.get("Location"))


def _follow(url: str, access: RemoteAccess) -> bytes:
    """The body at the end of at most ``MAX_REDIRECTS`` redirects. Raises ``OSError`` for what may be better the next time."""
    get, here = access.get or http_get, url
    end = time.monotonic() + TIMEOUT_S
    for _ in range(MAX_REDIRECTS + 1):
        answer = get(here, max(0.1, end - time.monotonic()), MAX_BYTES)
        if answer.status not in _REDIRECTS:
            return _body(here, answer)
        if not answer.location:
            raise RecipeUrlError(f"{here}: a redirect to nowhere")
        here = urljoin(here, answer.location)
        _check(here, access.any_host)
    raise RecipeUrlError(f"{url}: more than {MAX_REDIRECTS} redirects")


def _body(url: str, answer: HttpAnswer) -> bytes:
    if answer.status in (404, 410):
        raise RecipeNotFoundError(f"{url}: no recipe there (HTTP {answer.status})")
    if answer.status in (408, 429) or answer.status >= 500:
        raise OSError(f"HTTP {answer.status}")
    if answer.status != 200:
        raise RecipeUrlError(f"{url}: HTTP {answer.status}")
    if len(answer.body) > MAX_BYTES:
        raise RecipeUrlError(f"{url}: more than {MAX_BYTES // 1024 // 1024} MiB, which no recipe is")
    return answer.body


def _check(url: str, any_host: bool) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = (parts.hostname or "").lower()
    if not host or not url.isprintable() or " " in url or "\\" in url:
        raise RecipeUrlError(f"{url!r} is not an address", hint="a recipe's address is https://host/path")
    if parts.scheme != "https":
        raise RecipeUrlError(f"{url}: recipes are read over https only, not {parts.scheme}", hint="use the https address")
    if parts.username or parts.password:
        raise RecipeUrlError(f"an address of {host} with a user or password is not used", hint="leave them away")
    if not any_host and (host not in ALLOWED_HOSTS or port not in (None, 443)):
        where = f"{host}:{port}" if port else host
        hint = "--trust reads it all the same; look at it first: its hooks would run unasked too"
        raise RecipeUrlError(f"recipe URL host '{where}' is not in the list of allowed hosts ({', '.join(ALLOWED_HOSTS)})", hint=hint)


def _cached(path: Path, why: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RecipeUrlError(why, hint="check the network, or save the recipe to a file") from None


def _decode(url: str, body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeUrlError(f"{url}: not UTF-8 text (byte {error.start})") from None


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error)
