"""What was seen on one host at one moment. Every value belongs to that host alone."""

from __future__ import annotations

import msgspec

from sparkrun.core.fabric import FabricFacts
from sparkrun.core.hardware import ASSUMED_DGX_SPARK, HostHardware


class ModelFacts(msgspec.Struct, frozen=True):
    """Whether the model's files are on the host. ``path`` is a path there; ``reason`` says why they are not."""

    kind: str = "none"
    path: str | None = None
    size_bytes: int | None = None
    reason: str | None = None
    mmproj: str | None = None
    mmproj_count: int = 0
    attention_heads: int | None = None
    kv_heads: int | None = None
    config: str = ""
    """The text of its ``config.json``; ``quant_config`` that of ``hf_quant_config.json``."""
    quant_config: str = ""
    weight_bytes: int | None = None
    """The size of its safetensors files."""
    gguf_head: bytes = b""
    """The first bytes of a GGUF file."""


class PortFacts(msgspec.Struct, frozen=True):
    """Who listens on a TCP port, as far as this user may see."""

    busy: bool
    pid: int | None = None
    process: str | None = None


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A workload's process or container on one host, as found there."""

    host: str
    name: str
    cluster_id: str
    state: str
    """``running``, ``exited`` or ``stale``; of a container docker's word."""
    executor: str = "local"
    pid: int | None = None
    exit_code: int | None = None
    started_at: str | None = None
    uptime_s: float | None = None
    owner: str = "sparkrun"
    labels: dict[str, str | int | float | bool | None] = {}
    auto_remove: bool = False
    """Whether it goes by itself once it is dead, with the next launch of its workload."""
    log_file: str | None = None
    port_open: bool | None = None
    health: int | None = None
    """HTTP status of the health path, 0 when the port is open but nothing answered in time."""
    memory_bytes: int | None = None

    @property
    def alive(self) -> bool:
        """Whether its process exists."""
        return self.state in {"running", "paused", "restarting"}


class ImageFacts(msgspec.Struct, frozen=True):
    """An image that a host's docker has."""

    id: str
    arch: str = ""
    """As docker calls it: ``arm64``, ``amd64``."""
    size_bytes: int | None = None


class DockerFacts(msgspec.Struct, frozen=True):
    """Docker on a host. ``usable``: this user may talk to a daemon that answers; else ``reason`` says why not."""

    present: bool = False
    usable: bool = False
    version: str | None = None
    podman: bool = False
    """Whether it is podman that takes docker's words."""
    cdi: bool = False
    """Whether it hands out NVIDIA's devices by a list (CDI) that this host has; Docker 25 and later, where that is switched on."""
    gpu_hook: bool = True
    """Whether it hands them out by NVIDIA's hook, as ``--gpus`` wants."""
    reason: str | None = None
    images: dict[str, ImageFacts | None] = {}
    """The images that were asked for, by reference: ``None`` for one that is not here; one that docker said nothing of is left out."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One host as observed, or as assumed where nobody looked (``assumed``)."""

    host: str
    assumed: bool = False
    hostname: str = ""
    user: str = ""
    home: str = ""
    arch: str = ""
    cpus: int = 0
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    cache_dir: str = ""
    cache_writable: bool = True
    hf_cache: str = ""
    hf_hub: str = ""
    """The folder in which models of the hub are kept."""
    hf_free_bytes: int | None = None
    hf_cache_id: str = ""
    """Which physical cache that is, for ``shared_caches.groups_of``; empty where that is unknown."""
    hardware: HostHardware = HostHardware()
    fabric: FabricFacts = FabricFacts()
    docker: DockerFacts = DockerFacts()
    engine_path: str | None = None
    embedded_python: str | None = None
    model: ModelFacts = ModelFacts()
    further: dict[str, ModelFacts] = {}
    """Models that are wanted beside it, by what the recipe calls them."""
    tuning: dict[str, str] = {}
    """Tuning configs in its sparkrun cache: SHA-256 in hex, by path below the engine's folder."""
    ports: dict[int, PortFacts] = {}
    workloads: tuple[WorkloadFacts, ...] = ()

    @property
    def believed_hardware(self) -> HostHardware:
        """What to plan with: a host that nobody looked at is taken for a DGX Spark."""
        return ASSUMED_DGX_SPARK if self.assumed and not self.hardware.accelerators else self.hardware

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The tags of its accelerators and of its network."""
        return tuple(dict.fromkeys((*self.hardware.capabilities, *self.fabric.capabilities)))


class Unreachable(msgspec.Struct, frozen=True):
    """A host that did not answer: its state is unknown, not empty."""

    host: str
    reason: str
    hint: str | None = None
    """What to do about it."""
    executor: str | None = None
    """The executor whose workloads are unknown; ``None``: the host as a whole did not answer."""
