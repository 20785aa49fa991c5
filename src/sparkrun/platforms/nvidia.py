"""Any other machine with NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sparkrun.core.hardware import HostHardware
from sparkrun.platforms.bandwidth import Bandwidths, bandwidth_of
from sparkrun.platforms.base import GpuAccessMode, HardwarePlatformPlugin

_VLLM_IMAGE = "vllm/vllm-openai:latest"

# GB/s of one GPU, from NVIDIA's data sheets; a longer name goes before a shorter one that it contains.
_BANDWIDTHS: Bandwidths = {
    "gb300": 8000, "b300": 8000, "gb200": 8000, "b200": 8000, "gh200": 4900, "h200": 4800, "h100-nvl": 3900, "h100-pcie": 2000,
    "h100": 3350, "a100-sxm4-80gb": 2039, "a100-80gb": 1935, "a100": 1555, "l40s": 864, "l40": 864, "l4": 300, "a40": 696, "a30": 933,
    "a10": 600, "v100": 900, "t4": 320, "pro-6000": 1792, "6000-ada": 960, "a6000": 768, "5090": 1792, "5080": 960, "4090": 1008,
    "4080": 717, "3090-ti": 1008, "3090": 936, "gb10": 273, "thor": 273, "orin": 204.8,
}  # fmt: skip


class GenericNvidiaPlatform(HardwarePlatformPlugin):
    """GPUs with memory of their own, reached through NVIDIA's container toolkit; the engines' official images."""

    name: ClassVar[str] = "nvidia-generic"
    label: ClassVar[str] = "NVIDIA"
    vendor: ClassVar[str | None] = "nvidia"
    gpu_access_mode: ClassVar[GpuAccessMode] = "cdi"
    images: ClassVar[Mapping[str, str]] = {
        "vllm-distributed": _VLLM_IMAGE,
        "vllm-ray": _VLLM_IMAGE,
        "sglang": "lmsysorg/sglang:latest",
        "llama-cpp": "ghcr.io/ggerganov/llama.cpp:server-cuda",
        "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:latest",
        "modular-max": "modular/max-nvidia-full:latest",
    }

    def matches(self, hardware: HostHardware) -> bool:
        """By vendor."""
        return hardware.vendor == "nvidia"

    def memory_bandwidth_gb_s(self, model: str) -> float | None:
        """By model."""
        return bandwidth_of(model, _BANDWIDTHS)
