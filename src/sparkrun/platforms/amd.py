"""Machines with AMD GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.platforms.bandwidth import Bandwidths, bandwidth_of
from sparkrun.platforms.base import GpuAccessMode, HardwarePlatformPlugin

_VLLM_IMAGE = "vllm/vllm-openai-rocm:latest"

# GB/s of one GPU, from AMD's data sheets.
_BANDWIDTHS: Bandwidths = {
    "mi355x": 8000, "mi350x": 8000, "mi325x": 6000, "mi300x": 5300, "mi300a": 5300, "mi250x": 3277, "mi250": 3277, "mi210": 1638,
    "r9700": 640, "w7900": 864, "7900-xtx": 960, "8060s": 256,
}  # fmt: skip


class AmdPlatform(HardwarePlatformPlugin):
    """ROCm: device files and groups instead of a container toolkit.

    Images: docs.vllm.ai and rocm.docs.amd.com ("vLLM inference", "SGLang inference"), llama.cpp's docs/docker.md,
    docs.modular.com ("MAX container"). SGLang publishes no ``latest`` for ROCm, so its image is pinned.
    """

    name: ClassVar[str] = "amd"
    label: ClassVar[str] = "AMD"
    vendor: ClassVar[str | None] = "amd"
    gpu_access_mode: ClassVar[GpuAccessMode] = "devices"
    images: ClassVar[Mapping[str, str]] = {
        "vllm-distributed": _VLLM_IMAGE,
        "vllm-ray": _VLLM_IMAGE,
        "sglang": "rocm/sgl-dev:v0.5.13.post1-ubuntu24.04-py3.14-rocm7.14",
        "llama-cpp": "ghcr.io/ggml-org/llama.cpp:server-rocm",
        "modular-max": "modular/max-amd:latest",
    }

    def matches(self, hardware: HostHardware) -> bool:
        """By vendor."""
        return hardware.vendor == "amd"

    def memory_bandwidth_gb_s(self, model: str) -> float | None:
        """By model."""
        return bandwidth_of(model, _BANDWIDTHS)

    def warnings(self, facts: HostFacts) -> Iterator[str]:
        """ROCm's images exist for x86 alone."""
        yield from super().warnings(facts)
        if facts.arch not in ("", "x86_64", "amd64"):
            yield f"{facts.host}: ROCm's images are for x86_64, this host is {facts.arch}"
