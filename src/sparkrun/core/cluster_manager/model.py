"""A saved cluster as typed values, read tolerantly from its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from sparkrun.core.cluster_manager.addresses import split_hosts
from sparkrun.core.cluster_manager.keys import KEYS
from sparkrun.core.config import Settings
from sparkrun.core.errors import ConfigError
from sparkrun.core.hardware import HostHardware, read_hosts_hardware
from sparkrun.core.limits import MemoryCaps, unmatched_limits
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean

TransferMode = Literal["auto", "local", "push", "delegated", "pull"]
TransferInterface = Literal["auto", "cx7", "mgmt"]
Topology = Literal["direct", "switch", "ring"]

UNNAMED_SCHEDULER = "greedy"
"""What a cluster file without the key means: the only choice there was when such files were written."""
NEW_CLUSTER_SCHEDULER = "occupancy-sparse"

_OF_THE_WIRING = ("cache_dir", "sparkrun_cache_dir", "transfer_mode", "transfer_interface", "topology", "fabric_interfaces", "distribution")


class Cluster(msgspec.Struct, frozen=True):
    """A saved cluster. ``None`` is what its file does not say; ``settings`` is the whole file, so that keys we do not read are kept."""

    name: str
    hosts: tuple[str, ...] = ()
    description: str = ""
    user: str | None = None
    cache_dir: str | None = None
    """Folder of Hugging Face models on the hosts."""
    sparkrun_cache_dir: str | None = None
    transfer_mode: TransferMode = "auto"
    transfer_interface: TransferInterface = "auto"
    topology: Topology | None = None
    fabric_interfaces: tuple[str, ...] = ()
    mgmt_interface: str | None = None
    env: dict[str, str] = {}
    """As written: ``resolve_env`` puts ``${NAME}`` in full."""
    env_file: str | None = None
    scheduler: str | None = None
    executor: str | None = None
    executor_config: dict[str, ConfigValue] = {}
    runtime_cache: bool | dict[str, ConfigValue] | None = None
    offline: bool = False
    max_gpu_memory_utilization: float | None = None
    accelerator_memory_limits: dict[str, float] = {}
    distribution: dict[str, ConfigValue] = {}
    hardware: dict[str, HostHardware] = {}
    """By host, as far as the file's ``hosts_hardware`` tells."""
    sync_source: str | None = None
    transport: str = "ssh"
    provider_ref: ConfigValue = None
    plugins: dict[str, ConfigValue] = {}
    settings: Settings = {}
    warnings: tuple[str, ...] = ()
    """What in the file could not be used, and keys nobody knows."""

    @property
    def effective_scheduler(self) -> str:
        """The scheduler of this cluster when nobody else names one."""
        return self.scheduler or UNNAMED_SCHEDULER

    @property
    def scheduler_hint(self) -> str | None:
        """What to tell about a cluster whose file names no scheduler."""
        if self.scheduler:
            return None
        command = f"sparkrun cluster update {self.name} --scheduler {NEW_CLUSTER_SCHEDULER}"
        return (
            f"cluster '{self.name}' names no scheduler: {UNNAMED_SCHEDULER} takes its first hosts, busy or not; to use idle ones: {command}"
        )

    @property
    def memory_caps(self) -> MemoryCaps:
        """How much memory of an accelerator this cluster lets a launch use."""
        return MemoryCaps(models=self.accelerator_memory_limits, cluster=self.max_gpu_memory_utilization)

    def beside_named_hosts(self) -> Cluster:
        """This cluster beside hosts that the command names: its user, executor and hardware hold, its wiring and caches do not."""
        fresh = Cluster(self.name)
        return msgspec.structs.replace(self, **{key: getattr(fresh, key) for key in _OF_THE_WIRING})


def read_cluster(name: str, settings: Settings, path: str) -> Cluster:
    """The cluster in a file. A value that cannot be used is left out and named in ``warnings``; only hosts must be right.

    Raises ``ConfigError`` for a host list that is none.
    """
    warnings: list[str] = []
    values = dict(_usable(settings, path, warnings))
    hardware = dict(_hardware(values.pop("hosts_hardware", None), path, warnings))
    warnings += _unknown_keys(settings, path)
    limits = values.get("accelerator_memory_limits") or {}
    warnings += [f"{path}: {text}" for text in unmatched_limits(limits, hardware.values())]
    return Cluster(name, _hosts(settings, path), hardware=hardware, settings=settings, warnings=tuple(warnings), **values)


def _usable(settings: Settings, path: str, warnings: list[str]) -> Iterator[tuple[str, Any]]:
    """Keys whose value passes its check, and so has the type of the field of that name."""
    for key, rule in KEYS.items():
        value = settings.get(key)
        if value is None or key == "hosts":
            continue
        try:
            checked = rule.check(value)
            yield key, tuple(checked) if isinstance(checked, list) else checked
        except ValueError as error:
            warnings.append(f"{path}: {key} must be {error}, not {value!r}; it is left out")


def _hosts(settings: Settings, path: str) -> tuple[str, ...]:
    hosts = settings.get("hosts") or []
    if isinstance(hosts, str):
        return split_hosts([hosts])
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ConfigError(f"{path}: hosts must be a list of host names")
    return tuple(str(host) for host in hosts)


def _hardware(value: ConfigValue, path: str, warnings: list[str]) -> Iterator[tuple[str, HostHardware]]:
    if not isinstance(value, Mapping):
        return
    for host, found in value.items():
        try:
            yield from read_hosts_hardware({host: found}, path).items()
        except ConfigError as error:
            warnings.append(f"{error.message}; it is left out")


def _unknown_keys(settings: Settings, path: str) -> Iterator[str]:
    for key in settings:
        if key not in KEYS and key != "name":
            hint = did_you_mean(key, KEYS)
            yield f"{path}: unknown key '{key}'" + (f"; {hint}" if hint else "; it is kept, and has no effect")
