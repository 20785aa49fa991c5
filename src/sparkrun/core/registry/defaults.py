"""The registries that sparkrun knows before anybody has added one."""

from __future__ import annotations

from typing import NamedTuple

from sparkrun.core.registry.model import RegistryEntry
from sparkrun.core.registry.rules import normalized_url

_AUTHOR = "https://github.com/dbotwinick/sparkrun-recipe-registry.git"
_ARENA = "https://github.com/spark-arena/recipe-registry.git"
_COMMUNITY = "https://github.com/spark-arena/community-recipe-registry.git"
_EUGR = "https://github.com/spark-arena/eugr-recipes"
_ATLAS = "https://github.com/Atlas-Inf/sparkrun-recipes.git"

BOOTSTRAP_REGISTRY_URLS = (_AUTHOR, _ARENA, _COMMUNITY)
"""Repositories whose manifests are read, in this order, when there is no ``registries.yaml`` yet."""

FALLBACK_DEFAULT_REGISTRIES = (
    RegistryEntry(
        name="sparkrun-testing",
        url=_AUTHOR,
        subpath="testing/recipes",
        description="Recipes under test",
        tuning_subpath="testing/tuning",
        benchmark_subpath="testing/benchmarking",
        visible=False,
        trusted=True,
    ),
    RegistryEntry(
        name="official",
        url=_ARENA,
        subpath="official-recipes",
        description="Official Spark Arena recipes, tuning configs and benchmark profiles",
        tuning_subpath="tuning",
        benchmark_subpath="benchmarking",
        trusted=True,
    ),
    RegistryEntry(name="eugr", url=_EUGR, description="Recipes and mods for the eugr vLLM images", mods_subpath="mods", trusted=True),
    RegistryEntry(
        name="sparkrun-transitional",
        url=_AUTHOR,
        subpath="transitional/recipes",
        description="Recipes on their way to another registry",
        tuning_subpath="testing/tuning",
        trusted=True,
    ),
    RegistryEntry(
        name="experimental",
        url=_ARENA,
        subpath="experimental-recipes",
        description="Experimental Spark Arena recipes",
        tuning_subpath="experimental-tuning",
        mods_subpath="experimental-mods",
        visible=False,
        trusted=True,
    ),
    RegistryEntry(
        name="community",
        url=_COMMUNITY,
        description="Recipes of the Spark Arena community",
        tuning_subpath="tuning",
        benchmark_subpath="benchmarking",
        visible=False,
        trusted=True,
    ),
    RegistryEntry(name="atlas", url=_ATLAS, description="Recipes for the Atlas engine", visible=False, trusted=True),
)
"""Used for every name that no manifest declares. Their names and addresses are the only ones that are trusted from the start."""


class Moved(NamedTuple):
    """A repository that has a new address. ``trusted``: the shipped name at the new address is trusted, whatever the old entry said."""

    old: str
    new: str
    trusted: bool


_MOVED = {
    moved.old: moved
    for moved in (
        Moved("github.com/eugr/spark-vllm-docker", _EUGR, trusted=False),
        Moved("github.com/avarok-cybersecurity/atlas-recipes", _ATLAS, trusted=True),
    )
}
_DEPRECATED = ("github.com/scitrera/oss-spark-run",)
_BY_NAME = {entry.name: entry for entry in FALLBACK_DEFAULT_REGISTRIES}
_TRUSTED_URLS = frozenset(normalized_url(entry.url) for entry in FALLBACK_DEFAULT_REGISTRIES if entry.trusted)


def is_default(name: str) -> bool:
    """Whether sparkrun ships a registry of that name."""
    return name in _BY_NAME


def is_trusted_default(name: str, url: str) -> bool:
    """Whether the built-in table trusts this name at this address."""
    entry = _BY_NAME.get(name)
    return entry is not None and entry.trusted and normalized_url(entry.url) == normalized_url(url)


def is_trusted_url(url: str) -> bool:
    """Whether any shipped registry at this address is trusted; the rule for files that had no trust yet."""
    return normalized_url(url) in _TRUSTED_URLS


def is_deprecated(url: str) -> bool:
    """Whether the repository is given up."""
    return normalized_url(url) in _DEPRECATED


def moved_from(url: str) -> Moved | None:
    """Where a repository has gone, if it has."""
    return _MOVED.get(normalized_url(url))


def default_for(entry: RegistryEntry) -> RegistryEntry | None:
    """The shipped registry that shows the same folder of the same repository."""
    at = normalized_url(entry.url), entry.subpath
    return next((known for known in FALLBACK_DEFAULT_REGISTRIES if (normalized_url(known.url), known.subpath) == at), None)
