"""Engines that need a certain kind of hardware."""

from __future__ import annotations

import pytest

from sparkrun.core.errors import IncompatibleHardwareError
from sparkrun.core.hardware import ASSUMED_DGX_SPARK, AcceleratorSpec, HostHardware
from sparkrun.runtimes.compatibility import check_runtime_host_compatibility

H100 = HostHardware((AcceleratorSpec("nvidia", "h100", 8, 80.0, ("cuda", "nvlink")),))


def test_a_host_without_the_capability_is_refused_by_name() -> None:
    with pytest.raises(IncompatibleHardwareError, match="server: atlas needs 'gb10', the host has cuda, nvlink, h100") as caught:
        check_runtime_host_compatibility("gb10", {"spark-1": ASSUMED_DGX_SPARK, "server": H100}, runtime="atlas")
    assert (caught.value.host, caught.value.capability, caught.value.runtime) == ("server", "gb10", "atlas")
    assert caught.value.hint


def test_a_host_without_accelerators_is_refused() -> None:
    with pytest.raises(IncompatibleHardwareError, match="needs 'cuda', the host has no accelerator"):
        check_runtime_host_compatibility("cuda", {"box": HostHardware()})


def test_tags_and_models_both_count() -> None:
    check_runtime_host_compatibility("cuda", {"a": H100, "b": ASSUMED_DGX_SPARK})
    check_runtime_host_compatibility("h100", {"a": H100})


def test_an_engine_without_wishes_runs_anywhere() -> None:
    check_runtime_host_compatibility(None, {"box": HostHardware()})


def test_a_host_nobody_knows_passes_for_a_spark() -> None:
    check_runtime_host_compatibility("gb10", {"a": None})
    with pytest.raises(IncompatibleHardwareError):
        check_runtime_host_compatibility("rocm", {"a": None})
