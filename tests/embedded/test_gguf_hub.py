"""Choosing and fetching the GGUF file of a Hugging Face repository."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import sparkrun.embedded.gguf_hub as gguf_hub
from sparkrun.embedded.errors import LauncherError
from sparkrun.embedded.gguf_hub import HubModel, HubRequest, choose_model, choose_projector, parse_hub_request, parts_of, resolve_model

REPO = "me/tiny"
SOURCE = Path(gguf_hub.__file__).parents[2]
FILES = ["README.md", "mmproj-F32.gguf", "mmproj-f16.gguf", "tiny-IQ4_XS.gguf", "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"]
RESOLVE = """
import json, sys
from sparkrun.embedded.errors import LauncherError
from sparkrun.embedded.gguf_hub import open_hub, parse_hub_request, resolve_model
try:
    print(json.dumps(resolve_model(parse_hub_request(sys.argv[1]), open_hub("", offline=False))))
except LauncherError as error:
    print(json.dumps([str(error), error.hint]))
"""

needs_hub = pytest.mark.skipif(importlib.util.find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")


class ShelfHub:
    """A hub with some files, which remembers what was fetched."""

    def __init__(self, *files: str) -> None:
        self.files = files
        self.fetched: list[str] = []

    def list_files(self, repo: str) -> Sequence[str]:
        return [file for file in self.files if repo == REPO]

    def fetch(self, repo: str, file: str) -> str:
        self.fetched.append(file)
        return f"/cache/{repo}/{file}"


@pytest.mark.parametrize(
    ("spec", "request_"),
    [("me/tiny", HubRequest("me/tiny")), ("me/tiny:Q8_0", HubRequest("me/tiny", "Q8_0"))],
)
def test_a_spec_names_repository_and_quant(spec: str, request_: HubRequest) -> None:
    assert parse_hub_request(spec) == request_


@pytest.mark.parametrize("spec", ["tiny", "me/", "/tiny", "a/b/c", ":Q8_0"])
def test_a_spec_without_user_and_repository_is_refused(spec: str) -> None:
    with pytest.raises(LauncherError, match="takes user/repo"):
        parse_hub_request(spec)


@pytest.mark.parametrize(
    ("quant", "file"),
    [("", "tiny-Q4_K_M.gguf"), ("q8_0", "tiny-Q8_0.gguf"), ("IQ4_XS", "tiny-IQ4_XS.gguf")],
)
def test_the_quant_chooses_the_file(quant: str, file: str) -> None:
    assert choose_model(FILES, HubRequest(REPO, quant)) == file


def test_a_quant_is_not_found_inside_another() -> None:
    with pytest.raises(LauncherError, match="me/tiny has no quant Q4_XS") as caught:
        choose_model(FILES, HubRequest(REPO, "Q4_XS"))

    assert caught.value.hint == "it has IQ4_XS, Q4_K_M, Q8_0"


def test_without_the_default_quant_the_first_model_is_taken() -> None:
    assert choose_model(["a-mmproj.gguf", "imatrix.gguf", "tiny-F16.gguf", "tiny-Q8_0.gguf"], HubRequest(REPO)) == "tiny-F16.gguf"


def test_a_repository_without_models_is_refused() -> None:
    with pytest.raises(LauncherError, match="me/tiny has no GGUF file"):
        choose_model(["mmproj-f16.gguf"], HubRequest(REPO))


def test_a_file_wins_over_a_quant_and_must_be_there() -> None:
    assert choose_model(FILES, HubRequest(REPO, "Q4_K_M", "tiny-Q8_0.gguf")) == "tiny-Q8_0.gguf"
    with pytest.raises(LauncherError, match=r"has no model file other\.gguf"):
        choose_model(FILES, HubRequest(REPO, file="other.gguf"))


@pytest.mark.parametrize(
    ("files", "projector"),
    [
        (FILES, "mmproj-f16.gguf"),
        (["mmproj-BF16.gguf", "mmproj-F16.gguf"], "mmproj-F16.gguf"),
        (["mmproj-Q8_0.gguf", "tiny.gguf"], "mmproj-Q8_0.gguf"),
        (["tiny.gguf"], ""),
    ],
)
def test_the_projector_is_the_best_there_is(files: list[str], projector: str) -> None:
    assert choose_projector(files) == projector


def test_all_parts_of_a_split_model_are_fetched_and_the_first_is_loaded() -> None:
    parts = [f"q8/tiny-Q8_0-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    hub = ShelfHub(*reversed(parts))

    assert resolve_model(HubRequest(REPO, "Q8_0"), hub) == HubModel(f"/cache/{REPO}/{parts[0]}", "")
    assert hub.fetched == parts == parts_of(parts[0])


def test_the_projector_is_fetched_unless_declined() -> None:
    assert resolve_model(HubRequest(REPO), ShelfHub(*FILES)).projector_path == f"/cache/{REPO}/mmproj-f16.gguf"
    assert resolve_model(HubRequest(REPO, projector=False), ShelfHub(*FILES)).projector_path == ""


def resolved(spec: str, home: Path, **env: str) -> list[str]:
    """What a fresh process finds; huggingface_hub reads its environment once, on import."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    full_env = clean | {"HF_HOME": str(home), "HOME": str(home), "PYTHONPATH": str(SOURCE)} | env
    done = subprocess.run([sys.executable, "-c", RESOLVE, spec], env=full_env, capture_output=True, text=True, timeout=60, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cached_repo(home: Path, *files: str) -> Path:
    """A cache as huggingface_hub leaves it. Returns the snapshot folder."""
    folder = home / "hub" / "models--me--tiny"
    snapshot = folder / "snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("c" * 40, encoding="utf-8")
    for file in files:
        (snapshot / file).write_bytes(b"GGUF")
    return snapshot


@needs_hub
def test_offline_the_cache_answers(tmp_path: Path) -> None:
    snapshot = cached_repo(tmp_path, "tiny-Q8_0.gguf", "mmproj-f16.gguf")

    found = resolved(REPO, tmp_path, HF_HUB_OFFLINE="1")

    assert found == [str(snapshot / "tiny-Q8_0.gguf"), str(snapshot / "mmproj-f16.gguf")]


@needs_hub
def test_offline_an_absent_repository_is_told(tmp_path: Path) -> None:
    message, hint = resolved(REPO, tmp_path, HF_HUB_OFFLINE="1")

    assert message == "me/tiny is not in the cache and HF_HUB_OFFLINE is set"
    assert hint == "download it while online"


@needs_hub
def test_the_cache_answers_when_the_hub_does_not(tmp_path: Path) -> None:
    snapshot = cached_repo(tmp_path, "tiny-Q8_0.gguf")

    found = resolved(REPO, tmp_path, HF_ENDPOINT=f"http://127.0.0.1:{closed_port()}")

    assert found == [str(snapshot / "tiny-Q8_0.gguf"), ""]


class _HubAnswers(BaseHTTPRequestHandler):
    """The three requests huggingface_hub makes: the list of files, a file's head, a file."""

    protocol_version = "HTTP/1.1"
    token_seen = ""

    def do_HEAD(self) -> None:
        self._answer(b"GGUF", "application/octet-stream")

    def do_GET(self) -> None:
        if self.path.startswith(f"/api/models/{REPO}"):
            type(self).token_seen = self.headers.get("authorization", "")
            info = {"id": REPO, "sha": "c" * 40, "siblings": [{"rfilename": "tiny-Q4_K_M.gguf"}, {"rfilename": "tiny-Q8_0.gguf"}]}
            self._answer(json.dumps(info).encode(), "application/json")
        elif self.path.startswith(f"/{REPO}/resolve/"):
            self._answer(b"GGUF", "application/octet-stream")
        else:
            self.send_error(404)

    def log_message(self, *args: object) -> None:
        pass

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), "ETag": '"e1"', "X-Repo-Commit": "c" * 40}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _HubAnswers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@needs_hub
def test_online_the_file_is_downloaded_from_the_endpoint_with_the_token(tmp_path: Path, endpoint: str) -> None:
    path, projector = resolved(f"{REPO}:q8_0", tmp_path, HF_ENDPOINT=endpoint, HF_TOKEN="hf_secret")

    assert Path(path).name == "tiny-Q8_0.gguf"
    assert Path(path).read_bytes() == b"GGUF"
    assert tmp_path in Path(path).parents
    assert projector == ""
    assert _HubAnswers.token_seen == "Bearer hf_secret"


@needs_hub
def test_online_an_unknown_repository_is_told(tmp_path: Path, endpoint: str) -> None:
    message, hint = resolved("me/other", tmp_path, HF_ENDPOINT=endpoint)

    assert message == "me/other is not in the cache and the hub answered 404"
    assert "HF_TOKEN" in hint
