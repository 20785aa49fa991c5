"""``executor_config`` of the docker executor: its keys, their defaults, and what is wrong with a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from sparkrun.core.container_words import volume_problem
from sparkrun.core.errors import ConfigError
from sparkrun.core.values import ConfigValue, value_text

KEYS = frozenset(
    (
        "auto_remove restart_policy privileged gpus gpu_access_mode ipc shm_size network user security_opt cap_add ulimit devices volumes "
        "entrypoint memory_limit labels accelerator_vendor"
    ).split()
)
BASE_ULIMITS = ("nofile=65535:65535",)
ROOTLESS_ULIMITS = ("memlock=-1:-1", "stack=67108864")
ACCESS_MODES = ("gpus", "cdi")
VENDORS = ("nvidia", "amd", "intel")

_SIZE = re.compile(r"\d+(?:\.\d+)?\s*(?:[bkmgt]i?b?)?", re.IGNORECASE)
_RESTART = re.compile(r"no|always|unless-stopped|on-failure(?::\d+)?")


class DockerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration in force, decoded. ``None`` is a default that depends on the rank or the image."""

    auto_remove: bool = True
    restart_policy: str | None = None
    privileged: bool | None = None
    gpus: tuple[str, ...] | None = None
    """``("all",)``, device numbers, or nothing; ``None``: what the placement says."""
    gpu_access_mode: str | None = None
    ipc: str = "shareable"
    shm_size: str = "32gb"
    network: str = "host"
    user: str | None = None
    auto_user: bool = True
    """Without ``user``: run as the user and group of the host's session."""
    security_opt: tuple[str, ...] | None = None
    cap_add: tuple[str, ...] = ()
    ulimit: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    entrypoint: str | None = None
    memory_limit: str | None = None
    labels: dict[str, str] = {}
    accelerator_vendor: str | None = None

    @property
    def removed_when_dead(self) -> bool:
        """Whether a dead container goes by itself: when its workload is stopped or started anew. Until then it tells how it ended.

        Docker's own ``--rm`` would take exit code and log away with it. A restart policy leaves the container in place.
        """
        return self.auto_remove and not self.restart_policy

    def is_privileged(self, *, rootful: bool) -> bool:
        """Rootful containers are, unless the configuration says otherwise."""
        return rootful if self.privileged is None else self.privileged

    def ulimits(self, *, rootful: bool) -> tuple[str, ...]:
        """Each limit once; the configuration's own value of one replaces the default."""
        defaults = BASE_ULIMITS if rootful else (*ROOTLESS_ULIMITS, *BASE_ULIMITS)
        merged = {limit.partition("=")[0]: limit for limit in (*defaults, *self.ulimit)}
        return tuple(merged.values())


def read_docker_config(config: Mapping[str, ConfigValue]) -> DockerSettings:
    """Decode ``executor_config``. Keys of other executors are left alone. Raises ``ConfigError`` with the key and its value."""
    given = {key: value for key, value in config.items() if key in KEYS}
    return DockerSettings(
        auto_remove=_flag(given, "auto_remove", True) is not False,
        restart_policy=_restart(given),
        privileged=_flag(given, "privileged", None),
        gpus=_gpus(given.get("gpus")),
        gpu_access_mode=_choice(given, "gpu_access_mode", ACCESS_MODES),
        ipc=_text(given, "ipc") or "shareable",
        shm_size=_size(given, "shm_size") or "32gb",
        network=_text(given, "network") or "host",
        user=_text(given, "user"),
        auto_user=given.get("user") is None,
        security_opt=None if given.get("security_opt") is None else _texts(given, "security_opt"),
        cap_add=_texts(given, "cap_add"),
        ulimit=_ulimits(given),
        devices=_texts(given, "devices"),
        volumes=tuple(_volumes(given.get("volumes"))),
        entrypoint=None if given.get("entrypoint") is None else value_text(given["entrypoint"]),
        memory_limit=_size(given, "memory_limit"),
        labels=_labels(given.get("labels")),
        accelerator_vendor=_choice(given, "accelerator_vendor", VENDORS),
    )


def _flag(config: Mapping[str, ConfigValue], key: str, default: bool | None) -> bool | None:
    value = config.get(key, default)
    if value is None or isinstance(value, bool):
        return value
    raise _wrong(key, value, "true or false")


def _text(config: Mapping[str, ConfigValue], key: str) -> str | None:
    value = config.get(key)
    if isinstance(value, list | dict | bool):
        raise _wrong(key, value, "a text")
    return None if value is None else str(value)


def _texts(config: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = config.get(key)
    if value is None or value == "":
        return ()
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict | bool) or item is None for item in items):
        raise _wrong(key, value, "a list of texts")
    return tuple(str(item) for item in items)


def _choice(config: Mapping[str, ConfigValue], key: str, known: tuple[str, ...]) -> str | None:
    value = _text(config, key)
    if value is not None and value not in known:
        raise _wrong(key, value, " or ".join(known))
    return value


def _size(config: Mapping[str, ConfigValue], key: str) -> str | None:
    value = _text(config, key)
    if value is not None and not _SIZE.fullmatch(value):
        raise _wrong(key, value, "a size such as 32gb")
    return value


def _restart(config: Mapping[str, ConfigValue]) -> str | None:
    value = config.get("restart_policy")
    # YAML reads a bare `no` as false.
    if value is None or value is False or value in ("", "no"):
        return None
    if not isinstance(value, str) or not _RESTART.fullmatch(value):
        raise _wrong("restart_policy", value, "no, always, unless-stopped or on-failure[:N]")
    return value


def _gpus(value: ConfigValue) -> tuple[str, ...] | None:
    if value is None or value is True:
        return None
    if value is False or value in ("", "none", []):
        return ()
    items = value if isinstance(value, list) else str(value).strip('"').removeprefix("device=").split(",")
    names = tuple(str(item).strip() for item in items)
    if any(not re.fullmatch(r"all|[0-9]+(?::[0-9]+)?|GPU-[0-9a-fA-F-]+|MIG-[0-9a-zA-Z/-]+", name) for name in names):
        raise _wrong("gpus", value, "all, none, or device numbers")
    return names


def _ulimits(config: Mapping[str, ConfigValue]) -> tuple[str, ...]:
    value = config.get("ulimit")
    if isinstance(value, dict):
        return tuple(f"{name}={value_text(limit)}" for name, limit in value.items())
    limits = _texts(config, "ulimit")
    if any("=" not in limit for limit in limits):
        raise _wrong("ulimit", value, "a list such as [memlock=-1:-1]")
    return limits


def _volumes(value: ConfigValue) -> Iterable[str]:
    """Texts ``source:target[:options]``, or a path alone that keeps its place; or a mapping to targets, or to ``bind`` and ``mode``."""
    if isinstance(value, dict):
        volumes = [_mapped_volume(source, target) for source, target in value.items()]
    else:
        volumes = [text if ":" in text else f"{text}:{text}" for text in _texts({"volumes": value}, "volumes")]
    for volume in volumes:
        if problem := volume_problem(volume):
            raise ConfigError(f"executor_config.volumes: {problem}", hint="write SOURCE:TARGET[:ro], each by its full path")
    return volumes


def _mapped_volume(source: str, target: ConfigValue) -> str:
    if isinstance(target, dict) and isinstance(target.get("bind"), str):
        mode = target.get("mode")
        return f"{source}:{target['bind']}" + (f":{mode}" if mode else "")
    if not isinstance(target, str | None):
        raise _wrong("volumes", {source: target}, "a list such as [/data:/data:ro]")
    return f"{source}:{target or source}"


def _labels(value: ConfigValue) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {name: value_text(text) for name, text in value.items()}
    pairs = (text.partition("=") for text in _texts({"labels": value}, "labels"))
    return {name: text for name, _equals, text in pairs}


def _wrong(key: str, value: ConfigValue, wanted: str) -> ConfigError:
    return ConfigError(f"executor_config.{key} cannot be {value_text(value)!r}: it must be {wanted}")
