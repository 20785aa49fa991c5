"""Machines with Intel Gaudi accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.platforms.bandwidth import Bandwidths, bandwidth_of
from sparkrun.platforms.base import VLLM, GpuAccessMode, HardwarePlatformPlugin

_VLLM_IMAGE = "vault.habana.ai/gaudi-docker/1.23.0/ubuntu22.04/habanalabs/vllm-installer-2.9.0:latest"

# GB/s of one accelerator, from Intel's white papers on Gaudi 2 and Gaudi 3.
_BANDWIDTHS: Bandwidths = {"gaudi3": 3700, "gaudi2": 2460, "gaudi": 1000}


class IntelGaudiPlatform(HardwarePlatformPlugin):
    """HPUs by their device files. Image and variables: docs.habana.ai, "vLLM Quick Start Guide" and "vLLM with Intel Gaudi"."""

    name: ClassVar[str] = "intel-gaudi"
    label: ClassVar[str] = "Intel Gaudi"
    vendor: ClassVar[str | None] = "intel"
    gpu_access_mode: ClassVar[GpuAccessMode] = "devices"
    images: ClassVar[Mapping[str, str]] = {"vllm-distributed": _VLLM_IMAGE, "vllm-ray": _VLLM_IMAGE}

    def matches(self, hardware: HostHardware) -> bool:
        """By vendor."""
        return hardware.vendor == "intel"

    def env(self, runtime: str) -> dict[str, str]:
        """Tensor parallelism with HPU graphs needs lazy collectives."""
        return {"PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"} if runtime in VLLM else {}

    def memory_bandwidth_gb_s(self, model: str) -> float | None:
        """By model."""
        return bandwidth_of(model, _BANDWIDTHS)

    def warnings(self, facts: HostFacts) -> Iterator[str]:
        """The image that there is."""
        yield from super().warnings(facts)
        if facts.arch not in ("", "x86_64", "amd64"):
            yield f"{facts.host}: Gaudi's images are for x86_64, this host is {facts.arch}"
