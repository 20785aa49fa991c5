"""Kinds of machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkrun.core.fabric import FabricFacts
from sparkrun.core.facts import HostFacts
from sparkrun.core.hardware import ASSUMED_DGX_SPARK, AcceleratorSpec, HostHardware
from sparkrun.platforms import (
    AmdPlatform,
    CpuPlatform,
    DgxSparkPlatform,
    GenericNvidiaPlatform,
    HardwarePlatformPlugin,
    IntelGaudiPlatform,
    assumption_note,
    platforms,
    register_platform,
    resolve_platform,
    unregister_platform,
)
from tests.core.fabric.hosts import spark

RUNTIMES = ("vllm-distributed", "vllm-ray", "eugr-vllm", "sglang", "llama-cpp", "trtllm", "atlas", "modular-max", "tokenary")
SPARK, NVIDIA, AMD, GAUDI = DgxSparkPlatform(), GenericNvidiaPlatform(), AmdPlatform(), IntelGaudiPlatform()


def made_of(*parts: tuple[str, str]) -> HostHardware:
    return HostHardware(tuple(AcceleratorSpec(vendor, model, memory_gb=80.0) for vendor, model in parts))


@pytest.fixture
def _no_lab_afterwards() -> Iterator[None]:
    yield
    unregister_platform("lab")


@pytest.mark.parametrize(
    ("hardware", "platform"),
    [
        (made_of(("nvidia", "gb10")), "dgx-spark"),
        (made_of(("nvidia", "gb10"), ("nvidia", "gb10")), "dgx-spark"),
        (made_of(("nvidia", "h100-80gb-hbm3")), "nvidia-generic"),
        (made_of(("nvidia", "gb10"), ("nvidia", "l4")), "nvidia-generic"),
        (made_of(("amd", "mi300x")), "amd"),
        (made_of(("intel", "gaudi3")), "intel-gaudi"),
        (made_of(("apple", "m4")), "cpu"),
        (HostHardware(), "cpu"),
        (ASSUMED_DGX_SPARK, "dgx-spark"),
        (None, "dgx-spark"),
    ],
)
def test_hardware_decides_the_platform(hardware: HostHardware | None, platform: str) -> None:
    assert resolve_platform(hardware).name == platform


@pytest.mark.usefixtures("_no_lab_afterwards")
def test_a_registered_platform_is_asked_first_and_replaces_its_namesake() -> None:
    class Lab(GenericNvidiaPlatform):
        name = "lab"

        def matches(self, hardware: HostHardware) -> bool:
            return hardware.has("h100")

    register_platform(Lab())
    register_platform(Lab())
    assert [each.name for each in platforms()].count("lab") == 1
    assert resolve_platform(made_of(("nvidia", "h100"))).name == "lab"
    assert resolve_platform(made_of(("nvidia", "l4"))).name == "nvidia-generic"
    unregister_platform("lab")
    assert resolve_platform(made_of(("nvidia", "h100"))).name == "nvidia-generic"


@pytest.mark.parametrize(
    ("runtime", "on_spark", "elsewhere"),
    [
        ("vllm-distributed", "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest", "vllm/vllm-openai:latest"),
        ("vllm-ray", "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest", "vllm/vllm-openai:latest"),
        ("eugr-vllm", "vllm-node", None),
        ("sglang", "scitrera/dgx-spark-sglang:latest", "lmsysorg/sglang:latest"),
        ("llama-cpp", "scitrera/dgx-spark-llama-cpp:latest", "ghcr.io/ggerganov/llama.cpp:server-cuda"),
        ("trtllm", "nvcr.io/nvidia/tensorrt-llm/release:latest", "nvcr.io/nvidia/tensorrt-llm/release:latest"),
        ("atlas", "azeezish/atlas-gb10:latest", None),
        ("modular-max", "modular/max-nvidia-full:latest", "modular/max-nvidia-full:latest"),
        ("tokenary", "scitrera/tokenary:latest", None),
        ("unheard-of", None, None),
    ],
)
def test_default_images(runtime: str, on_spark: str | None, elsewhere: str | None) -> None:
    assert SPARK.default_image(runtime) == on_spark
    assert NVIDIA.default_image(runtime) == elsewhere


def test_amd_and_gaudi_have_images_of_their_own() -> None:
    assert "rocm" in (AMD.default_image("vllm-distributed") or "")
    assert "rocm" in (AMD.default_image("llama-cpp") or "")
    assert "gaudi" in (GAUDI.default_image("vllm-distributed") or "")
    assert AMD.default_image("trtllm") is GAUDI.default_image("trtllm") is None


def test_a_host_without_accelerators_gets_no_gpu_image() -> None:
    assert CpuPlatform().default_image("llama-cpp") == "ghcr.io/ggml-org/llama.cpp:server"
    assert CpuPlatform().default_image("vllm-distributed") is None


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_config_defaults_of_a_spark(runtime: str) -> None:
    expected = {"llama-cpp": {"mmap": False}}
    if runtime in ("vllm-distributed", "vllm-ray", "eugr-vllm", "sglang"):
        expected[runtime] = {"gpu_memory_utilization": 0.8}  # type: ignore[dict-item]
    assert SPARK.config_defaults(runtime) == expected.get(runtime, {})
    assert NVIDIA.config_defaults(runtime) == AMD.config_defaults(runtime) == {}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_environment_of_a_spark(runtime: str) -> None:
    torch = runtime in ("vllm-distributed", "vllm-ray", "eugr-vllm", "sglang")
    assert SPARK.env(runtime) == ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "CUTE_DSL_ARCH": "sm_121a"} if torch else {})
    assert NVIDIA.env(runtime) == {}


def test_gaudi_needs_lazy_collectives_for_vllm() -> None:
    assert GAUDI.env("vllm-distributed") == {"PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}
    assert GAUDI.env("llama-cpp") == {}


def test_memory_limits() -> None:
    assert (SPARK.memory_cap, SPARK.nominal_memory_gb) == (0.90, 121.0)
    assert [(each.memory_cap, each.nominal_memory_gb) for each in (NVIDIA, AMD, GAUDI)] == [(1.0, None)] * 3


def test_memory_bandwidths() -> None:
    assert SPARK.memory_bandwidth_gb_s("gb10") == 273.0
    assert NVIDIA.memory_bandwidth_gb_s("h100-80gb-hbm3") == 3350
    assert NVIDIA.memory_bandwidth_gb_s("h100-pcie") == 2000
    assert NVIDIA.memory_bandwidth_gb_s("l4") == 300
    assert NVIDIA.memory_bandwidth_gb_s("l40s") == 864
    assert NVIDIA.memory_bandwidth_gb_s("a100-sxm4-80gb") == 2039
    assert NVIDIA.memory_bandwidth_gb_s("geforce-5090") == 1792
    assert NVIDIA.memory_bandwidth_gb_s("x9000") is None
    assert AMD.memory_bandwidth_gb_s("mi300x") == 5300
    assert GAUDI.memory_bandwidth_gb_s("gaudi3") == 3700
    assert CpuPlatform().memory_bandwidth_gb_s("any") is None


@pytest.mark.parametrize(
    ("platform", "mode"), [(SPARK, "gpus"), (NVIDIA, "cdi"), (AMD, "devices"), (GAUDI, "devices"), (CpuPlatform(), "none")]
)
def test_how_accelerators_come_into_a_container(platform: HardwarePlatformPlugin, mode: str) -> None:
    assert platform.gpu_access_mode == mode


def test_assumed_hardware_is_told() -> None:
    for hardware in (None, ASSUMED_DGX_SPARK):
        note = assumption_note("spark-9", hardware) or ""
        assert note.startswith("spark-9: nothing is known of its hardware, so it is taken for a DGX Spark")
    assert assumption_note("spark-9", made_of(("nvidia", "gb10"))) is None
    assert assumption_note("spark-9", HostHardware()) is None


def warn(fabric: FabricFacts, *parts: tuple[str, str], arch: str = "aarch64") -> tuple[str, ...]:
    hardware = made_of(*(parts or (("nvidia", "gb10"),)))
    return resolve_platform(hardware).validate_host(HostFacts(host="h", hardware=hardware, fabric=fabric, arch=arch))


def test_a_sound_spark_makes_no_warning() -> None:
    assert warn(spark({"enp1s0f0np0": "192.168.11.1/24", "enP2p1s0f0np0": "192.168.12.1/24"})) == ()


def test_a_spark_without_a_fabric_link_is_warned_of() -> None:
    assert warn(spark({})) == ("h: no RoCE v2 (4 ports, none with an active link); traffic between nodes would use the management network",)
    assert warn(FabricFacts(observed=True)) == ("h: no RoCE v2 (no RDMA device); traffic between nodes would use the management network",)


def test_half_a_cable_is_warned_of() -> None:
    found = warn(spark({"enp1s0f0np0": "192.168.11.1/24", "enP2p1s0f0np0": ""}))
    assert found == ("h: port 0 runs at half its speed: enP2p1s0f0np0 has no IPv4 address; give it one: sparkrun setup cx7",)


def test_a_cable_without_any_address_is_no_half_one() -> None:
    assert warn(spark({"enp1s0f0np0": "", "enP2p1s0f0np0": ""})) == ()


def test_what_nobody_looked_at_is_not_judged() -> None:
    assert warn(FabricFacts()) == ()


def test_mixed_and_unknown_parts_are_warned_of() -> None:
    facts = HostFacts(host="h", hardware=HostHardware((AcceleratorSpec("nvidia", "l4"), AcceleratorSpec("nvidia", "l40s", memory_gb=44.0))))
    first, second = NVIDIA.validate_host(facts)
    assert "different models (l4, l40s)" in first
    assert "memory of l4 is unknown" in second


@pytest.mark.parametrize("parts", [("amd", "mi300x"), ("intel", "gaudi3")])
def test_images_for_x86_are_warned_of_elsewhere(parts: tuple[str, str]) -> None:
    assert "x86_64" in warn(FabricFacts(), parts)[0]
    assert warn(FabricFacts(), parts, arch="x86_64") == ()
