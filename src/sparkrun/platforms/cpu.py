"""Machines without an accelerator that anybody here knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sparkrun.core.hardware import HostHardware
from sparkrun.platforms.base import GpuAccessMode, HardwarePlatformPlugin


class CpuPlatform(HardwarePlatformPlugin):
    """No accelerator, no defaults but an image for the engine that works on processors."""

    name: ClassVar[str] = "cpu"
    label: ClassVar[str] = "no accelerator"
    vendor: ClassVar[str | None] = None
    gpu_access_mode: ClassVar[GpuAccessMode] = "none"
    images: ClassVar[Mapping[str, str]] = {"llama-cpp": "ghcr.io/ggml-org/llama.cpp:server"}

    def matches(self, hardware: HostHardware) -> bool:
        """The last resort."""
        del hardware
        return True
