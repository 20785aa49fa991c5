"""The bash that runs on hosts: which scripts there are, what each takes, and the text that `bash -s` is fed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sparkrun.utils.shell import Params, assignments

_FOLDER = Path(__file__).parent


class ScriptSpec(NamedTuple):
    """What a script is made of and takes. A parameter that is not given is empty there; the script's header says what that means."""

    prelude: tuple[str, ...]
    texts: tuple[str, ...]
    arrays: tuple[str, ...] = ()


_HTTP = ("common", "workload", "net", "http")
_LOCAL = ("common", "workload")
_DOCKER = ("common", "docker")
_HUB = ("common", "hub")
_PLACE = ("common", "hub_place")
_UPKEEP = ("HUB", "MODEL_FOLDER", "RUNTIME_CACHE", "RUNTIME_CACHES", "PRUNE_MINUTES", "DROP_CACHES")
_WAIT = (*_HTTP, "docker", "watch")
SCRIPTS: dict[str, ScriptSpec] = {
    "observe": ScriptSpec(
        (*_LOCAL, "net", "hub_place", "model", "fabric", "docker", "containers", "claim"),
        (
            "MODEL", "REVISION", "HF_HOME_OVERRIDE", "PYTHON", "ENGINE", "CACHE", "SYSFS", "TUNING", "CLAIM", "CLAIM_FILE", "CLAIM_WAIT_S",
            "LIFELINE",
        ),
        ("PORTS", "IMAGES", "FURTHER", "CDI_DIRS"),
    ),
    "local_start": ScriptSpec(
        (*_LOCAL, "docker", "upkeep"),
        (
            "NAME", "CLUSTER_ID", "OWNER", "LAUNCH", "COMMAND", "WORKING_DIR", "ENV_FILE", "COMMAND_PREFIX", "LOG_DIR", "LOG_FILE",
            "PID_DIR", "PID_FILE", "ALLOCATIONS", "LABELS", *_UPKEEP, "CACHE", "WAIT_EARLY_S",
        ),
        ("ENVS", "SECRET_ENVS"),
    ),
    "local_stop": ScriptSpec(_LOCAL, ("GRACE_S", "OWNER", "ONLY_LAUNCH", "CACHE"), ("NAMES",)),
    "local_status": ScriptSpec((*_HTTP, "health"), ("CACHE",), ("NAMES",)),
    "local_logs": ScriptSpec(_LOCAL, ("NAME", "LINES", "SKIP", "FOLLOW", "LIFELINE", "CACHE")),
    "local_evidence": ScriptSpec(_LOCAL, ("NAME", "LINES", "CACHE")),
    "docker_start": ScriptSpec(
        (*_DOCKER, "seccomp", "gate", "upkeep"),
        (
            "NAME", "LAUNCH", "OWNER", "IMAGE", "GATE", "GATED", "GATE_TIMEOUT_S", "FIXED_ENTRYPOINT", "RESTARTS", "TRIAL",
            "MISSING_SOURCE", *_UPKEEP, "CACHE",
        ),
        ("RUN", "SECRET_ENVS", "DEAD", "CREATE", "CHECKED"),
    ),
    "docker_gate": ScriptSpec(_DOCKER, ("NAME", "GATE", "CACHE")),
    "docker_copy": ScriptSpec(_DOCKER, ("NAME", "DEST", "ARCHIVE")),
    "docker_pull": ScriptSpec(_DOCKER, ("IMAGE", "PATIENCE_S", "IDLE_S", "SYSFS", "DISKSTATS", "LIFELINE")),
    "eugr_build": ScriptSpec(_DOCKER, ("IMAGE", "REPO", "REF", "REBUILD", "LIFELINE", "CACHE"), ("ARGS", "SMOKE")),
    "docker_load": ScriptSpec(_DOCKER, ("IMAGE",)),
    "tuning_receive": ScriptSpec(("common",), ("RUNTIME", "CACHE"), ("DROP",)),
    "docker_stock": ScriptSpec(_DOCKER, (), ("IMAGES",)),
    "hub_stock": ScriptSpec(_HUB, ("HUB", "REPO")),
    "hub_receive": ScriptSpec(_HUB, ("HUB", "REPO"), ("ENTRIES",)),
    "hub_keep": ScriptSpec(_HUB, ("HUB", "REPO", "SNAPSHOT"), ("LINKS", "REFS")),
    "transfer_lock": ScriptSpec(("common",), ("LIFELINE",), ("LOCKS",)),
    "reach": ScriptSpec(("common",), (), ("WAYS",)),
    "relay": ScriptSpec(("common",), ("TEXT", "SINK", "FEED", "LIFELINE", "IDLE_S", "FINISH_S"), ("HOSTS", "VALUES", "WAYS")),
    "hub_download": ScriptSpec(
        (*_HUB, "docker"),
        ("HUB", "REPO", "REVISION", "IMAGE", "TOKEN", "PYTHON", "ENDPOINT", "IDLE_S", "LIFELINE"),
        ("PATTERNS", "EXCLUDED", "IGNORED"),
    ),
    "runtime_cache": ScriptSpec((*_DOCKER, "upkeep"), ("RUNTIME_CACHES", "PRUNE_MINUTES", "APPLY", "CACHE")),
    "cache_identity": ScriptSpec(_PLACE, ("HF_HOME_OVERRIDE", "MARK")),
    "model_cache": ScriptSpec(_PLACE, ("HF_HOME_OVERRIDE", "MARK")),
    "model_verify": ScriptSpec(("common",), ("HUB", "JOBS", "LIFELINE"), ("WANTED",)),
    "model_change": ScriptSpec(_PLACE, ("HUB", "PIN", "NOTE", "UNPIN"), ("REMOVE", "MISSING", "BRINGING")),
    "image_cache": ScriptSpec(_DOCKER, ("CACHE",)),
    "image_change": ScriptSpec(_DOCKER, ("PIN", "NOTE", "UNPIN", "CACHE"), ("REMOVE", "BRINGING")),
    "image_verify": ScriptSpec(_DOCKER, ("LIFELINE",), ("IMAGES",)),
    "docker_exec": ScriptSpec(
        _DOCKER,
        ("NAME", "COMMAND", "USER_NAME", "FOLDER", "TIMEOUT_S", "HEAD", "TAIL", "LIFELINE", "CACHE"),
        ("ENVS", "SECRET_ENVS"),
    ),
    "docker_stop": ScriptSpec(_DOCKER, ("GRACE_S", "OWNER", "ONLY_LAUNCH", "CACHE"), ("NAMES",)),
    "docker_status": ScriptSpec((*_DOCKER, "containers", "net", "http", "health"), ("CACHE",), ("NAMES",)),
    "docker_logs": ScriptSpec(_DOCKER, ("NAME", "LINES", "SKIP", "SINCE", "DATED", "FOLLOW", "LIFELINE")),
    "docker_evidence": ScriptSpec(_DOCKER, ("NAME", "LINES", "CACHE")),
    "wait_port": ScriptSpec(_WAIT, ("HOST", "PORT", "TIMEOUT_S", "WATCH_NAME", "WATCH_CONTAINER", "LIFELINE", "CACHE")),
    "guard": ScriptSpec(_WAIT, ("WATCH_NAME", "WATCH_CONTAINER", "LIFELINE", "CACHE")),
    "ready": ScriptSpec(
        _WAIT,
        (
            "HOST", "PORT", "HEALTH_PATH", "INFERENCE", "INFERENCE_FALLBACK", "SERVED_MODEL", "PROMPT", "API_KEY", "PORT_TIMEOUT_S",
            "HEALTH_TIMEOUT_S", "INFERENCE_TIMEOUT_S", "WATCH_NAME", "WATCH_CONTAINER", "POLL_MS", "RETRY_MS", "LIFELINE", "CACHE",
        ),
    ),
}  # fmt: skip


def compose_script(name: str, params: Params) -> str:
    """The text to feed to `bash -s` on stdin: shared functions, parameters as quoted assignments, the script.

    Every parameter of the script is set, so that no variable of the host's own environment can pass for one. Raises ValueError for
    a script or parameter nobody knows, and TypeError for a text where an array belongs or the other way round.
    """
    return compose_scripts([(name, params)])


def compose_scripts(scripts: Sequence[tuple[str, Params]]) -> str:
    """The same for several scripts: each begins once the one before has succeeded, and one that fails ends them all with its exit code."""
    *first, last = ["\n".join([*_prelude(name), *split_script(name, params)]) for name, params in scripts]
    # No `||` behind the parentheses: bash would not heed `set -e` inside them.
    return _at_once("".join([*(f'(\n{text})\nREPLY=$?\n((REPLY == 0)) || exit "$REPLY"\n' for text in first), last]))


def split_script(name: str, params: Params) -> tuple[str, str]:
    """The assignments of a script's parameters, and the script itself with nothing before it. Raises as ``compose_script`` does."""
    spec = _spec(name)
    _check(name, spec, params)
    values = {**dict.fromkeys(spec.texts, ""), **dict.fromkeys(spec.arrays, ()), **params}
    # A parameter that the host exports under the same name would otherwise reach the engine's environment.
    return f"export -n {' '.join(values)}\n{assignments(values)}", f"{load_script(name)}\nexit\n"


def whole_script(name: str) -> str:
    """A script with its prelude, to stand behind assignments that somebody else writes."""
    return "\n".join([*_prelude(name), split_script(name, {})[1]])


def _prelude(name: str) -> list[str]:
    return [load_script(part) for part in _spec(name).prelude]


@cache
def load_script(name: str) -> str:
    """The text of a script, or of a part that stands before others, as it is in the package. Raises ValueError for an unknown name."""
    known = {*SCRIPTS, *(part for spec in SCRIPTS.values() for part in spec.prelude)}
    if name not in known:
        raise ValueError(f"unknown script {name!r} (known: {', '.join(sorted(known))})")
    return (_FOLDER / f"{name}.sh").read_text(encoding="utf-8")


def _spec(name: str) -> ScriptSpec:
    if name not in SCRIPTS:
        raise ValueError(f"unknown script {name!r} (known: {', '.join(sorted(SCRIPTS))})")
    return SCRIPTS[name]


def _check(name: str, spec: ScriptSpec, params: Params) -> None:
    for key, value in params.items():
        if key not in spec.texts and key not in spec.arrays:
            raise ValueError(f"script {name} takes no parameter {key!r} (known: {', '.join((*spec.texts, *spec.arrays))})")
        if isinstance(value, str) != (key in spec.texts):
            raise TypeError(f"parameter {key} of script {name} is {'one text' if key in spec.texts else 'a sequence of texts'}")


def _at_once(text: str) -> str:
    """The text behind a line that reads exactly that much in one go: bash itself reads a pipe byte by byte, and would begin to run a
    script that arrives only in part. 70 (EX_SOFTWARE of sysexits.h) is the end of one that did."""
    size = len(text.encode("utf-8", "surrogateescape"))
    return f'set +x; eval "$(head -c {size})"; exit 70\n{text}'
