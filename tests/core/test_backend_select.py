"""Which libraries go with which hardware."""

from __future__ import annotations

import pytest

from sparkrun.core.backend_select import BackendBundle, select_backends
from sparkrun.core.hardware import AcceleratorSpec, HostHardware


@pytest.mark.parametrize(("vendor", "collective"), [("nvidia", "nccl"), ("amd", "rccl"), ("intel", "hccl"), ("apple", "nccl")])
def test_the_vendor_decides(vendor: str, collective: str) -> None:
    bundle = select_backends(HostHardware((AcceleratorSpec(vendor, "x"),)))
    assert (bundle.accelerator_vendor, bundle.collective) == (vendor, collective)


def test_a_host_nobody_knows_works_like_a_spark() -> None:
    assert select_backends(None) == BackendBundle("nvidia", "nccl")


def test_a_host_without_accelerators_has_no_vendor() -> None:
    assert select_backends(HostHardware()) == BackendBundle(None, "nccl")


def test_with_several_vendors_the_first_accelerator_decides() -> None:
    mixed = HostHardware((AcceleratorSpec("amd", "mi300x"), AcceleratorSpec("nvidia", "l4")))
    assert select_backends(mixed) == BackendBundle("amd", "rccl")
