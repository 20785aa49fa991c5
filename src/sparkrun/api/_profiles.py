"""Benchmark profiles."""

from __future__ import annotations

from sparkrun.core.benchmark_profiles import BenchmarkProfile, ProfileList, find_profile, list_profiles
from sparkrun.core.context import SparkrunContext
from sparkrun.core.resolve import resolve_context


def benchmark_profiles(*, registry: str | None = None, hidden: bool = False, sctx: SparkrunContext) -> ProfileList:
    """The user's own benchmark profiles and those of the registries. A registry that was never fetched is fetched first, unless offline.

    Raises ``UsageError`` for an unknown or disabled registry.
    """
    return list_profiles(resolve_context(sctx), registry=registry, hidden=hidden)


def benchmark_profile(name: str, *, sctx: SparkrunContext) -> BenchmarkProfile:
    """A benchmark profile by name, ``@registry/name`` or path. Raises ``ProfileError``, or what finding a registry's file raises."""
    return find_profile(name, resolve_context(sctx))
