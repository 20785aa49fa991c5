"""The compile cache that outlives a container: its folder on the host, its mount, and the variables that point into it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.plan import Mount
from sparkrun.core.recipe import Values
from sparkrun.core.values import ConfigValue

FOLDER = "runtime-cache"
"""Its place in a host's sparkrun cache."""
CONTAINER_CACHE = "/cache/runtime"
"""Where the folder is mounted."""
PRUNE_AFTER_DAYS = 30
MOST_DAYS = 100_000
COMPILER_CACHES = {
    "XDG_CACHE_HOME": "",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_CACHE_DIR": "flashinfer",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUTE_DSL_CACHE_DIR": "cute_dsl",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "flash_attn_cute_dsl",
}
"""Variables of the compilers that vLLM and SGLang share, with the folder of each."""
_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``runtime_cache`` of a recipe, a cluster or config.yaml. ``dir`` replaces the folder below the host's own sparkrun cache; ages are
    days, 0 is never."""

    enabled: bool = True
    dir: str | None = None
    key_by_model: bool = True
    key_by_image: bool = False
    prune: bool = True
    max_age_days: Annotated[float, msgspec.Meta(ge=0, le=MOST_DAYS)] = PRUNE_AFTER_DAYS


def cache_settings(written: Values | bool | None, where: str) -> CacheSettings:
    """What ``runtime_cache`` says at ``where``. Raises ``RecipeError`` for a value of the wrong kind."""
    if not isinstance(written, dict):
        return CacheSettings(enabled=written is not False)
    prune = written.get("prune")
    age = (
        {"prune": prune.get("enabled", True), "max_age_days": prune.get("max_age_days", PRUNE_AFTER_DAYS)}
        if isinstance(prune, dict)
        else {}
    )
    try:
        return msgspec.convert({key: _switch(value) for key, value in {**written, **age}.items()}, CacheSettings, strict=False)
    except msgspec.ValidationError as error:
        hint = "enabled, key_by_model and key_by_image are true or false; prune is {enabled, max_age_days}, days from 0 on; dir is a folder"
        raise RecipeError(f"{where}: runtime_cache: {error}", hint=hint) from error


def _switch(value: ConfigValue) -> ConfigValue:
    """YAML 1.2 reads ``no`` as text; people still mean a switch."""
    return _SWITCHES.get(value.strip().lower(), value) if isinstance(value, str) else value


class CacheKey(msgspec.Struct, frozen=True, kw_only=True):
    """Whose compiled kernels they are."""

    family: str
    model: str
    image: str = ""


class RuntimeCache(msgspec.Struct, frozen=True):
    """What a launch needs of the cache on one host. ``root`` is the folder of all entries; those unused for longer go, 0 is never."""

    host_dir: str
    env: dict[str, str]
    root: str = ""
    max_age_days: float = 0

    @property
    def mount(self) -> Mount:
        """The folder in the container; made on the host where it is missing."""
        return Mount(self.host_dir, CONTAINER_CACHE, create=True)


def plan_runtime_cache(settings: CacheSettings, key: CacheKey, variables: Mapping[str, str], cache_dir: str) -> RuntimeCache | None:
    """The cache of a launch on one host, whose sparkrun cache is ``cache_dir``; ``None`` when it is switched off.

    ``variables`` name folders below the mount; the one for ``XDG_CACHE_HOME`` is the mount itself.
    """
    if not settings.enabled:
        return None
    root = (settings.dir or f"{cache_dir}/{FOLDER}").rstrip("/")
    parts = [root, key.family]
    if settings.key_by_image and key.image:
        parts.append(cache_label(key.image))
    if settings.key_by_model:
        parts.append(cache_label(key.model))
    env = {name: f"{CONTAINER_CACHE}/{folder}" if folder else CONTAINER_CACHE for name, folder in variables.items()}
    return RuntimeCache("/".join(parts), env, root, settings.max_age_days if settings.prune else 0)


def cache_label(identity: str) -> str:
    """A folder's name for a model or an image: readable, and with 8 hex digits of SHA-256 so that no two share it."""
    readable = _UNSAFE.sub("_", identity.strip("/").replace("/", "__"))[:120].lstrip(".") or "_"
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
