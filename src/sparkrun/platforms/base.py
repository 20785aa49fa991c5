"""What a kind of machine brings along: images, settings, limits and checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.core.values import ConfigValue

GpuAccessMode = Literal["gpus", "cdi", "devices", "none"]
"""``gpus``: docker's ``--gpus`` (or the toolkit's CDI names); ``devices``: device files and groups; ``none``: nothing."""

VLLM = frozenset({"vllm-distributed", "vllm-ray", "eugr-vllm"})


class HardwarePlatformPlugin(ABC):
    """A kind of machine. Mostly data; a subclass overrides what is particular about it.

    Memory is GiB, bandwidth GB/s (10^9 bytes), caps are fractions of the memory.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    vendor: ClassVar[str | None]
    gpu_access_mode: ClassVar[GpuAccessMode]
    """How containers reach accelerators: by docker's ``--gpus``, by a list of devices (``cdi``) where the host has one, by device files."""
    images: ClassVar[Mapping[str, str]] = {}
    """By runtime."""
    memory_cap: ClassVar[float] = 1.0
    """How much of an accelerator's memory launches may use when neither the cluster nor the accelerator says."""
    nominal_memory_gb: ClassVar[float | None] = None
    """The memory of one accelerator where nobody measured it."""

    @abstractmethod
    def matches(self, hardware: HostHardware) -> bool:
        """Whether a host with accelerators is of this kind."""

    def default_image(self, runtime: str) -> str | None:
        """The image for a runtime when neither the user nor the recipe names one."""
        return self.images.get(runtime)

    def config_defaults(self, runtime: str) -> dict[str, ConfigValue]:
        """Settings that fill what the recipe leaves open."""
        del runtime
        return {}

    def env(self, runtime: str) -> dict[str, str]:
        """Variables that engines of a runtime need on this kind of machine."""
        del runtime
        return {}

    def memory_bandwidth_gb_s(self, model: str) -> float | None:
        """The memory bandwidth of one accelerator of a model, ``None`` when unknown."""
        del model
        return None

    def validate_host(self, facts: HostFacts) -> tuple[str, ...]:
        """What is odd about a host of this kind: sentences for a log. Never raises."""
        return tuple(self.warnings(facts))

    def warnings(self, facts: HostFacts) -> Iterator[str]:
        """The sentences, one by one; those of every kind of machine."""
        hardware = facts.hardware
        if len(hardware.models) > 1:
            yield f"{facts.host}: accelerators of different models ({', '.join(hardware.models)}); ranks wait for the slowest"
        unknown = [spec.model for spec in hardware.accelerators if spec.memory_gb is None]
        if unknown and self.nominal_memory_gb is None:
            yield f"{facts.host}: the memory of {', '.join(dict.fromkeys(unknown))} is unknown, so nothing can be said about what fits"
