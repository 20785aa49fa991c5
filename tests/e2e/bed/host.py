"""One test host, as a test sees it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import msgspec

from tests.e2e.bed.accounts import make_folder, write
from tests.e2e.bed.faults import inject, use_accelerator
from tests.e2e.bed.machine import COMMAND_TIMEOUT_S, Ended, run
from tests.e2e.bed.parts import HostParts
from tests.e2e.bed.plan import Accelerator, BedError, HostPlan

ENGINE_RECORD = "tmp/bed-engine.jsonl"
"""Where the stand-in engine writes down how it was called, in its container."""
MODEL_COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOAD_TIMEOUT_S = 120


class EngineCall(msgspec.Struct, frozen=True):
    """How one process of the stand-in engine was started."""

    program: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    uid: int
    host: str


class Host:
    """``run`` goes over ssh as the host's user. Everything else goes round the network, as root, and works when that is cut."""

    def __init__(self, parts: HostParts) -> None:
        self._parts = parts
        self._faulty = False

    @property
    def plan(self) -> HostPlan:
        """What it is made after."""
        return self._parts.plan

    @property
    def name(self) -> str:
        """Such as ``spark-1``; ssh with the bed's settings takes it."""
        return self.plan.name

    @property
    def address(self) -> str:
        """On the management network, where this machine is too."""
        return self.plan.address

    @property
    def fabric_addresses(self) -> tuple[str, ...]:
        """On the fabric, which this machine has no part in."""
        return self.plan.fabric_addresses

    @property
    def user(self) -> str:
        """Who logs in."""
        return self.plan.person.name

    @property
    def home(self) -> str:
        """The home of ``user``."""
        return self.plan.person.home

    @property
    def hf_home(self) -> str:
        """Where its Hugging Face cache is."""
        return self.plan.person.hf_home or f"{self.home}/.cache/huggingface"

    @property
    def root(self) -> Path:
        """Its root folder, as seen from here. Absolute links in it lead out of it."""
        return self._parts.process.root

    @property
    def logins(self) -> int:
        """How often somebody has logged in over ssh since it came up."""
        return (self._parts.folder / "log/sshd.log").read_text(errors="replace").count("Accepted publickey")

    def run(self, script: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Ended:
        """A bash script, over ssh as the host's user; code 255 when ssh does not get through."""
        settings = self._parts.folder.parent / "ssh_config"
        words = ("ssh", "-F", settings, "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", self.name, "bash", "-s")
        return run(*words, stdin=script, timeout_s=timeout_s)

    def inside(self, *words: str, user: str = "", timeout_s: float = COMMAND_TIMEOUT_S) -> Ended:
        """A command as root, or as ``user`` with a login shell."""
        if user:
            words = ("su", "--shell=/bin/bash", "--login", user, "--command", shlex.join(words))
        return self._parts.inside(*words, timeout_s=timeout_s)

    def docker(self, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """The output of docker; fails the test when docker does."""
        return self.inside("docker", *words, timeout_s=timeout_s).text

    def read(self, path: str) -> str:
        """A file of the host."""
        return self._parts.at(path).read_text()

    def write(self, path: str, text: str) -> None:
        """A file of the host's user, with its folders."""
        target = self._parts.at(path)
        for folder in reversed(target.parents):
            if not folder.exists():
                make_folder(folder, self.plan.person)
        write(target, text, uid=self.plan.person.uid)

    def put_model(self, name: str) -> None:
        """A model of no weight in the host's Hugging Face cache: enough for what only looks whether it is there."""
        repo = f"{self.hf_home}/hub/models--{name.replace('/', '--')}"
        self.write(f"{repo}/refs/main", MODEL_COMMIT)
        self.write(f"{repo}/snapshots/{MODEL_COMMIT}/config.json", json.dumps({"architectures": ["LlamaForCausalLM"]}))
        self.write(f"{repo}/snapshots/{MODEL_COMMIT}/model.safetensors", "\2\0\0\0\0\0\0\0{}")

    def wait_ready(self) -> None:
        """Until its sshd and its docker answer. Raises ``BedError`` when they do not."""
        self._parts.wait_ready()

    def load(self, archive: Path) -> None:
        """``docker load``."""
        with archive.open("rb") as stream:
            words = self._parts.enter("docker", "load", "--quiet")
            ended = subprocess.run(words, stdin=stream, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False)
        if ended.returncode:
            raise BedError(f"{self.name}: docker load {archive.name}: {ended.stderr.strip()}")

    def engine_calls(self, container: str) -> tuple[EngineCall, ...]:
        """How the stand-in engine's processes in a container, alive or dead, were started, in order."""
        layer = self.docker("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", container)
        record = self._parts.at(layer) / ENGINE_RECORD
        lines = record.read_text().splitlines() if record.exists() else []
        return tuple(msgspec.json.decode(line, type=EngineCall) for line in lines)

    def fault(self, kind: str, value: str = "") -> None:
        """``cut [mgmt|fabric]``, ``kill-dockerd``, ``freeze``, ``thaw``, ``slow [MBIT]``, ``full``; ``heal`` undoes all of them."""
        self._faulty = kind != "heal"
        inject(self._parts, kind, value)

    def restore(self) -> None:
        """No fault, no container."""
        if self._faulty:
            self.fault("heal")
        if self.plan.docker and (containers := self.docker("ps", "--all", "--quiet").split()):
            self.docker("rm", "--force", *containers)

    def use(self, accelerator: Accelerator) -> None:
        """Pretend to have another accelerator."""
        use_accelerator(self._parts, accelerator)
