"""The errors of sparkrun: one class a situation, raised where the situation is known, rendered once by the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class SparkrunError(Exception):
    """Something that the user can understand and act on.

    ``str(error)`` says what, where and the numbers; ``hint`` says what to do next.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def reword(self, message: str) -> None:
        """Put another message in place of its own."""
        self.message = message
        self.args = (message,)


class UsageError(SparkrunError):
    """The request itself is wrong: an option, a value or a combination of them."""

    exit_code: ClassVar[int] = 2


class NoValueError(UsageError):
    """A setting (``-o KEY=VALUE``) that was given without its value."""

    exit_code: ClassVar[int] = 1


class ConfigError(SparkrunError):
    """A file of the user's configuration cannot be used."""


class StateError(SparkrunError):
    """sparkrun's own files (cache, job metadata) cannot be read or written."""


class Interrupted(SparkrunError):
    """The user pressed Ctrl-C, or a signal had the same meaning; what the message says was done about it is done."""

    exit_code: ClassVar[int] = 130


class RecipeError(SparkrunError):
    """A recipe cannot be used as it is written."""


class RecipeSyntaxError(RecipeError):
    """A recipe file is not YAML, or not the shape of a recipe. The message begins with ``file:line:col``."""

    exit_code: ClassVar[int] = 2


class RecipeNotFoundError(RecipeError):
    """No recipe of that name or path."""


class UnknownPlaceholderError(RecipeError):
    """The command names configuration keys that exist nowhere in the chain."""


class HostsError(SparkrunError):
    """The hosts of a command cannot be told."""


class PluginError(SparkrunError):
    """A plugin is unknown, broken or of the wrong kind."""


class ExecutorUnavailableError(PluginError):
    """The wanted executor is unknown or switched off; nothing else is tried in its place."""


class HostUnreachableError(SparkrunError):
    """A host did not answer, so its state is unknown."""


class DockerUnavailableError(SparkrunError):
    """Docker cannot be used on a host."""


class PortInUseError(SparkrunError):
    """Something else listens on the port that the engine needs."""


class ModelMissingError(SparkrunError):
    """The model's files are not where the recipe says."""


class NotCachedError(SparkrunError):
    """No cache that was looked at holds what was named."""


class ImageMissingError(SparkrunError):
    """A host lacks the image, and nothing can bring it there."""


class BuildFailedError(SparkrunError):
    """An image could not be built, or not be fetched anew."""


class EngineMissingError(SparkrunError):
    """No engine that can run the recipe was found on the host."""


class PlacementError(SparkrunError):
    """The recipe does not fit on the given hosts."""


class LaunchFailedError(SparkrunError):
    """A stage of a launch failed; what this launch had started was undone."""


class StageFailedError(LaunchFailedError):
    """Actions of a stage failed. ``output`` is by host what a command that failed there printed."""

    def __init__(self, message: str, *, hint: str | None = None, output: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.output = dict(output or {})


class EngineDiedError(LaunchFailedError):
    """The engine ended before it answered."""


class NotReadyError(LaunchFailedError):
    """The engine lives but did not answer in time."""


class HostsBusyError(SparkrunError):
    """Another launch has been at work on a host for too long to wait for it."""


class AlreadyRunningError(SparkrunError):
    """The same workload runs already."""


class UnknownWorkloadError(SparkrunError):
    """No running workload answers to that name."""


class AmbiguousWorkloadError(SparkrunError):
    """More than one running workload answers to that name."""


class StopFailedError(SparkrunError):
    """A workload, or part of it, could not be confirmed stopped."""


class IncompatibleHardwareError(SparkrunError):
    """A host lacks what the engine needs; found before anything is touched."""

    def __init__(self, host: str, capability: str, *, runtime: str = "", found: str = "") -> None:
        """``found`` says what the host has instead."""
        needs = f"{runtime} needs" if runtime else "needs"
        super().__init__(
            f"{host}: {needs} '{capability}', the host has {found or 'no accelerator'}",
            hint="choose another host with -H, or a recipe whose runtime suits this one",
        )
        self.host, self.capability, self.runtime = host, capability, runtime
