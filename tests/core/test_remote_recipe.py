from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from sparkrun.core.errors import RecipeNotFoundError
from sparkrun.core.events import Event, Warn
from sparkrun.core.remote_recipe import MAX_BYTES, HttpAnswer, RecipeUrlError, RemoteAccess, fetch_recipe, http_get, remote_name, remote_url

URL = "https://spark-arena.com/r/a.yaml"


class Web:
    """A network of fixed answers, by address; an exception is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, HttpAnswer | Exception] = {}
        self.asked: list[str] = []

    def get(self, url: str, timeout_s: float, limit_bytes: int) -> HttpAnswer:
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, Exception):
            raise answer
        return answer._replace(body=answer.body[: limit_bytes + 1])


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def access(web: Web, tmp_path: Path, events: list[Event]) -> RemoteAccess:
    return RemoteAccess(tmp_path / "cache", emit=events.append, get=web.get)


def offline(access: RemoteAccess) -> RemoteAccess:
    return msgspec.structs.replace(access, offline=True)


def test_the_text_behind_an_address_is_read_and_kept(web: Web, access: RemoteAccess) -> None:
    web.answers[URL] = HttpAnswer(200, b"\xef\xbb\xbfmodel: m\n")
    assert fetch_recipe(URL, access) == ("model: m\n", URL, False)
    assert fetch_recipe(URL, offline(access)) == ("model: m\n", URL, True)
    assert web.asked == [URL]


def test_offline_without_a_copy_nothing_is_asked(web: Web, access: RemoteAccess) -> None:
    with pytest.raises(RecipeUrlError, match="offline"):
        fetch_recipe(URL, offline(access))
    assert web.asked == []


@pytest.mark.parametrize("failure", [ConnectionRefusedError("refused"), TimeoutError("slow"), HttpAnswer(503), HttpAnswer(429)])
def test_when_the_network_fails_the_copy_is_used_with_a_warning(web: Web, access: RemoteAccess, events: list[Event], failure) -> None:
    web.answers[URL] = failure
    with pytest.raises(RecipeUrlError):
        fetch_recipe(URL, access)
    web.answers[URL] = HttpAnswer(200, b"model: m\n")
    fetch_recipe(URL, access)
    web.answers[URL] = failure
    assert fetch_recipe(URL, access).cached
    assert [type(event) for event in events] == [Warn]


def test_a_missing_recipe_is_missing_even_with_a_copy(web: Web, access: RemoteAccess) -> None:
    web.answers[URL] = HttpAnswer(200, b"model: m\n")
    fetch_recipe(URL, access)
    web.answers[URL] = HttpAnswer(404)
    with pytest.raises(RecipeNotFoundError, match="404"):
        fetch_recipe(URL, access)


def test_redirects_are_followed_three_times_and_no_more(web: Web, access: RemoteAccess) -> None:
    for number in range(4):
        web.answers[f"https://spark-arena.com/{number}"] = HttpAnswer(302, location=f"/{number + 1}")
    web.answers["https://spark-arena.com/4"] = HttpAnswer(200, b"model: m\n")
    assert fetch_recipe("https://spark-arena.com/1", access).text == "model: m\n"
    with pytest.raises(RecipeUrlError, match="more than 3 redirects"):
        fetch_recipe("https://spark-arena.com/0", access)


@pytest.mark.parametrize(
    "location",
    ["https://evil.com/a", "http://spark-arena.com/a", "//evil.com/a", "file:///etc/passwd", "https://spark-arena.com:8443/a", ""],
)
def test_every_redirect_is_checked_again(web: Web, access: RemoteAccess, location: str) -> None:
    web.answers[URL] = HttpAnswer(302, location=location)
    with pytest.raises(RecipeUrlError):
        fetch_recipe(URL, access)
    assert web.asked == [URL]


@pytest.mark.parametrize(
    "url",
    [
        "http://spark-arena.com/a",
        "file:///etc/passwd",
        "ftp://spark-arena.com/a",
        "https://spark-arena.com.evil.com/a",
        "https://spark-arena.com@evil.com/a",
        "https://me:pw@spark-arena.com/a",
        "https://spark-arena.com:444/a",
        "https://sub.spark-arena.com/a",
        "https://spark-arena.com\\@evil.com/",
        "https:///a",
        "https://[::1/a",
        "https://spark-arena.com/a b",
    ],
)
def test_other_addresses_are_refused_before_anything_is_asked(web: Web, access: RemoteAccess, url: str) -> None:
    with pytest.raises(RecipeUrlError) as caught:
        fetch_recipe(url, access)
    assert "pw" not in caught.value.message
    assert web.asked == []


def test_a_vouched_address_is_still_https_only(web: Web, access: RemoteAccess) -> None:
    vouched = msgspec.structs.replace(access, any_host=True)
    web.answers["https://example.org/a"] = HttpAnswer(200, b"model: m\n")
    assert fetch_recipe("https://example.org/a", vouched).text == "model: m\n"
    with pytest.raises(RecipeUrlError, match="https only"):
        fetch_recipe("http://example.org/a", vouched)


def test_a_copy_of_a_vouched_address_needs_the_word_again(web: Web, access: RemoteAccess) -> None:
    web.answers["https://example.org/a"] = HttpAnswer(200, b"model: m\n")
    fetch_recipe("https://example.org/a", msgspec.structs.replace(access, any_host=True))
    with pytest.raises(RecipeUrlError):
        fetch_recipe("https://example.org/a", offline(access))


def test_more_than_the_limit_is_refused_and_the_limit_is_not(web: Web, access: RemoteAccess) -> None:
    web.answers[URL] = HttpAnswer(200, b"#" * MAX_BYTES)
    assert len(fetch_recipe(URL, access).text) == MAX_BYTES
    web.answers[URL] = HttpAnswer(200, b"#" * (MAX_BYTES + 1))
    with pytest.raises(RecipeUrlError, match="5 MiB"):
        fetch_recipe(URL, access)


@pytest.mark.parametrize("answer", [HttpAnswer(403), HttpAnswer(204), HttpAnswer(302), HttpAnswer(200, b"\xff\xfe")])
def test_other_answers_are_errors(web: Web, access: RemoteAccess, answer: HttpAnswer) -> None:
    web.answers[URL] = answer
    with pytest.raises(RecipeUrlError):
        fetch_recipe(URL, access)


def test_catalogue_ids_are_checked() -> None:
    assert remote_url("@spark-arena/0a-1b") == "https://spark-arena.com/api/recipes/0a-1b/raw"
    for bad in ("@spark-arena/", "@spark-arena/../x", "@spark-arena/a/b", "@spark-arena/a?b"):
        with pytest.raises(RecipeUrlError):
            remote_url(bad)


def test_names_of_addresses() -> None:
    assert remote_name("@spark-arena/12") == "12"
    assert remote_name("https://h/a/b%20c.yml?x") == "b-20c"
    assert remote_name("https://h/") == "recipe"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        elif self.path == "/missing":
            self.send_error(404)
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 100)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_a_real_request_follows_no_redirect_and_stops_at_the_limit(server: str) -> None:
    assert http_get(f"{server}/a", 5, 1000) == HttpAnswer(200, b"x" * 100)
    assert http_get(f"{server}/a", 5, 10).body == b"x" * 11
    assert http_get(f"{server}/moved", 5, 1000)[::2] == (302, "/elsewhere")
    assert http_get(f"{server}/missing", 5, 1000).status == 404


def test_a_real_failure_is_an_os_error(server: str) -> None:
    port = int(server.rpartition(":")[2])
    with pytest.raises(OSError, match="refused"):
        http_get(f"http://127.0.0.1:{1 if port != 1 else 2}/", 5, 10)
