"""scripts/demo.py: what it reads from sparkrun and from the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from scripts.demo import DemoError, Endpoint, Speed, ask, parse_endpoint, parse_stream

DEMO = Path(__file__).resolve().parent.parent / "scripts" / "demo.py"
RUN = "run @builtin/smollm2-135m --no-follow --ensure --json"
STOP = "stop @builtin/smollm2-135m"


def test_endpoint_is_read_from_the_result_of_run() -> None:
    endpoint = Endpoint("http://127.0.0.1:8081/v1", "smollm2")

    assert parse_endpoint(run_result(endpoint)) == endpoint


@pytest.mark.parametrize("text", ["", "ready", "[]", '{"endpoint": "http://127.0.0.1:1/v1"}'])
def test_a_result_without_an_endpoint_is_shown(text: str) -> None:
    with pytest.raises(DemoError, match="printed no endpoint"):
        parse_endpoint(text)


def test_stream_gives_the_pieces_of_text_in_order_and_ends_at_done() -> None:
    lines = [
        event("role", "assistant"),
        b"\n",
        b": a comment\n",
        event("content", "Hel"),
        event("content", "lo"),
        b"data: [DONE]\n",
        event("content", "!"),
    ]

    assert list(parse_stream(lines)) == ["Hel", "lo"]


def test_stream_passes_over_a_chunk_without_choices() -> None:
    assert list(parse_stream([b'data: {"choices": [], "usage": {"total_tokens": 3}}\n'])) == []


def test_speed_is_of_the_tokens_after_the_first() -> None:
    assert str(Speed(tokens=11, first_token_s=0.5, rest_s=2.0)) == "11 tokens, first after 0.50 s, then 5.0 tokens/s"
    assert str(Speed(tokens=1, first_token_s=0.5, rest_s=0.0)) == "1 tokens, first after 0.50 s, then too short for a rate"


def test_ask_prints_the_answer_of_a_server(server: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    ask(server, "why?", max_tokens=8)

    assert "\n> why?\n\nBecause of light.\n\n3 tokens, first after " in capsys.readouterr().out


def test_ask_reports_what_a_refusing_server_says(server: Endpoint) -> None:
    with pytest.raises(DemoError, match="answered 404: unknown model"):
        ask(Endpoint(server.url, "other"), "why?", max_tokens=8)


def test_ask_reports_a_server_that_is_not_there(server: Endpoint) -> None:
    with pytest.raises(DemoError, match="did not answer"):
        ask(Endpoint("http://127.0.0.1:1/v1", "tiny"), "why?", max_tokens=8)


def test_demo_runs_asks_and_stops(fake: FakeSparkrun, server: Endpoint) -> None:
    fake.on_run(f"echo '{run_result(server)}'")

    done = fake.demo()

    assert done.returncode == 0, done.stderr
    assert fake.commands() == [RUN, "status", STOP]
    assert "Because of light." in done.stdout


def test_demo_stops_the_model_when_the_question_fails(fake: FakeSparkrun, server: Endpoint) -> None:
    fake.on_run(f"echo '{run_result(Endpoint(server.url, 'other'))}'")

    done = fake.demo()

    assert done.returncode == 1
    assert fake.commands() == [RUN, "status", STOP]
    assert "answered 404" in done.stderr


def test_demo_stops_quietly_after_a_launch_that_failed(fake: FakeSparkrun) -> None:
    fake.on_run("echo 'error: port 8081 is taken' >&2; exit 1")

    done = fake.demo()

    assert done.returncode == 1
    assert fake.commands() == [RUN, STOP]
    assert done.stderr.splitlines() == ["error: port 8081 is taken", "error: sparkrun run ended with exit code 1"]


def test_demo_that_is_terminated_ends_the_launch_and_stops(fake: FakeSparkrun) -> None:
    fake.on_run("""trap 'echo undone >>"$LOG"; exit 130' TERM; kill -TERM $PPID; i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done""")

    done = fake.demo()

    assert done.returncode == 143
    assert fake.commands() == [RUN, "undone", STOP]


class FakeSparkrun:
    """A ``sparkrun`` beside a Python in a folder of their own; it writes down what it was asked, and whether the local executor was on."""

    def __init__(self, folder: Path) -> None:
        self.python, self.script, self.log = folder / "python", folder / "sparkrun", folder / "log"
        self.python.symlink_to(sys.executable)

    def on_run(self, action: str) -> None:
        note = 'echo "$*" >>"$LOG"; [ "$SPARKRUN_FEATURE_EXECUTOR_LOCAL" = 1 ] || exit 9'
        self.script.write_text(f'#!/bin/sh\nLOG={self.log}\n{note}\n[ "$1" = run ] || exit 0\n{action}\n')
        self.script.chmod(0o755)

    def demo(self) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARKRUN_")}
        return subprocess.run([self.python, DEMO], env=environment, capture_output=True, text=True, timeout=30, check=False)

    def commands(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def fake(tmp_path: Path) -> FakeSparkrun:
    return FakeSparkrun(tmp_path)


def run_result(endpoint: Endpoint) -> str:
    return json.dumps({"cluster_id": "sparkrun_1", "endpoint": endpoint.url, "served_model_name": endpoint.model})


@pytest.fixture
def server() -> Iterator[Endpoint]:
    """A chat server on the loopback that knows the model ``tiny``."""
    with HTTPServer(("127.0.0.1", 0), Chat) as httpd:
        thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Endpoint(f"http://127.0.0.1:{httpd.server_port}/v1", "tiny")
        httpd.shutdown()
        thread.join()


class Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.path == "/v1/chat/completions" and body["model"] == "tiny" and body["stream"]
        self.send_response(200 if known else 404)
        self.end_headers()
        pieces = [event("content", text) for text in ("Because", " of", " light.")]
        self.wfile.writelines([*pieces, b"data: [DONE]\n\n"] if known else [b"unknown model"])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


def event(key: str, text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {key: text}}]})}\n".encode()
