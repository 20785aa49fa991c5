"""Registries: recipes, mods, tuning configs and benchmark profiles in git repositories."""

from sparkrun.core.registry.assets import AssetFolder, RegistryAsset, find_asset_in_registries, iter_asset_files, the_asset
from sparkrun.core.registry.defaults import BOOTSTRAP_REGISTRY_URLS, FALLBACK_DEFAULT_REGISTRIES
from sparkrun.core.registry.errors import (
    AmbiguousAssetError,
    DisabledRegistryError,
    GitError,
    ManifestError,
    RegistryError,
    UnknownRegistryError,
    UnsafeRegistryError,
)
from sparkrun.core.registry.manager import RegistryManager
from sparkrun.core.registry.model import AssetKind, RegistryEntry
from sparkrun.core.registry.results import (
    AddResult,
    ChangeResult,
    OpenedFolders,
    RegistryFailure,
    RegistryInfo,
    RevertResult,
    UpdateReport,
    UpdateResult,
)
from sparkrun.core.registry.rules import BUILTIN, validate_registry_name, validate_registry_url

__all__ = [
    "BOOTSTRAP_REGISTRY_URLS",
    "BUILTIN",
    "FALLBACK_DEFAULT_REGISTRIES",
    "AddResult",
    "AmbiguousAssetError",
    "AssetFolder",
    "AssetKind",
    "ChangeResult",
    "DisabledRegistryError",
    "GitError",
    "ManifestError",
    "OpenedFolders",
    "RegistryAsset",
    "RegistryEntry",
    "RegistryError",
    "RegistryFailure",
    "RegistryInfo",
    "RegistryManager",
    "RevertResult",
    "UnknownRegistryError",
    "UnsafeRegistryError",
    "UpdateReport",
    "UpdateResult",
    "find_asset_in_registries",
    "iter_asset_files",
    "the_asset",
    "validate_registry_name",
    "validate_registry_url",
]
