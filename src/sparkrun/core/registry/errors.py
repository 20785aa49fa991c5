"""What can go wrong with registries."""

from __future__ import annotations

from sparkrun.core.errors import SparkrunError


class RegistryError(SparkrunError):
    """A registry, or the list of them, cannot be used as asked."""


class UnknownRegistryError(RegistryError):
    """No registry has that name."""


class DisabledRegistryError(RegistryError):
    """The registry is switched off."""


class UnsafeRegistryError(RegistryError):
    """A name, address or path that a registry must not have."""


class ManifestError(RegistryError):
    """A repository's ``.sparkrun/registry.yaml`` cannot be used."""


class AmbiguousAssetError(RegistryError):
    """One name, several different files. ``candidates`` are the full names to choose from."""

    def __init__(self, what: str, name: str, candidates: tuple[str, ...]) -> None:
        super().__init__(f"{what} '{name}' is ambiguous: {', '.join(candidates)}", hint="use one of the full names")
        self.candidates = candidates


class GitError(RegistryError):
    """Git failed. ``reason`` is git's own first line about it."""

    def __init__(self, message: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
