"""Docker on a host in memory: containers that answer the same scripts by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Protocol

from sparkrun.core.remote import ScriptCall
from sparkrun.testing.answers import lines, section
from sparkrun.testing.images import IMAGE_SCRIPTS, FakeImages

TROUBLE = {
    "docker_missing": (3, "docker is not installed on {host}"),
    "docker_denied": (4, "this user may not use docker on {host}"),
    "docker_down": (5, "the docker daemon does not run on {host}"),
    "docker_silent": (6, "docker does not answer on {host}"),
}
"""Exit code and message of the scripts for each reason why docker cannot be asked."""

Answer = tuple[int, str]


class EngineHost(Protocol):
    """What the containers of a host share with it."""

    name: str
    ports: dict[int, tuple[int, str]]
    dies_with: int | None
    engine_log: list[str]


class FakeContainer:
    """One container. ``words`` are those of ``docker run`` that started it."""

    def __init__(self, call: ScriptCall, made: str) -> None:
        self.name = str(call.params["NAME"])
        self.id = made
        self.words = tuple(call.params["RUN"])
        self.image = str(call.params["IMAGE"])
        self.launch = str(call.params["LAUNCH"])
        self.labels = _labels(self.words)
        self.secret_env = tuple(call.secrets.get("SECRET_ENVS", ()))
        self.state = "waiting"
        """``waiting`` at its gate, ``running``, or ``exited``."""
        self.exit_code: int | None = None
        self.oom = False
        self.log: list[str] = []
        self.hooks: list[str] = []
        """Every command that was run in it."""

    @property
    def alive(self) -> bool:
        """Whether it has processes, be it only its gate."""
        return self.state != "exited"

    @property
    def job(self) -> dict[str, object]:
        """What it says of itself."""
        found: dict[str, object] = json.loads(self.labels.get("sparkrun.job", "{}"))
        return found


class FakeDocker:
    """State that a test sets up, and the answers of the docker scripts.

    ``trouble`` is why docker cannot be asked, a key of ``TROUBLE``. ``lacks`` are images that are not here; any other is.
    ``altered`` are those of which this host has one of its own making, ``renamed`` those whose id alone is another.
    ``hook`` decides the exit code of a command that is run in a container, by container and command.
    """

    def __init__(self, host: EngineHost) -> None:
        self.containers: dict[str, FakeContainer] = {}
        self.trouble: str | None = None
        self.lacks: set[str] = set()
        self.altered: set[str] = set()
        self.renamed: set[str] = set()
        self.builds: list[ScriptCall] = []
        """Every build that was asked for."""
        self.build_log: list[str] = ["#1 [internal] load build definition", "#9 exporting to image"]
        """What a build prints."""
        self.build_fails: str | None = None
        """Why builds fail, if they do."""
        self.device_access: dict[str, str] = {"DOCKER_GPU_HOOK": "1"}
        """How it hands out NVIDIA's devices, as a look at the host says."""
        self.hook: Callable[[str, str], int] = lambda _name, _command: 0
        self.refuses: Callable[[tuple[str, ...]], str | None] = lambda _words: None
        """Why ``docker run`` would not take these words, if it would not."""
        self.hook_output: list[str] = []
        """What a hook that fails has printed."""
        self.images_here = FakeImages(self._containers_of)
        """Its images as the commands on them see them; a launch asks ``lacks``."""
        self._host = host
        self._stays: set[str] = set()
        self._made = 0

    def keep(self, name: str) -> None:
        """Let a container survive every attempt to stop it."""
        self._stays.add(name)

    def crash(self, name: str, code: int = 1, *, oom: bool = False, says: str = "") -> None:
        """End a container's engine."""
        container = self.containers[name]
        container.state, container.exit_code, container.oom = "exited", code, oom
        container.log += [says] if says else []
        self._close_ports(container)

    def answers(self, script: str) -> Callable[[ScriptCall], Answer] | None:
        """What answers a script, ``None`` for one that is not about containers."""
        about_images = script in IMAGE_SCRIPTS
        handler: Callable[[ScriptCall], Answer] | None = self.images_here.answer if about_images else getattr(self, f"_{script}", None)
        return handler if self.trouble is None or not (about_images or script.startswith("docker_")) else self._refuse

    def facts(self) -> dict[str, str]:
        """Section ``DOCKER`` of a look at the host."""
        present = "0" if self.trouble == "docker_missing" else "1"
        if self.trouble is None:
            return {"DOCKER_PRESENT": present, "DOCKER_USABLE": "1", "DOCKER_VERSION": "28.0.0", **self.device_access}
        return {"DOCKER_PRESENT": present, "DOCKER_USABLE": "0", "DOCKER_REASON": TROUBLE[self.trouble][1].format(host=self._host.name)}

    def workloads(self) -> str:
        """What a look at the host says of containers."""
        shown = self.containers.values() if self.trouble is None else ()
        return "".join(section("WORKLOAD", {"EXECUTOR": "docker", **self._workload(container)}) for container in shown)

    def images(self, asked: Iterable[str]) -> list[tuple[str, str]]:
        """What a look at the host says of images."""
        if self.trouble is not None:
            return []
        return [
            ("IMAGE_MISSING", name) if name in self.lacks else ("IMAGE_HERE", f"{name} {self._image(name)} arm64 4200000000")
            for name in asked
        ]

    def _image(self, name: str) -> str:
        return f"{self._layer(name)}{'-renamed' if name in self.renamed else ''}"

    def _layer(self, name: str) -> str:
        return f"sha256:{name}{'-altered' if name in self.altered else ''}"

    def _docker_pull(self, call: ScriptCall) -> Answer:
        self.lacks.discard(str(call.params["IMAGE"]))
        return 0, section("PULL", {"IMAGE_ID": f"sha256:{call.params['IMAGE']}"})

    def _docker_stock(self, call: ScriptCall) -> Answer:
        here = [name for name in call.params["IMAGES"] if name not in self.lacks]
        found = [("IMAGE", f"{name}\t{self._image(name)}\t4200000000\t\tsha256:base,{self._layer(name)},\t") for name in here]
        held = [("HELD", f"sha256:base,{self._layer(name)},") for name in here]
        return 0, section("STOCK", [("STORE", "overlay2"), ("ROOT", "/var/lib/docker"), ("ROOT_FREE_KIB", "1000000000"), *found, *held])

    def _docker_load(self, call: ScriptCall) -> Answer:
        self.lacks.discard(str(call.params["IMAGE"]))
        self.altered.discard(str(call.params["IMAGE"]))
        return 0, section("LOAD", {"IMAGE_ID": f"sha256:{call.params['IMAGE']}"})

    def _eugr_build(self, call: ScriptCall) -> Answer:
        self.builds.append(call)
        said = [("STAGE", "clone"), ("COMMIT", "0" * 40), ("STAGE", "docker build"), *(("LINE", line) for line in self.build_log)]
        if self.build_fails is not None:
            return 1, section("BUILD", said) + _refusal("failed", self.build_fails)
        image = str(call.params["IMAGE"])
        self.lacks.discard(image)
        return 0, section("BUILD", [*said, ("BUILT", "1"), ("IMAGE_ID", f"sha256:{image}")])

    def _docker_start(self, call: ScriptCall) -> Answer:
        name, image = str(call.params["NAME"]), str(call.params["IMAGE"])
        old, trial = self.containers.get(name), call.params.get("TRIAL") == "1"
        if old and old.alive and not trial:
            return 11, _refusal("running", f"container {name} already runs on {self._host.name}")
        if image in self.lacks:
            return 12, _refusal("no_image", f"image {image} is not on {self._host.name}")
        if reason := self.refuses(tuple(call.params["RUN"])):
            return 7, _refusal("docker_failed", f"docker on {self._host.name}: {reason}")
        if trial:
            return 0, section("LAUNCH", {"NAME": name})
        self._made += 1
        container = self.containers[name] = FakeContainer(call, f"{self._made:064x}")
        gated = call.params.get("GATED") == "1"
        if not gated:
            self._become_engine(container)
        return 0, section("LAUNCH", {"NAME": name, "CONTAINER_ID": container.id, "GATE": "waiting" if gated else "open"})

    def _docker_gate(self, call: ScriptCall) -> Answer:
        container = self.containers.get(str(call.params["NAME"]))
        if container is None:
            return 9, _refusal("gone", f"there is no container {call.params['NAME']} on {self._host.name} any more")
        if container.state == "exited":
            return 9, _refusal("died", f"container {container.name} on {self._host.name} ended at its gate")
        if container.state == "waiting":
            self._become_engine(container)
        return 0, section("GATE", {"NAME": container.name, "GATE": "passed"})

    def _docker_exec(self, call: ScriptCall) -> Answer:
        name, command = str(call.params["NAME"]), str(call.params["COMMAND"])
        container = self.containers.get(name)
        if container is None or not container.alive:
            return 8, _refusal("not_running", f"container {name} on {self._host.name} does not run")
        container.hooks.append(command)
        code = self.hook(name, command)
        if code:
            message = f"it ended with exit code {code}"
            said = [("HEAD", line) for line in self.hook_output]
            return 1, section("EXEC", [*said, ("EXIT_CODE", str(code)), ("REASON", "failed"), ("MESSAGE", message)])
        return 0, section("EXEC", {"NAME": name, "EXIT_CODE": "0"})

    def _docker_copy(self, call: ScriptCall) -> Answer:
        name = str(call.params["NAME"])
        container = self.containers.get(name)
        if container is None or not container.alive:
            return 8, _refusal("not_running", f"container {name} on {self._host.name} does not run")
        container.hooks.append(f"copy to {call.params['DEST']}")
        return 0, section("COPY", {"NAME": name, "DEST": str(call.params["DEST"])})

    def _docker_stop(self, call: ScriptCall) -> Answer:
        results = [(name, self._stop(name, str(call.params.get("ONLY_LAUNCH") or ""))) for name in call.params["NAMES"]]
        survived = [name for name, result in results if result == "SURVIVED"]
        text = "".join(section("STOP", {"NAME": name, "RESULT": result}) for name, result in results)
        message = lines({"MESSAGE": f"container {survived[0]} on {self._host.name} cannot be removed"}) if survived else ""
        return (1 if survived else 0), text + message

    def _docker_status(self, call: ScriptCall) -> Answer:
        names = tuple(call.params.get("NAMES", ()))
        shown = [container for container in self.containers.values() if not names or container.name in names]
        missing = [("MISSING", name) for name in names if name not in self.containers]
        head = section("WORKLOADS", [("COUNT", str(len(shown))), *missing])
        return 0, head + "".join(section("WORKLOAD", self._workload(container)) for container in shown)

    def _docker_logs(self, call: ScriptCall) -> Answer:
        container = self.containers.get(str(call.params["NAME"]))
        if container is None:
            return 8, ""
        dated = call.params.get("DATED") == "1"
        log = [f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}.000000001Z {line}" if dated else line for at, line in enumerate(container.log)]
        kept = log[int(str(call.params.get("SKIP") or "0")) :]
        last = str(call.params.get("LINES") or "")
        return 0, "".join(f"{line}\n" for line in (kept[-int(last) :] if last else kept))

    def _docker_evidence(self, call: ScriptCall) -> Answer:
        container = self.containers.get(str(call.params["NAME"]))
        if container is None:
            return 8, _refusal("no_container", f"there is no container {call.params['NAME']} on {self._host.name}")
        code = [("EXIT_CODE", str(container.exit_code))] if container.state == "exited" else []
        oom = [("OOM_KILLED", "1"), ("OOM_HINT", "the kernel killed it for lack of memory")] if container.oom else []
        return 0, section("EVIDENCE", [("NAME", container.name), *code, *oom, *(("LOG", line) for line in container.log)])

    def _guard(self, call: ScriptCall) -> Answer:
        container = self.containers.get(str(call.params.get("WATCH_CONTAINER") or ""))
        if container is None or container.alive:
            return 0, section("GUARD", {"ELAPSED_MS": "10"})
        message = f"container {container.name} ended with exit code {container.exit_code} before it was ready"
        return 1, section("GUARD", {"READY": "0", "REASON": "died", "MESSAGE": message, "EXIT_CODE": str(container.exit_code)})

    def _wait_port(self, call: ScriptCall) -> Answer:
        return self._waited(call, {"OPEN_MS": "10"})

    def _waited(self, call: ScriptCall, found: dict[str, str]) -> Answer:
        watched = str(call.params.get("WATCH_CONTAINER") or "")
        container = self.containers.get(watched)
        if watched and (container is None or not container.alive):
            code = {"EXIT_CODE": str(container.exit_code)} if container else {}
            return 1, section("WAIT", {**code, "READY": "0", "REASON": "died", "MESSAGE": f"container {watched} ended before it was ready"})
        return 0, section("WAIT", {**found, "READY": "1"})

    def _containers_of(self, image: str) -> list[tuple[str, str]]:
        return [(container.name, container.state) for container in self.containers.values() if container.image == image]

    def _refuse(self, call: ScriptCall) -> Answer:
        del call
        assert self.trouble is not None
        code, message = TROUBLE[self.trouble]
        return code, _refusal(self.trouble, message.format(host=self._host.name))

    def _become_engine(self, container: FakeContainer) -> None:
        container.log += self._host.engine_log
        container.state, container.exit_code = ("running", None) if self._host.dies_with is None else ("exited", self._host.dies_with)
        port = container.job.get("port")
        if container.alive and isinstance(port, int) and container.job.get("rank") == 0:
            self._host.ports[port] = (_pid(container), "docker")

    def _stop(self, name: str, launch: str) -> str:
        container = self.containers.get(name)
        if container is None:
            return "GONE"
        if launch and container.launch != launch:
            return "OTHER_LAUNCH"
        if name in self._stays:
            return "SURVIVED"
        self._close_ports(container)
        del self.containers[name]
        return "STOPPED"

    def _close_ports(self, container: FakeContainer) -> None:
        for port in [port for port, holder in self._host.ports.items() if holder == (_pid(container), "docker")]:
            del self._host.ports[port]

    def _workload(self, container: FakeContainer) -> dict[str, str]:
        answers = {
            "NAME": container.name,
            "STATE": "running" if container.alive else "exited",
            "OWNER": container.labels.get("sparkrun.distribution", ""),
            "CLUSTER_ID": container.labels.get("sparkrun.cluster_id", ""),
            "LAUNCH": container.launch,
            "CONTAINER_ID": container.id,
            "IMAGE": container.image,
            "LABELS": json.dumps(container.job),
            "ALLOCATIONS": container.labels.get("sparkrun.gpu_allocations", ""),
            "GATE": "waiting" if container.state == "waiting" else "passed",
        }
        if not container.alive:
            return {**answers, "EXIT_CODE": str(container.exit_code)}
        port = {"PORT_STATE": "listening", "HEALTH": "200"} if container.state == "running" and container.job.get("rank") == 0 else {}
        return {**answers, "PID": str(_pid(container)), "UPTIME_S": "5", **port}


def _labels(words: tuple[str, ...]) -> dict[str, str]:
    pairs = (words[at + 1].partition("=") for at, word in enumerate(words) if word == "--label")
    return {name: value for name, _equals, value in pairs}


def _pid(container: FakeContainer) -> int:
    return 20000 + int(container.id, 16)


def _refusal(reason: str, message: str) -> str:
    return lines({"REASON": reason, "MESSAGE": message})
