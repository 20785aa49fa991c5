"""DGX Spark and its sisters of other makers: one GB10."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from sparkrun.core.fabric import FabricFacts, FabricPort
from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import HostHardware
from sparkrun.core.values import ConfigValue
from sparkrun.platforms.base import VLLM, GpuAccessMode, HardwarePlatformPlugin

_VLLM_IMAGE = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest"
_MEMORY_HEAVY = VLLM | {"sglang"}
# enp1s0f0np0 and enP2p1s0f0np0 are the two PCIe functions of physical port np0.
_PHYSICAL_PORT = re.compile(r"np([0-9]+)$")


class DgxSparkPlatform(HardwarePlatformPlugin):
    """One GB10 whose memory is the host's (nominal 121 GiB), and a ConnectX-7 with two ports of 200 Gbit/s, two PCIe functions each."""

    name: ClassVar[str] = "dgx-spark"
    label: ClassVar[str] = "DGX Spark"
    vendor: ClassVar[str | None] = "nvidia"
    gpu_access_mode: ClassVar[GpuAccessMode] = "gpus"
    memory_cap: ClassVar[float] = 0.90
    nominal_memory_gb: ClassVar[float | None] = 121.0
    images: ClassVar[Mapping[str, str]] = {
        "vllm-distributed": _VLLM_IMAGE,
        "vllm-ray": _VLLM_IMAGE,
        "eugr-vllm": "vllm-node",
        "sglang": "scitrera/dgx-spark-sglang:latest",
        "llama-cpp": "scitrera/dgx-spark-llama-cpp:latest",
        "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:latest",
        "atlas": "azeezish/atlas-gb10:latest",
        "modular-max": "modular/max-nvidia-full:latest",
        "tokenary": "scitrera/tokenary:latest",
    }

    def matches(self, hardware: HostHardware) -> bool:
        """A GB10 is what makes a Spark."""
        return hardware.vendor == "nvidia" and hardware.models == ("gb10",)

    def config_defaults(self, runtime: str) -> dict[str, ConfigValue]:
        """Room for the system in the shared memory; no memory-mapped weights, which would be there twice."""
        if runtime in _MEMORY_HEAVY:
            return {"gpu_memory_utilization": 0.8}
        return {"mmap": False} if runtime == "llama-cpp" else {}

    def env(self, runtime: str) -> dict[str, str]:
        """PyTorch's allocator with segments that grow, and kernels built for the GB10 (sm_121a)."""
        if runtime not in _MEMORY_HEAVY:
            return {}
        return {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "CUTE_DSL_ARCH": "sm_121a"}

    def memory_bandwidth_gb_s(self, model: str) -> float | None:
        """273 GB/s: docs.nvidia.com, DGX Spark user guide, "Hardware Overview"."""
        del model
        return 273.0

    def warnings(self, facts: HostFacts) -> Iterator[str]:
        """A fabric that is down, or half of it."""
        yield from super().warnings(facts)
        if facts.fabric.observed:
            yield from _fabric_warnings(facts.host, facts.fabric)


def _fabric_warnings(host: str, fabric: FabricFacts) -> Iterator[str]:
    if "rdma:roce-v2" not in fabric.capabilities:
        down = f"{len(fabric.ports)} ports, none with an active link" if fabric.ports else "no RDMA device"
        yield f"{host}: no RoCE v2 ({down}); traffic between nodes would use the management network"
    for number, ports in _by_physical_port(fabric).items():
        bare = [port for port in ports if not any(address.is_v4 for address in port.addresses)]
        if bare and len(bare) < len(ports):
            names = ", ".join(port.netdev for port in bare)
            yield f"{host}: port {number} runs at half its speed: {names} has no IPv4 address; give it one: sparkrun setup cx7"


def _by_physical_port(fabric: FabricFacts) -> dict[str, list[FabricPort]]:
    found: dict[str, list[FabricPort]] = {}
    for port in fabric.active_ports:
        if match := _PHYSICAL_PORT.search(port.netdev):
            found.setdefault(match[1], []).append(port)
    return found
