"""Docker command lines. Every builder is pure and returns words.

What only the host knows (its user, whether it has InfiniBand, where its cache is) stands in them as the shell text that tells it:
the ``docker_start`` script puts the host's own value in its place, and so does a shell that ``docker_text`` is pasted into.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sparkrun.core.container_words import label_problem
from sparkrun.core.errors import ConfigError
from sparkrun.core.hardware import DEVICE_ACCESS
from sparkrun.core.placement import Allocation, allocations_label
from sparkrun.core.plan import RankPlan
from sparkrun.orchestration.docker_config import DockerSettings
from sparkrun.orchestration.executor import JobLabels
from sparkrun.orchestration.primitives import HOST_HOME, build_volumes

OWNER = "sparkrun"
"""Value of the label ``sparkrun.distribution``: containers of another owner are left alone."""
GATE_FOLDER = "/run/sparkrun"
"""Where a container finds its gate."""

HOST_USER = "$(id -u):$(id -g)"
HOST_INFINIBAND = "$(test -e /dev/infiniband && echo --device=/dev/infiniband)"
HOST_KFD_GROUP = "$(test -e /dev/kfd && stat -c --group-add=%g /dev/kfd)"
HOST_FOLDER = "$SPARKRUN_DOCKER"
"""The host's ``<sparkrun cache>/docker``."""
HOST_SECCOMP = f"seccomp={HOST_FOLDER}/seccomp.json"

_UNQUOTED = frozenset({HOST_INFINIBAND, HOST_KFD_GROUP})
_HOST_VALUES = (HOST_USER, HOST_SECCOMP)
_HOST_PLACES = (f"{HOST_FOLDER}/", f"{HOST_HOME}/")


def docker_run_cmd(rank: RankPlan, settings: DockerSettings, labels: JobLabels | None = None) -> list[str]:
    """The words that start a rank's container, detached. Raises ``ConfigError`` for a rank without an image."""
    if not rank.image:
        raise ConfigError(
            f"no container image for rank {rank.rank} on {rank.host}", hint="name one with --image, or container: in the recipe"
        )
    return [
        *("docker", "run", "-d", "--init"),
        *entrypoint_words(settings.entrypoint),
        *gpu_words(rank, settings),
        *(f"--ipc={settings.ipc}", f"--shm-size={settings.shm_size}", f"--network={settings.network}"),
        *_user_words(rank, settings),
        *_pairs("--cap-add", settings.cap_add),
        *_pairs("--ulimit", settings.ulimits(rootful=rank.rootful)),
        *_device_words(settings),
        *_seccomp_words(rank, settings),
        *(("--memory", settings.memory_limit) if settings.memory_limit else ()),
        *(("--restart", settings.restart_policy) if settings.restart_policy else ()),
        *("--name", rank.name),
        *_pairs("--label", _assigned({**docker_labels(rank, labels, settings), **_own_labels(rank, settings)})),
        *_pairs("-e", _assigned(dict(sorted(rank.env.items())))),
        *_pairs("-v", build_volumes(rank, settings)),
        *_pairs("-v", (f"{HOST_FOLDER}/{gate_name(rank.name, labels)}:{GATE_FOLDER}",)),
        *rank.docker_args,
        *(rank.image, "sh", f"{GATE_FOLDER}/gate", rank.command),
    ]


def docker_exec_cmd(
    name: str, words: Sequence[str], *, user: str | None = None, env: Mapping[str, str] | None = None, stdin: bool = False
) -> list[str]:
    """The words that run something in a running container."""
    options = [*(["-i"] if stdin else []), *(["-u", user] if user else [])]
    return ["docker", "exec", *options, *_pairs("-e", _assigned(dict(sorted((env or {}).items())))), name, *words]


def docker_stop_cmd(names: Sequence[str], *, grace_s: int = 10) -> list[str]:
    """The words that stop containers: TERM, and KILL after ``grace_s`` seconds."""
    return ["docker", "stop", "-t", str(grace_s), *names]


def docker_text(words: Iterable[str]) -> str:
    """A command line for people: it can be pasted into a shell of the host."""
    return " ".join(_shown(word) for word in words)


def gate_name(name: str, labels: JobLabels | None) -> str:
    """The folder of one launch of a container, below the host's ``<sparkrun cache>/docker``."""
    return f"{name}.{labels.launch}" if labels else name


def docker_labels(rank: RankPlan, labels: JobLabels | None, settings: DockerSettings) -> dict[str, str]:
    """What the container says of itself: one label a fact, as earlier versions wrote them, and all of it as JSON."""
    if labels is None:
        return {}
    return {
        "sparkrun.cluster_id": labels.cluster_id,
        "sparkrun.distribution": OWNER,
        "sparkrun.intent_id": labels.intent_id,
        "sparkrun.rank": str(labels.rank),
        "sparkrun.recipe": labels.recipe,
        "sparkrun.runtime": labels.runtime,
        "sparkrun.model": labels.model,
        "sparkrun.served_model_name": labels.served_model_name,
        "sparkrun.gpu_allocations": allocations_label(Allocation(rank.rank, gpu) for gpu in rank.gpus),
        "sparkrun.launch": labels.launch,
        "sparkrun.job": msgspec.json.encode(labels).decode(),
        **({"sparkrun.auto_remove": "true"} if settings.removed_when_dead else {}),
    }


def entrypoint_words(entrypoint: str | None) -> tuple[str, ...]:
    """The image's own entrypoint for ``None``, none at all for an empty text."""
    return () if entrypoint is None else ("--entrypoint", entrypoint)


def gpu_words(rank: RankPlan, settings: DockerSettings) -> Iterator[str]:
    """How the container reaches the accelerators of its host; nothing on a host without any."""
    vendor = settings.accelerator_vendor or rank.gpu_vendor or ("nvidia" if rank.gpus else None)
    if settings.gpus == ():
        return
    if vendor == "nvidia":
        yield from _nvidia_words(settings.gpus or tuple(map(str, rank.gpus)) or ("all",), settings.gpu_access_mode or rank.gpu_access_mode)
    elif access := DEVICE_ACCESS.get(vendor or ""):
        yield from (*_pairs("--device", access.nodes), *_pairs("--group-add", access.groups))
        if vendor == "amd":
            yield HOST_KFD_GROUP


def _nvidia_words(gpus: tuple[str, ...], mode: str | None) -> Iterator[str]:
    if mode == "cdi":
        yield from _pairs("--device", (f"nvidia.com/gpu={gpu}" for gpu in gpus))
        return
    # docker reads the value as CSV, so a list of devices needs quotes of its own.
    devices = f"device={','.join(gpus)}"
    yield from ("--gpus", "all" if gpus == ("all",) else devices if len(gpus) == 1 else f'"{devices}"')


def _user_words(rank: RankPlan, settings: DockerSettings) -> Iterator[str]:
    if settings.is_privileged(rootful=rank.rootful):
        yield "--privileged"
    if settings.user:
        yield from ("--user", settings.user)
    elif settings.auto_user and not rank.rootful:
        yield from ("--user", HOST_USER, "-v", "/etc/passwd:/etc/passwd:ro", "-v", "/etc/group:/etc/group:ro")
        if not {"HOME"} & {*rank.env, *rank.secret_env}:
            yield from ("-e", "HOME=/tmp")
    if not rank.rootful and settings.security_opt is None:
        yield from ("--security-opt", "no-new-privileges")


def _device_words(settings: DockerSettings) -> Iterator[str]:
    yield from _pairs("--device", settings.devices)
    if not any(device.partition(":")[0] == "/dev/infiniband" for device in settings.devices):
        yield HOST_INFINIBAND


def _seccomp_words(rank: RankPlan, settings: DockerSettings) -> Iterator[str]:
    """A privileged container has no profile of its own."""
    if settings.security_opt is not None:
        yield from _pairs("--security-opt", settings.security_opt)
    elif not settings.is_privileged(rootful=rank.rootful):
        yield from ("--security-opt", HOST_SECCOMP)


def _own_labels(rank: RankPlan, settings: DockerSettings) -> dict[str, str]:
    wanted = {**settings.labels, **rank.labels}
    for name in wanted:
        if problem := label_problem(name):
            raise ConfigError(problem, hint="choose another name")
    return dict(sorted(wanted.items()))


def _assigned(values: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={value}" for name, value in values.items())


def _pairs(option: str, values: Iterable[str]) -> Iterator[str]:
    return (word for value in values for word in (option, value))


def _shown(word: str) -> str:
    if word in _UNQUOTED:
        return word
    if word in _HOST_VALUES:
        return f'"{word}"'
    if place := next((place for place in _HOST_PLACES if word.startswith(place)), None):
        return f'"{place}"{shlex.quote(word.removeprefix(place))}'
    return shlex.quote(word)
