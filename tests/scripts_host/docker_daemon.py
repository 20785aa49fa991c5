"""A dockerd of the tests' own: its network namespace, its folders, its socket; images made without a registry."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkrun.core.plan import RankPlan
from sparkrun.core.remote import ScriptCall
from sparkrun.core.values import ConfigValue
from sparkrun.orchestration.docker_executor import DockerExecutor
from sparkrun.scripts import compose_script
from tests.scripts_host.docker_host import labels_of
from tests.scripts_host.scratch_host import Ran

EXECUTOR = DockerExecutor()
APPLETS = ("sh", "sleep", "rm", "echo", "cat", "mkdir", "id", "httpd", "awk", "grep", "seq")
STARTS_IN_S = 30


class Daemon:
    """The daemon, and a user whose scripts reach it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.socket = f"unix://{root}/docker.sock"
        self.process = self._start()
        self.images: set[str] = set()

    def __call__(self, *words: str, stdin: bytes | None = None) -> str:
        """What docker prints."""
        ended = subprocess.run(["docker", *words], input=stdin, capture_output=True, env=self._env(), timeout=60, check=False)
        assert ended.returncode == 0, ended
        return ended.stdout.decode()

    def run(self, call: ScriptCall) -> Ran:
        """A script, as on the host."""
        words = ["nsenter", "-t", (self.root / "pid").read_text(), "-n", "bash", "-s"]
        text = compose_script(call.name, {**call.params, **call.secrets})
        ended = subprocess.run(words, input=text, capture_output=True, text=True, env=self._env(), timeout=60, check=False)
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    def start(self, rank: RankPlan, launch: str = "one", **config: ConfigValue) -> Ran:
        """Start a rank with limits that this machine's root may set."""
        limits = {name: str(min(top, 65535) if top > 0 else -1) for name, top in hard_limits().items()}
        return self.run(EXECUTOR.generate_launch_script(rank, labels_of(rank, launch), {"ulimit": dict(limits), **config}))

    def open(self, rank: RankPlan) -> Ran:
        """Open the gate of a rank."""
        return self.run(EXECUTOR.open_call(rank, labels_of(rank)))

    def image(self, name: str, *, shell: bool = True, entrypoint: list[str] | None = None, files: dict[str, str] | None = None) -> None:
        """Make an image of busybox, once."""
        if name in self.images:
            return
        change = ["--change", f"ENTRYPOINT {json.dumps(entrypoint)}"] if entrypoint else []
        self("import", *change, "-", name, stdin=busybox_root(APPLETS if shell else (), files or {}))
        self.images.add(name)

    def remove_all(self) -> None:
        """Every container, whatever state it is in."""
        if names := self("ps", "-a", "-q").split():
            self("rm", "-f", *names)

    def close(self) -> None:
        """End the daemon and what it mounted."""
        self.remove_all()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        # The namespace of its host-network containers, which it leaves mounted.
        subprocess.run(["umount", "-q", self.root / "exec/netns/default"], check=False)

    def _env(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.home), "DOCKER_HOST": self.socket}

    def _start(self) -> subprocess.Popen[bytes]:
        places = [f"--data-root={self.root}/data", f"--exec-root={self.root}/exec", f"--pidfile={self.root}/pid", "-H", self.socket]
        network = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"]
        alone = ["unshare", "-n", "--", "sh", "-c", 'ip link set lo up; exec dockerd "$@"', "dockerd"]
        with (self.root / "log").open("wb") as log:
            process = subprocess.Popen([*alone, *places, *network], stdout=log, stderr=log, env=self._env())
        deadline = time.monotonic() + STARTS_IN_S
        while subprocess.run(["docker", "version"], env=self._env(), capture_output=True, check=False).returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.skip(f"dockerd does not start here: {(self.root / 'log').read_text()[-500:]}")
            time.sleep(0.1)
        return process


@pytest.fixture(scope="session")
def daemon_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    missing = [
        tool
        for tool in ("dockerd", "docker", "busybox", "unshare", "nsenter", "ip")
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin")
    ]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if os.getuid():
        pytest.skip("only root can start a dockerd")
    made = Daemon(tmp_path_factory.mktemp("dockerd"))
    yield made
    made.close()


@pytest.fixture
def daemon(daemon_of_all: Daemon) -> Iterator[Daemon]:
    daemon_of_all.image("img:1")
    yield daemon_of_all
    daemon_of_all.remove_all()
    shutil.rmtree(daemon_of_all.home)
    daemon_of_all.home.mkdir()


def busybox_root(applets: tuple[str, ...], files: dict[str, str]) -> bytes:
    """A file system as tar: busybox under the given names, and scripts."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for folder in ("tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(entry)
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def hard_limits() -> dict[str, int]:
    return {
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[1],
        "stack": resource.getrlimit(resource.RLIMIT_STACK)[1],
    }
