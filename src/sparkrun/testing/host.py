"""One host in memory: its hardware, its files, its processes, and the answers it gives to scripts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path

from sparkrun.core.remote import Params, ScriptCall
from sparkrun.testing.answers import lines, section
from sparkrun.testing.docker import FakeDocker
from sparkrun.testing.hub_cache import CACHE_SCRIPTS, NOW_S, FakeHubCache

GIB = 1024**3
COMMIT = "0123456789abcdef0123456789abcdef01234567"

MODEL_FILES = {"config.json": 200, "model.safetensors": 800}
"""The files of every model, by size in bytes."""


class FakeProcess:
    """A workload's process. ``log`` is what the engine has said; ``dies_with`` makes it end before it is ready."""

    def __init__(self, name: str, params: Params, pid: int, *, log: Iterable[str] = ()) -> None:
        self.name = name
        self.params = params
        self.pid = pid
        self.log = list(log)
        self.exit_code: int | None = None
        labels = json.loads(str(params.get("LABELS", "{}")))
        self.labels: dict[str, object] = labels

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.exit_code is None


class FakeHost:
    """State that a test sets up, and ``answer``: what the real script would print.

    ``refuse(script)`` lets a script fail; ``dies_with`` is the exit code with which the next engine ends instead of becoming ready.
    ``fabric`` is what it answers about its network, ``cache`` its models of the hub as the commands on caches see them.
    """

    def __init__(self, name: str, *, gpus: int = 0, memory_bytes: int = 121 * GIB) -> None:
        self.name = name
        self.gpus = gpus
        self.gpu_name = "NVIDIA GB10"
        """As nvidia-smi says."""
        self.memory_bytes = memory_bytes
        self.available_bytes: int | None = None
        """What of the memory is available; all of it, until a test says otherwise."""
        self.programs: dict[str, str] = {"llama-server": "/usr/bin/llama-server"}
        self.models: dict[str, str] = {}
        """Paths by what recipes call a model."""
        self.revisions: dict[str, str] = {}
        """Branches and tags of its models besides the main one: commit by name."""
        self.attention_heads: int | None = None
        self.model_config = ""
        """The text of the model's ``config.json``; ``weight_bytes`` is the size of its weights."""
        self.weight_bytes: int | None = None
        self.hub = "/home/spark/.cache/huggingface/hub"
        self.hf_home = ""
        self.tuning: dict[str, str] = {}
        """Tuning configs by path below their engine's folder: SHA-256."""
        self.kernels: dict[str, float] = {}
        """Days since the last use of each entry of the runtime cache."""
        self.cache = FakeHubCache(self.hub, f"local:{name}:1:2")
        self.arriving: set[str] = set()
        self.reaches: set[str] = set()
        """Hosts that it can log in to."""
        self.hf_free_bytes = 10**12
        self.ports: dict[int, tuple[int, str]] = {}
        self.processes: dict[str, FakeProcess] = {}
        self.docker = FakeDocker(self)
        self.fabric: dict[str, str] = {}
        self.cache_writable = True
        self.reachable = True
        self.dies_with: int | None = None
        self.never_ready: str | None = None
        self.engine_log: list[str] = ["loading model", "listening"]
        self.ran: list[ScriptCall] = []
        self._refused: dict[str, Iterator[str]] = {}
        self._hooks: dict[str, Callable[[], None]] = {}
        self._next_pid = 1000

    def refuse(self, script: str, message: str = "refused", *, reason: str = "", times: int | None = None) -> None:
        """Let a script fail from now on, or so many ``times``; ``reason`` is its ``REASON``."""
        answer = {"REASON": reason, "MESSAGE": message} if reason else {"MESSAGE": message}
        self._refused[script] = repeat(lines(answer)) if times is None else repeat(lines(answer), times)

    def on(self, script: str, hook: Callable[[], None]) -> None:
        """Call ``hook`` just before a script takes effect: to interrupt, to cut the host off, to change it."""
        self._hooks[script] = hook

    def answer(self, call: ScriptCall) -> tuple[int, str]:
        """Exit code and output of a script, and of those that follow it."""
        code, text = self._answer_one(call)
        if call.then is None or code:
            return code, text
        code, more = self.answer(call.then)
        return code, text + more

    def _answer_one(self, call: ScriptCall) -> tuple[int, str]:
        self.ran.append(call)
        if hook := self._hooks.get(call.name):
            hook()
        if refusal := next(self._refused.get(call.name, iter(())), None):
            return 1, refusal
        if call.name in CACHE_SCRIPTS:
            return self.cache.answer(call)
        handler: Callable[[ScriptCall], tuple[int, str]] = self.docker.answers(call.name) or getattr(self, f"_{call.name}")
        return handler(call)

    def _observe(self, call: ScriptCall) -> tuple[int, str]:
        engine = str(call.params.get("ENGINE", ""))
        model = str(call.params.get("MODEL", ""))
        ports = [int(port) for port in call.params.get("PORTS", ())]
        claims = call.params.get("CLAIM") == "1"
        return 0, "".join(
            (
                section("CLAIM", {"CLAIMED": "1"}) if claims else "",
                section("HOST", {**_identity(self), "SPARKRUN_CACHE_WRITABLE": "1" if self.cache_writable else "0"}),
                section("ACCEL", self._accelerators()),
                section("FABRIC", self.fabric),
                section("ENGINE", {"ENGINE_PATH": self.programs.get(engine, "")}),
                section("MODEL", self._model(model, str(call.params.get("REVISION", "")))),
                *(section("FURTHER", self._further(wanted)) for wanted in call.params.get("FURTHER", ())),
                section("TUNING", [("FILE", f"{sha256} {name}") for name, sha256 in self.tuning.items()]),
                section("PORTS", {key: value for port in ports for key, value in self._port(port).items()}),
                *(section("WORKLOAD", self._workload(process)) for process in self.processes.values()),
                section("DOCKER", [*self.docker.facts().items(), *self.docker.images(call.params.get("IMAGES", ()))]),
                self.docker.workloads(),
                section("HELD", {"LOOKED": "1"}) if claims else "",
            )
        )

    def _local_start(self, call: ScriptCall) -> tuple[int, str]:
        name = str(call.params["NAME"])
        old = self.processes.get(name)
        if old and old.alive:
            return 3, lines({"REASON": "alive", "MESSAGE": f"{name} runs already"})
        self._next_pid += 1
        process = FakeProcess(name, {**call.params, **call.secrets}, self._next_pid, log=self.engine_log)
        process.exit_code = self.dies_with
        self.processes[name] = process
        port = process.labels.get("port")
        if process.alive and isinstance(port, int):
            self.ports[port] = (process.pid, "llama-server")
        return 0, lines({"PID": str(process.pid), "LOG_FILE": f"/logs/{name}.log"})

    def _local_stop(self, call: ScriptCall) -> tuple[int, str]:
        said = []
        for name in call.params.get("NAMES", ()):
            process = self.processes.get(name)
            launch = call.params.get("ONLY_LAUNCH")
            if process is None or (launch and process.params.get("LAUNCH") != launch):
                said.append(("GONE", name))
                continue
            del self.processes[name]
            self.ports = {port: holder for port, holder in self.ports.items() if holder[0] != process.pid}
            said.append(("STOPPED", name))
        return 0, "".join(f"{word}={name}\n" for word, name in said)

    def _local_status(self, call: ScriptCall) -> tuple[int, str]:
        wanted = set(call.params.get("NAMES", ()))
        shown = [process for process in self.processes.values() if not wanted or process.name in wanted]
        return 0, "".join(section("WORKLOAD", self._workload(process)) for process in shown)

    def _local_logs(self, call: ScriptCall) -> tuple[int, str]:
        process = self.processes[str(call.params["NAME"])]
        last = str(call.params.get("LINES", ""))
        kept = process.log[-int(last) :] if last else process.log
        return 0, "".join(f"{line}\n" for line in kept[int(str(call.params.get("SKIP", "0"))) :])

    def _local_evidence(self, call: ScriptCall) -> tuple[int, str]:
        process = self.processes[str(call.params["NAME"])]
        code = "" if process.exit_code is None else str(process.exit_code)
        return 0, section("EVIDENCE", [("EXIT_CODE", code), *(("LOG", line) for line in process.log)])

    def _ready(self, call: ScriptCall) -> tuple[int, str]:
        process = self.processes.get(str(call.params.get("WATCH_NAME", "")))
        watched = process or self.docker.containers.get(str(call.params.get("WATCH_CONTAINER", "")))
        if watched is None or not watched.alive:
            return 1, section("READY", {"STAGE": "port", "READY": "0", "REASON": "died"})
        if self.never_ready:
            return 1, section("READY", {"READY": "0", "REASON": self.never_ready})
        return 0, section("READY", {"STAGE": "port", "PORT_OPEN_MS": "40", "HEALTH_MS": "50", "FIRST_TOKEN_MS": "90", "READY": "1"})

    def _transfer_lock(self, call: ScriptCall) -> tuple[int, str]:
        del call
        return 0, section("LOCK", {"HELD": "1"})

    def _reach(self, call: ScriptCall) -> tuple[int, str]:
        first = {way.split("\t")[0]: way.split("\t")[1:3] for way in reversed(call.params["WAYS"])}
        found = [("REACHED", f"{name}\t{kind}\t{address}\t9") for name, (kind, address) in first.items() if name in self.reaches]
        return 0, section("REACH", found)

    def _hub_stock(self, call: ScriptCall) -> tuple[int, str]:
        repo = str(call.params["REPO"])
        path = next((path for name, path in self.models.items() if name.partition(":")[0] == repo), "")
        commit = path.partition("/snapshots/")[2].partition("/")[0]
        found = [("FREE_KIB", str(self.hf_free_bytes // 1024))]
        if commit:
            found += [("REF", f"{name}\t{named}") for name, named in {"main": commit, **self.revisions}.items()]
            found += [("FILE", f"{size}\t{commit}/{name}\t{name}") for name, size in MODEL_FILES.items()]
            found += [("BLOB", f"{size}\t{name}") for name, size in MODEL_FILES.items()]
        return 0, section("STOCK", found)

    def _runtime_cache(self, call: ScriptCall) -> tuple[int, str]:
        days = int(str(call.params["PRUNE_MINUTES"])) / (24 * 60)
        entries = [("ENTRY", f"1000 {NOW_S - age * 86400:.0f} {path}") for path, age in self.kernels.items()]
        stale = [path for path, age in self.kernels.items() if age > days]
        gone = stale if call.params.get("APPLY") == "1" else []
        self.kernels = {path: age for path, age in self.kernels.items() if path not in gone}
        told = [*entries, *(("STALE", path) for path in stale), *(("REMOVED", path) for path in gone)]
        return 0, section("RUNTIME_CACHE", [("ROOT", "/home/spark/.cache/sparkrun/runtime-cache"), ("NOW", str(NOW_S)), *told])

    def _hub_receive(self, call: ScriptCall) -> tuple[int, str]:
        self.arriving.add(str(call.params["REPO"]))
        return 0, section("RECEIVE", {"FILES": str(len(call.params["ENTRIES"]))})

    def _hub_keep(self, call: ScriptCall) -> tuple[int, str]:
        repo = str(call.params["REPO"])
        if repo not in self.arriving and repo not in self.models:
            return 1, lines({"REASON": "failed", "MESSAGE": f"nothing of {repo} has arrived"})
        commit = str(call.params["SNAPSHOT"])
        self.revisions |= dict.fromkeys(call.params.get("REFS", ()), commit)
        return self._keep(repo, commit)

    def _keep(self, repo: str, commit: str) -> tuple[int, str]:
        self.arriving.discard(repo)
        self.models[repo] = f"{self.hub}/models--{repo.replace('/', '--')}/snapshots/{commit}"
        return 0, section("KEEP", {"FOLDER": self.hub})

    def _tuning_receive(self, call: ScriptCall) -> tuple[int, str]:
        _tar, _folder, root, _pack, _out, _names, *names = call.feed
        if _names == "--":
            self.tuning |= {name: hashlib.sha256(Path(root, name).read_bytes()).hexdigest() for name in names}
        for name in call.params["DROP"]:
            self.tuning.pop(name, None)
        return 0, section("TUNING", {"RECEIVED": str(len(names)), "FOLDER": str(call.params["RUNTIME"])})

    def _hub_download(self, call: ScriptCall) -> tuple[int, str]:
        revision = str(call.params.get("REVISION", ""))
        commit = revision if len(revision) == len(COMMIT) else COMMIT
        self.revisions |= {revision: commit} if revision else {}
        return self._keep(str(call.params["REPO"]), commit)

    def _accelerators(self) -> dict[str, str]:
        answers = {"NVIDIA_PRESENT": "1" if self.gpus else "0", "NVIDIA_GPU_COUNT": str(self.gpus)}
        for index in range(self.gpus):
            answers |= {f"NVIDIA_GPU_{index}_NAME": self.gpu_name, f"NVIDIA_GPU_{index}_MEMORY_MIB": "[N/A]"}
        return answers

    def _further(self, wanted: str) -> dict[str, str]:
        model, _tab, revision = wanted.partition("\t")
        return {"MODEL": model, **self._model(model, revision)}

    def _model(self, model: str, revision: str = "") -> dict[str, str]:
        path = self.models.get(model)
        if path and revision and f"/snapshots/{self.revisions.get(revision, revision)}" not in path:
            return {"MODEL_KIND": "hub", "MODEL_REASON": f"the hub cache has no snapshot of revision {revision} of it"}
        if path:
            heads = {"MODEL_ATTENTION_HEADS": str(self.attention_heads)} if self.attention_heads else {}
            weights = {} if self.weight_bytes is None else {"MODEL_WEIGHT_BYTES": str(self.weight_bytes)}
            config = {"MODEL_CONFIG": self.model_config.replace("\n", "")} if self.model_config else {}
            return {"MODEL_KIND": "path", "MODEL_PATH": path, "MODEL_SIZE_BYTES": "1000", **heads, **weights, **config}
        return {"MODEL_KIND": "none", "MODEL_REASON": "no such file"}

    def _port(self, port: int) -> dict[str, str]:
        holder = self.ports.get(port)
        if holder is None:
            return {f"PORT_{port}_STATE": "free"}
        return {f"PORT_{port}_STATE": "busy", f"PORT_{port}_PID": str(holder[0]), f"PORT_{port}_PROCESS": holder[1]}

    def _workload(self, process: FakeProcess) -> dict[str, str]:
        answers = {
            "NAME": process.name,
            "CLUSTER_ID": str(process.params.get("CLUSTER_ID", "")),
            "OWNER": "sparkrun",
            "STATE": "running" if process.alive else "exited",
            "PID": str(process.pid),
            "LABELS": json.dumps(process.labels),
        }
        if process.alive:
            return {**answers, "UPTIME_S": "5", "PORT_STATE": "listening", "HEALTH": "200"}
        return {**answers, "EXIT_CODE": str(process.exit_code)}


def _identity(host: FakeHost) -> dict[str, str]:
    kib = str(host.memory_bytes // 1024)
    return {
        "HOSTNAME": host.name,
        "USER": "spark",
        "HOME": "/home/spark",
        "ARCH": "aarch64",
        "CPUS": "20",
        "MEM_TOTAL_KIB": kib,
        "MEM_AVAILABLE_KIB": kib if host.available_bytes is None else str(host.available_bytes // 1024),
        "SPARKRUN_CACHE": "/home/spark/.cache/sparkrun",
        "HF_HUB_CACHE": host.hub,
        "HF_CACHE": host.hf_home,
        "HF_CACHE_ID": host.cache.cache_id,
    }
