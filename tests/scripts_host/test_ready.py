"""The readiness observer: ready means that it answered, and a dead engine is noticed at once."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.pace import slowness
from tests.scripts_host.fake_engine import FakeEngine, answer, chunked, event, never, raw, reset, silent, then_never
from tests.scripts_host.scratch_host import Ran, Running, ScratchHost, end_process, eventually, is_alive, session_members

CHAT = "POST /v1/chat/completions"
COMPLETIONS = "POST /v1/completions"
EMBEDDINGS = "POST /v1/embeddings"
CHUNKED_HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
AT_ONCE_S = 1.5
"""A dead engine is told within 0.5 s; the rest is for a busy machine."""


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with FakeEngine() as fake:
        fake.on("GET /health", answer(200))
        fake.on(CHAT, chunked(event(role="assistant", content=""), event(content="Hi"), "data: [DONE]\n\n"))
        yield fake


def params(engine: FakeEngine, **more: str) -> dict[str, str]:
    patience = dict.fromkeys(("PORT_TIMEOUT_S", "HEALTH_TIMEOUT_S", "INFERENCE_TIMEOUT_S"), "20")
    return {"PORT": str(engine.port), "SERVED_MODEL": "tiny", **patience} | more


def ready(host: ScratchHost, engine: FakeEngine, **more: str) -> Ran:
    return host.run("ready", **params(engine, **more))


def watch(host: ScratchHost, engine: FakeEngine, **more: str) -> Running:
    return host.begin("ready", **params(engine, WATCH_NAME="tiny", **more))


def engine_of(host: ScratchHost) -> int:
    """Starts what the observer is to watch; the engine's process, not the supervisor's."""
    leader = host.start("tiny", "exec sleep 600").number("PID")
    assert leader is not None
    eventually(lambda: len(session_members(leader)) == 2)
    return next(pid for pid in session_members(leader) if pid != leader)


def why(ran: Ran) -> tuple[str | None, str | None]:
    return ran.section("READY").text("READY"), ran.section("READY").text("REASON")


# --- ready ----------------------------------------------------------------------------------------------------------------------------


def test_an_engine_that_answers_is_ready(host: ScratchHost, engine: FakeEngine) -> None:
    ran = ready(host, engine)

    section = ran.section("READY")
    assert (ran.returncode, section.text("READY"), section.complete) == (0, "1", True)
    assert section.all("STAGE") == ("port", "health", "inference")
    port, health, token = (section.number(key) for key in ("PORT_OPEN_MS", "HEALTH_MS", "FIRST_TOKEN_MS"))
    assert port is not None
    assert health is not None
    assert token is not None
    assert 0 <= port <= health < 10_000
    assert 0 <= token < 10_000
    assert ran.stderr == ""


def test_each_line_is_printed_when_it_is_known(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", answer(503))
    running = host.begin("ready", **params(engine))
    running.wait_for("STAGE=health")
    running.wait_for("HTTP_STATUS=503")
    engine.on(CHAT, never())
    engine.on("GET /health", answer(200))

    running.wait_for("STAGE=inference")

    assert running.process.poll() is None


def test_the_port_is_waited_for(host: ScratchHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    running = host.begin("ready", PORT=str(port), INFERENCE="none", PORT_TIMEOUT_S="20", POLL_MS="20")
    running.wait_for("STAGE=port")
    assert running.process.poll() is None

    with FakeEngine(port=port) as fake:
        fake.on("GET /health", answer(200))

        assert why(running.result()) == ("1", None)


@pytest.mark.parametrize("loading", [answer(503, "{}"), answer(500), answer(502), silent(), reset(), raw("SSH-2.0-OpenSSH\r\n")])
def test_a_server_that_is_still_loading_is_waited_for(host: ScratchHost, engine: FakeEngine, loading: object) -> None:
    engine.on("GET /health", loading, loading, answer(200))  # type: ignore[arg-type]

    assert why(ready(host, engine, POLL_MS="10")) == ("1", None)
    assert engine.count("GET /health") == 3


def test_the_health_path_of_the_runtime_is_asked(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /v1/models", answer(200, "{}"))

    assert why(ready(host, engine, HEALTH_PATH="/v1/models", INFERENCE="none")) == ("1", None)
    assert engine.count("GET /health") == 0


def test_without_inference_nothing_is_posted(host: ScratchHost, engine: FakeEngine) -> None:
    section = ready(host, engine, INFERENCE="none").section("READY")

    assert (section.text("READY"), section.all("STAGE")) == ("1", ("port", "health"))
    assert not any(request.startswith("POST") for request in engine.requests)


@pytest.mark.parametrize("address", ["::1", "[::1]", "127.0.0.3"])
def test_any_address_of_the_host_can_be_observed(host: ScratchHost, address: str) -> None:
    try:
        fake = FakeEngine(address.strip("[]"))
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with fake:
        fake.on("GET /health", answer(200))

        assert why(ready(host, fake, HOST=address, INFERENCE="none")) == ("1", None)


# --- the request ----------------------------------------------------------------------------------------------------------------------


def test_the_chat_request_is_what_the_engines_expect(host: ScratchHost, engine: FakeEngine) -> None:
    prompt = 'Say "hello"\\\n\tto\x01 Zoë & $HOME `x` 世界\r'

    ready(host, engine, PROMPT=prompt, SERVED_MODEL='my "model"\\é')

    assert engine.bodies(CHAT) == [
        {
            "model": 'my "model"\\é',
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": 64,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


def test_the_first_served_model_is_asked_when_none_is_named(host: ScratchHost, engine: FakeEngine) -> None:
    listing = {"models": [{"name": "x"}], "object": "list", "data": [{"id": 'a/b "c"', "permission": [{"id": "p"}]}, {"id": "d"}]}
    engine.on("GET /v1/models", answer(200, json.dumps(listing)))

    assert why(ready(host, engine, SERVED_MODEL="")) == ("1", None)
    assert [body["model"] for body in engine.bodies(CHAT)] == ['a/b "c"']


def test_a_server_that_names_no_model_is_not_ready(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /v1/models", answer(200, '{"data":[]}'))

    assert why(ready(host, engine, SERVED_MODEL="")) == ("0", "no_model")


def test_the_key_is_sent_with_every_request_and_never_printed(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(CHAT, answer(401, "no"))

    ran = ready(host, engine, API_KEY="sk-hush")

    assert len([request for request in engine.requests if "\r\nAuthorization: Bearer sk-hush\r\n" in request]) == len(engine.requests) == 2
    assert "hush" not in ran.stdout + ran.stderr


def test_completions_are_asked_in_their_own_way(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(COMPLETIONS, chunked('data: {"choices":[{"text":" hello"}]}\n\n'))

    assert why(ready(host, engine, INFERENCE="completions", PROMPT="p")) == ("1", None)
    assert engine.bodies(COMPLETIONS)[0]["prompt"] == "p"


@pytest.mark.parametrize("embedding", [[-0.25] * 5000, [1], "AAAA"])
def test_embeddings_are_asked_in_their_own_way(host: ScratchHost, engine: FakeEngine, embedding: object) -> None:
    engine.on(EMBEDDINGS, answer(200, json.dumps({"object": "list", "data": [{"object": "embedding", "embedding": embedding}]})))

    section = ready(host, engine, INFERENCE="embeddings", PROMPT="p").section("READY")

    assert (section.text("READY"), section.text("STYLE")) == ("1", "embeddings")
    assert engine.bodies(EMBEDDINGS) == [{"model": "tiny", "input": "p"}]


@pytest.mark.parametrize("status", [400, 404])
def test_an_engine_without_chat_is_asked_for_embeddings_once(host: ScratchHost, engine: FakeEngine, status: int) -> None:
    engine.on(CHAT, answer(status))
    engine.on(EMBEDDINGS, answer(200, '{"data":[{"embedding":[0.5]}]}'))

    section = ready(host, engine, INFERENCE_FALLBACK="embeddings").section("READY")

    assert (section.text("READY"), section.all("STYLE")) == ("1", ("chat", "embeddings"))


def test_an_engine_with_neither_is_not_ready(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(CHAT, answer(404))
    engine.on(EMBEDDINGS, answer(404, "no such route"))

    ran = ready(host, engine, INFERENCE_FALLBACK="embeddings")

    assert why(ran) == ("0", "http_404")
    assert ran.section("READY").text("BODY") == "no such route"
    assert engine.count(EMBEDDINGS) == 1


# --- the reply ------------------------------------------------------------------------------------------------------------------------

TOKENS = [event(content="Hi"), event(reasoning_content="Hm"), event(reasoning="Hm"), event(content="\n"), event(content='"')]


@pytest.mark.parametrize("token", TOKENS)
def test_any_text_is_a_token(host: ScratchHost, engine: FakeEngine, token: str) -> None:
    engine.on(CHAT, chunked(event(role="assistant", content=None), event(content=""), token))

    assert why(ready(host, engine)) == ("1", None)


def test_the_stage_ends_at_the_first_token(host: ScratchHost, engine: FakeEngine) -> None:
    piece = event(content="Hi")
    engine.on(CHAT, then_never(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(piece):x}\r\n{piece}\r\n"))

    assert why(ready(host, engine)) == ("1", None)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(chunked(*event(content="Hi")), id="a chunk for each byte"),
        pytest.param(chunked(": comment\n\n" + event(role="x") + 'data: {"delta":{"cont', 'ent" : "Zoë"}}\n\n'), id="split inside a key"),
        pytest.param(raw(STREAM_HEAD, event(role="x"), event(content="Hi")), id="until the connection closes"),
        pytest.param(raw("HTTP/1.0 200 OK\n\n", event(content="Hi")), id="bare line ends"),
        pytest.param(answer(200, '{"choices":[{"message":{"role":"assistant","content":"Hi"}}]}'), id="not streamed"),
        pytest.param(raw("HTTP/1.1 100 Continue\r\n\r\n", STREAM_HEAD, event(content="Hi")), id="after an interim answer"),
        pytest.param(raw(CHUNKED_HEAD.upper(), "1F;x=y\r\n", 'data: {"x":{"content": "Hello"}}', "\r\n0\r\n\r\n"), id="chunk extension"),
    ],
)
def test_the_reply_may_come_in_any_lawful_shape(host: ScratchHost, engine: FakeEngine, reply: object) -> None:
    engine.on(CHAT, reply)  # type: ignore[arg-type]

    assert why(ready(host, engine)) == ("1", None)
    assert engine.count(CHAT) == 1


def test_a_reply_that_takes_longer_to_read_than_one_look_loses_nothing(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /v1/models", chunked('{"data":[{"comment":"' + "x" * 300_000 + '","id":"large"}]}'))

    assert why(ready(host, engine, SERVED_MODEL="")) == ("1", None)
    assert engine.bodies(CHAT)[0]["model"] == "large"


@pytest.mark.parametrize(
    "reply",
    [
        chunked(event(role="assistant", content=""), 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n', "data: [DONE]\n\n"),
        raw(STREAM_HEAD, event(content=""), "data: [DONE]\n\n"),
        answer(200, '{"choices":[]}'),
        chunked('data: {"error":{"message":"out of blocks"}}\n\n'),
        chunked("data: " + "x" * 70_000),
    ],
)
def test_a_whole_reply_without_a_token_is_not_ready(host: ScratchHost, engine: FakeEngine, reply: object) -> None:
    engine.on(CHAT, reply)  # type: ignore[arg-type]

    ran = ready(host, engine)

    assert (ran.returncode, why(ran)) == (1, ("0", "no_token"))
    assert (ran.section("READY").text("BODY") or "").strip()


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500])
def test_an_error_ends_it_with_the_beginning_of_the_reply(host: ScratchHost, engine: FakeEngine, status: int) -> None:
    engine.on(CHAT, answer(status, '{"error": "no\nsuch\\model"}' + "x" * 1000))

    ran = ready(host, engine)

    assert (ran.returncode, why(ran)) == (1, ("0", f"http_{status}"))
    assert ran.section("READY").text("BODY") == ('{"error": "no\nsuch\\model"}' + "x" * 1000)[:300]
    assert engine.count(CHAT) == 1


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_busy_engine_is_asked_again(host: ScratchHost, engine: FakeEngine, status: int) -> None:
    engine.on(CHAT, answer(status, "", "Retry-After: 0"), answer(status, "busy"), chunked(event(content="Hi")))

    assert why(ready(host, engine, RETRY_MS="10")) == ("1", None)
    assert engine.count(CHAT) == 3


def test_a_busy_engine_is_asked_again_when_it_says(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(CHAT, answer(429, "", "retry-after:1"), chunked(event(content="Hi")))
    began = time.monotonic()

    assert why(ready(host, engine, RETRY_MS="10")) == ("1", None)
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("cut", [reset(), silent(), raw(STREAM_HEAD, event(content="")), raw(CHUNKED_HEAD, "ff\r\ndata")])
def test_a_reply_that_is_cut_is_asked_for_again(host: ScratchHost, engine: FakeEngine, cut: object) -> None:
    engine.on(CHAT, cut, chunked(event(content="Hi")))  # type: ignore[arg-type]

    assert why(ready(host, engine, RETRY_MS="10")) == ("1", None)
    assert engine.count(CHAT) == 2


# --- deadlines ------------------------------------------------------------------------------------------------------------------------


def test_a_port_that_never_opens_ends_the_port_stage(host: ScratchHost, engine: FakeEngine) -> None:
    engine.close()

    ran = ready(host, engine, PORT_TIMEOUT_S="0.3")

    assert (ran.returncode, why(ran), ran.section("READY").all("STAGE")) == (1, ("0", "port_timeout"), ("port",))


def test_a_port_that_takes_no_connection_ends_the_port_stage_in_time(host: ScratchHost) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(full.getsockname())
            waiting.append(client)
        began = time.monotonic()

        ran = host.run("ready", PORT=str(full.getsockname()[1]), PORT_TIMEOUT_S="0.5", INFERENCE="none", HEALTH_TIMEOUT_S="1")

        assert why(ran) == ("0", "port_timeout")
        assert time.monotonic() - began < 3 * slowness()
        for client in waiting:
            client.close()


@pytest.mark.parametrize("handler", [never(), then_never("HTTP/1.1 200 OK\r\nX: y"), answer(503), silent(), raw("hello\r\n")])
def test_an_engine_that_never_gets_healthy_ends_the_health_stage_in_time(host: ScratchHost, engine: FakeEngine, handler: object) -> None:
    engine.on("GET /health", handler)  # type: ignore[arg-type]
    began = time.monotonic()

    ran = ready(host, engine, HEALTH_TIMEOUT_S="0.4")

    assert why(ran) == ("0", "health_timeout")
    assert time.monotonic() - began < 3 * slowness()


def test_a_health_path_that_the_server_refuses_for_good_ends_it(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", answer(404, "nothing here"))

    ran = ready(host, engine)

    assert why(ran) == ("0", "http_404")
    assert ran.section("READY").text("BODY") == "nothing here"


@pytest.mark.parametrize(
    "handler",
    [never(), then_never(STREAM_HEAD, event(content="")), then_never("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), answer(503)],
)
def test_a_first_token_that_never_comes_ends_the_inference_stage_in_time(host: ScratchHost, engine: FakeEngine, handler: object) -> None:
    engine.on(CHAT, handler)  # type: ignore[arg-type]
    began = time.monotonic()

    ran = ready(host, engine, INFERENCE_TIMEOUT_S="0.4")

    assert why(ran) == ("0", "inference_timeout")
    assert time.monotonic() - began < 3 * slowness()


def test_a_stream_that_drips_without_a_token_ends_in_time(host: ScratchHost, engine: FakeEngine) -> None:
    def drip(connection: socket.socket, closing: object) -> None:
        connection.sendall(STREAM_HEAD.encode())
        while not engine.closing.wait(0.01):
            connection.sendall(b": keep-alive\n\n")

    engine.on(CHAT, drip)

    assert why(ready(host, engine, INFERENCE_TIMEOUT_S="0.5")) == ("0", "inference_timeout")


def test_a_wish_to_come_back_later_does_not_stretch_the_stage(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(CHAT, answer(429, "", "Retry-After: 3600"))
    began = time.monotonic()

    assert why(ready(host, engine, INFERENCE_TIMEOUT_S="0.5")) == ("0", "inference_timeout")
    assert time.monotonic() - began < 3 * slowness()


# --- the engine's death -----------------------------------------------------------------------------------------------------------------


def told_at_once(host: ScratchHost, running: Running, victim: int) -> None:
    began = time.monotonic()
    end_process(victim)

    ran = running.result()

    assert time.monotonic() - began < AT_ONCE_S * slowness()
    assert (ran.returncode, why(ran), ran.section("READY").text("EXIT_CODE")) == (1, ("0", "died"), "137")


def test_an_engine_that_dies_before_its_port_opens_is_told_at_once(host: ScratchHost, engine: FakeEngine) -> None:
    engine.close()
    victim = engine_of(host)
    running = watch(host, engine)
    running.wait_for("STAGE=port")

    told_at_once(host, running, victim)


@pytest.mark.parametrize("handler", [answer(503), never()])
def test_an_engine_that_dies_while_loading_is_told_at_once(host: ScratchHost, engine: FakeEngine, handler: object) -> None:
    engine.on("GET /health", handler)  # type: ignore[arg-type]
    victim = engine_of(host)
    running = watch(host, engine)
    engine.wait_asked("GET /health")

    told_at_once(host, running, victim)


@pytest.mark.parametrize("handler", [never(), then_never(STREAM_HEAD, event(content="")), answer(503)])
def test_an_engine_that_dies_before_its_first_token_is_told_at_once(host: ScratchHost, engine: FakeEngine, handler: object) -> None:
    engine.on(CHAT, handler)  # type: ignore[arg-type]
    victim = engine_of(host)
    running = watch(host, engine)
    engine.wait_asked(CHAT)

    told_at_once(host, running, victim)


def test_an_engine_that_was_dead_before_is_told(host: ScratchHost, engine: FakeEngine) -> None:
    host.run("local_start", NAME="tiny", COMMAND="exit 3", WAIT_EARLY_S="20")

    ran = ready(host, engine, WATCH_NAME="tiny")

    assert (why(ran), ran.section("READY").text("EXIT_CODE")) == (("0", "died"), "3")
    assert engine.requests == []


def test_an_engine_that_lives_without_its_supervisor_gets_ready(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", answer(503))
    engine_of(host)
    leader = host.workload("tiny").number("PID")
    running = watch(host, engine)
    running.wait_for("HTTP_STATUS=503")
    assert leader is not None
    end_process(leader)
    eventually(lambda: not is_alive(leader))
    engine.wait_asked("GET /health", engine.count("GET /health") + 2)

    engine.on("GET /health", answer(200))

    assert why(running.result()) == ("1", None)


def test_a_workload_nobody_knows_is_gone(host: ScratchHost, engine: FakeEngine) -> None:
    assert why(ready(host, engine, WATCH_NAME="tiny")) == ("0", "gone")


def test_a_workload_that_is_stopped_is_gone(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", answer(503))
    engine_of(host)
    running = watch(host, engine)
    running.wait_for("HTTP_STATUS=503")

    host.run("local_stop", NAMES=("tiny",))

    assert why(running.result()) == ("0", "gone")


def test_a_workload_whose_name_another_process_has_taken_is_replaced(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", answer(503))
    engine_of(host)
    other = host.start("other", "exec sleep 600").text("PID")
    running = watch(host, engine)
    running.wait_for("HTTP_STATUS=503")

    host.file("tiny", ".start").write_text(host.file("other", ".start").read_text())
    host.file("tiny", ".new").write_text(f"{other}\n")
    host.file("tiny", ".new").rename(host.file("tiny"))

    assert why(running.result()) == ("0", "replaced")


DOCKER = """
[[ $1 == inspect ]] || exit 1
[[ ! -e $HOME/hang ]] || exec sleep 600
[[ -e $HOME/state ]] || { echo "Error: No such container: c" >&2; exit 1; }
cat "$HOME/state"
"""


def test_a_container_that_ends_is_told_with_its_exit_code(host: ScratchHost, engine: FakeEngine) -> None:
    host.program("docker", DOCKER)
    (host.home / "state").write_text("id1 t1 true 0 false\n")
    engine.on("GET /health", answer(503))
    running = host.begin("ready", **params(engine, WATCH_CONTAINER="c"))
    engine.wait_asked("GET /health", 5)
    began = time.monotonic()

    (host.home / "state").write_text("id1 t1 false 137 true\n")

    ran = running.result()
    assert time.monotonic() - began < AT_ONCE_S * slowness()
    told = [ran.section("READY").text(key) for key in ("REASON", "EXIT_CODE", "OOM_KILLED")]
    assert told == ["died", "137", "1"]


@pytest.mark.parametrize(("then", "reason"), [("id1 t2 true 0 false\n", "replaced"), ("id2 t1 true 0 false\n", "replaced"), (None, "gone")])
def test_a_container_that_is_restarted_or_removed_is_told(host: ScratchHost, engine: FakeEngine, then: str | None, reason: str) -> None:
    host.program("docker", DOCKER)
    (host.home / "state").write_text("id1 t1 true 0 false\n")
    engine.on("GET /health", answer(503))
    running = host.begin("ready", **params(engine, WATCH_CONTAINER="c"))
    engine.wait_asked("GET /health", 5)

    if then:
        (host.home / "state").write_text(then)
    else:
        (host.home / "state").unlink()

    assert why(running.result()) == ("0", reason)


def test_a_docker_that_hangs_says_nothing_of_the_container(host: ScratchHost, engine: FakeEngine) -> None:
    host.program("docker", DOCKER)
    (host.home / "hang").touch()
    engine.on("GET /health", answer(503), answer(503), answer(503), answer(200))
    began = time.monotonic()

    assert why(ready(host, engine, WATCH_CONTAINER="c")) == ("1", None)
    assert time.monotonic() - began < 4 * slowness()


def test_the_observer_ends_when_its_lifeline_is_let_go(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on("GET /health", never())
    running = host.begin("ready", **params(engine, LIFELINE="1"))
    engine.wait_asked("GET /health")

    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.result().returncode == 1
    eventually(lambda: session_members(running.process.pid) == [], "end of its children")


def test_no_process_is_left_behind(host: ScratchHost, engine: FakeEngine) -> None:
    engine.on(CHAT, then_never(STREAM_HEAD, event(content="Hi")))
    running = host.begin("ready", **params(engine))

    assert why(running.result()) == ("1", None)
    eventually(lambda: session_members(running.process.pid) == [], "end of its children")


# --- parameters -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"PORT": "0"}, {"PORT": ""}, {"PORT": "65536"}, {"PORT": "80x"}, {"HOST": "a b"}, {"HOST": "x/y"}, {"HEALTH_PATH": "health"},
        {"HEALTH_PATH": "/a b"}, {"HEALTH_PATH": "/a\r\nX: y"}, {"INFERENCE": "guess"}, {"INFERENCE_FALLBACK": "chat"},
        {"PORT_TIMEOUT_S": "-1"}, {"HEALTH_TIMEOUT_S": "soon"}, {"POLL_MS": "0"}, {"RETRY_MS": "x"}, {"WATCH_NAME": "a/b"},
    ],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(host: ScratchHost, engine: FakeEngine, bad: dict[str, str]) -> None:
    ran = ready(host, engine, **bad)

    assert (ran.returncode, why(ran)) == (2, ("0", "bad_parameter"))
    assert next(iter(bad)) in (ran.answers.text("MESSAGE") or "") or "workload name" in (ran.answers.text("MESSAGE") or "")


def test_a_key_with_a_line_break_is_refused_without_being_shown(host: ScratchHost, engine: FakeEngine) -> None:
    ran = ready(host, engine, API_KEY="hush\r\nX: y")

    assert (ran.returncode, "hush" in ran.stdout + ran.stderr) == (2, False)
