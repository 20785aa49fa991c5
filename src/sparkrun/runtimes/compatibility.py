"""Whether hosts can run an engine at all, asked before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.errors import IncompatibleHardwareError
from sparkrun.core.hardware import HostHardware, known_hardware


def check_runtime_host_compatibility(capability: str | None, hardware: Mapping[str, HostHardware | None], *, runtime: str = "") -> None:
    """Raise ``IncompatibleHardwareError`` for the first host without the capability (``cuda``, ``gb10``, …).

    No capability suits every host. A host of which nothing is known is taken for a DGX Spark. ``runtime`` is for the message.
    """
    if not capability:
        return
    for host, seen in hardware.items():
        known = known_hardware(seen)
        if not known.has(capability):
            raise IncompatibleHardwareError(host, capability, runtime=runtime, found=", ".join(known.capabilities))
