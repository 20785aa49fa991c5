"""Kinds of machines, and what each brings along."""

from sparkrun.platforms.amd import AmdPlatform
from sparkrun.platforms.base import GpuAccessMode, HardwarePlatformPlugin
from sparkrun.platforms.cpu import CpuPlatform
from sparkrun.platforms.dgx_spark import DgxSparkPlatform
from sparkrun.platforms.intel import IntelGaudiPlatform
from sparkrun.platforms.nvidia import GenericNvidiaPlatform
from sparkrun.platforms.registry import assumption_note, platforms, register_platform, resolve_platform, unregister_platform

__all__ = [
    "AmdPlatform",
    "CpuPlatform",
    "DgxSparkPlatform",
    "GenericNvidiaPlatform",
    "GpuAccessMode",
    "HardwarePlatformPlugin",
    "IntelGaudiPlatform",
    "assumption_note",
    "platforms",
    "register_platform",
    "resolve_platform",
    "unregister_platform",
]
