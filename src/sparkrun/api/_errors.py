"""Every error that ``sparkrun.api`` raises."""

# ruff: noqa: F403, F405 - the list below is the one place where they are named; mypy and tests/api/test_names.py read it

from sparkrun.core.errors import *

__all__ = [
    "AlreadyRunningError",
    "AmbiguousWorkloadError",
    "BuildFailedError",
    "ConfigError",
    "DockerUnavailableError",
    "EngineDiedError",
    "EngineMissingError",
    "ExecutorUnavailableError",
    "HostUnreachableError",
    "HostsBusyError",
    "HostsError",
    "ImageMissingError",
    "IncompatibleHardwareError",
    "Interrupted",
    "LaunchFailedError",
    "ModelMissingError",
    "NoValueError",
    "NotCachedError",
    "NotReadyError",
    "PlacementError",
    "PluginError",
    "PortInUseError",
    "RecipeError",
    "RecipeNotFoundError",
    "RecipeSyntaxError",
    "SparkrunError",
    "StageFailedError",
    "StateError",
    "StopFailedError",
    "UnknownPlaceholderError",
    "UnknownWorkloadError",
    "UsageError",
]
