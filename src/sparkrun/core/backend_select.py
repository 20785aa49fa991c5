"""Which vendor's libraries a host works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sparkrun.core.hardware import HostHardware, known_hardware

Collective = Literal["nccl", "rccl", "hccl"]

_COLLECTIVES: dict[str, Collective] = {"nvidia": "nccl", "amd": "rccl", "intel": "hccl"}
FALLBACK_COLLECTIVE: Collective = "nccl"
"""What a host gets whose vendor has no library of its own here."""


class BackendBundle(msgspec.Struct, frozen=True):
    """The accelerator vendor of a host (``None`` without accelerators) and the collective library that goes with it."""

    accelerator_vendor: str | None
    collective: Collective = FALLBACK_COLLECTIVE


def select_backends(hardware: HostHardware | None) -> BackendBundle:
    """The bundle of a host: that of a DGX Spark where nobody knows, that of the first accelerator where a host has several vendors."""
    vendor = known_hardware(hardware).vendor
    return BackendBundle(vendor, _COLLECTIVES.get(vendor or "", FALLBACK_COLLECTIVE))


def resolve_per_host_backends(hardware: Mapping[str, HostHardware]) -> dict[str, BackendBundle]:
    """The bundle of each host of a launch."""
    return {host: select_backends(known) for host, known in hardware.items()}
