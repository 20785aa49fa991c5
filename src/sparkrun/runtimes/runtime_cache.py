"""The compile cache that outlives a container: its folder on the host, its mount, and the variables that point into it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from sparkrun.core.plan import Mount

CONTAINER_CACHE = "/cache/runtime"
"""Where the folder is mounted."""
PRUNE_AFTER_DAYS = 30
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
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``runtime_cache`` of a recipe. ``dir`` replaces the folder below the host's own sparkrun cache; ages are days."""

    enabled: bool = True
    dir: str | None = None
    key_by_model: bool = True
    key_by_image: bool = False
    prune: bool = True
    max_age_days: float = PRUNE_AFTER_DAYS


class CacheKey(msgspec.Struct, frozen=True, kw_only=True):
    """Whose compiled kernels they are."""

    family: str
    model: str
    image: str = ""


class RuntimeCache(msgspec.Struct, frozen=True):
    """What a launch needs of the cache on one host."""

    host_dir: str
    env: dict[str, str]

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
    root = settings.dir or f"{cache_dir}/runtime-cache"
    parts = [root.rstrip("/"), key.family]
    if settings.key_by_image and key.image:
        parts.append(cache_label(key.image))
    if settings.key_by_model:
        parts.append(cache_label(key.model))
    env = {name: f"{CONTAINER_CACHE}/{folder}" if folder else CONTAINER_CACHE for name, folder in variables.items()}
    return RuntimeCache("/".join(parts), env)


def cache_label(identity: str) -> str:
    """A folder's name for a model or an image: readable, and with 8 hex digits of SHA-256 so that no two share it."""
    readable = _UNSAFE.sub("_", identity.strip("/").replace("/", "__"))[:120].lstrip(".") or "_"
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
