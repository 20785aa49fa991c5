"""Which platform a host is of: the first of an ordered list that says so."""

from __future__ import annotations

from sparkrun.core.hardware import HostHardware, known_hardware
from sparkrun.platforms.amd import AmdPlatform
from sparkrun.platforms.base import HardwarePlatformPlugin
from sparkrun.platforms.cpu import CpuPlatform
from sparkrun.platforms.dgx_spark import DgxSparkPlatform
from sparkrun.platforms.intel import IntelGaudiPlatform
from sparkrun.platforms.nvidia import GenericNvidiaPlatform

_PLATFORMS: list[HardwarePlatformPlugin] = [DgxSparkPlatform(), GenericNvidiaPlatform(), AmdPlatform(), IntelGaudiPlatform(), CpuPlatform()]


def platforms() -> tuple[HardwarePlatformPlugin, ...]:
    """All of them, in the order in which they are asked."""
    return tuple(_PLATFORMS)


def register_platform(platform: HardwarePlatformPlugin) -> None:
    """Let a platform be asked before all others. One of the same name is replaced."""
    _PLATFORMS[:] = [platform, *(known for known in _PLATFORMS if known.name != platform.name)]


def unregister_platform(name: str) -> None:
    """Forget a platform that was registered."""
    _PLATFORMS[:] = [known for known in _PLATFORMS if known.name != name]


def resolve_platform(hardware: HostHardware | None) -> HardwarePlatformPlugin:
    """The platform of a host. One of which nothing is known (``None``) is taken for a DGX Spark; see ``assumption_note``."""
    known = known_hardware(hardware)
    return next(platform for platform in _PLATFORMS if platform.matches(known))


def assumption_note(host: str, hardware: HostHardware | None) -> str | None:
    """What to tell about a host whose hardware was never seen."""
    if hardware is not None and not hardware.assumed:
        return None
    label = resolve_platform(hardware).label
    return (
        f"{host}: nothing is known of its hardware, so it is taken for a {label}; to be sure: --probe, or cluster update --infer-hardware"
    )
