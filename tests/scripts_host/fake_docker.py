"""A `docker` program whose containers are processes of this machine, so that what runs in them runs for real."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.scripts_host.scratch_host import ScratchHost, end_group, eventually, is_alive

FAULTS = {
    "denied": "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
    "down": "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    "broken": "Error response from daemon: something odd",
}


class FakeDocker:
    """What a test sees of it, and sets up."""

    def __init__(self, host: ScratchHost, name: str = "docker") -> None:
        self.root = host.root / "docker"
        (self.root / "containers").mkdir(parents=True)
        host.program(name, f'exec "{sys.executable}" -S -E "{Path(__file__).with_name("fake_docker_program.py")}" "{self.root}" "$@"')
        self.inside()
        self.image("img:1")

    def inside(self, *folders: Path) -> None:
        """Where containers find programs, before those of this machine."""
        (self.root / "path").write_text(os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"]))

    def image(self, name: str, entrypoint: list[str] | None = None) -> None:
        """An image that is here."""
        path = self.root / "images.json"
        images = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**images, name: entrypoint}))

    def fault(self, what: str) -> None:
        """Let every call fail from now on, or never answer (`hang`)."""
        (self.root / "fault").write_text(FAULTS.get(what, what))

    def fail(self, verb: str, message: str) -> None:
        """Let calls of one verb (`run`, `rm`, …) fail with these words."""
        (self.root / f"fail.{verb}").write_text(message)

    def container(self, name: str, *, labels: dict[str, str] | None = None, code: int | None = 0, oom: bool = False, log: str = "") -> str:
        """One that is there already: dead with an exit code, or alive (None)."""
        number = len(self.containers()) + 1
        made = f"{number:064x}"
        meta = {
            "id": made,
            "name": name,
            "labels": labels or {},
            "image": "old:1",
            "exit": code,
            "oom": oom,
            "pid": os.getpid() if code is None else 0,
        }
        (self.root / "containers" / f"{made}.json").write_text(json.dumps(meta))
        (self.root / "containers" / f"{made}.log").write_text(log)
        return made

    def containers(self) -> dict[str, dict[str, Any]]:
        """All of them by name."""
        found = [json.loads(path.read_text()) for path in sorted((self.root / "containers").glob("*.json"))]
        return {meta["name"]: meta for meta in found}

    def calls(self, verb: str) -> list[list[str]]:
        """The words of every call of a verb."""
        log = self.root / "calls"
        every = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [words for words in every if words[0] == verb]

    def log(self, name: str) -> str:
        """What a container has printed."""
        return (self.root / "containers" / f"{self.containers()[name]['id']}.log").read_text()

    def exit_code(self, name: str) -> int:
        """Waits for the end of a container."""
        told = self.root / "containers" / f"{self.containers()[name]['id']}.exit"
        eventually(told.exists, f"end of {name}")
        return int(told.read_text())

    def crash(self, name: str) -> None:
        """The main process of a container is killed."""
        os.kill(self.containers()[name]["pid"], signal.SIGKILL)
        self.exit_code(name)

    def forget(self, name: str) -> None:
        """A container is removed behind everybody's back."""
        (self.root / "containers" / f"{self.containers()[name]['id']}.json").unlink()

    def close(self) -> None:
        """End every process of a container."""
        for meta in self.containers().values():
            if meta["pid"] not in (0, os.getpid()) and is_alive(meta["pid"]):
                end_group(meta["pid"])
