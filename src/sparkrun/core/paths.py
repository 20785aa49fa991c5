"""Where sparkrun keeps its files on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sparkrun.core.errors import ConfigError


class Paths(msgspec.Struct, frozen=True):
    """The two roots of sparkrun's files and what lies in them."""

    config_dir: Path
    cache_dir: Path

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.config_dir / "config.yaml"

    @property
    def clusters_dir(self) -> Path:
        """One file a saved cluster."""
        return self.config_dir / "clusters"

    @property
    def recipes_dir(self) -> Path:
        """Personal recipes."""
        return self.config_dir / "recipes"

    @property
    def registries_file(self) -> Path:
        """The registries the user knows."""
        return self.config_dir / "registries.yaml"

    @property
    def jobs_dir(self) -> Path:
        """One file a launch."""
        return self.cache_dir / "jobs"

    @property
    def failures_dir(self) -> Path:
        """What launches that failed left to read, one file a host."""
        return self.cache_dir / "failures"


def home_dir(env: Mapping[str, str]) -> Path:
    """The user's home: ``$HOME``, or the password database where that is not set."""
    if home := env.get("HOME"):
        return Path(home)
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        raise ConfigError("HOME is not set and this user has no home directory", hint="set HOME") from None


def resolve_paths(env: Mapping[str, str], *, cache_dir: str | None = None) -> Paths:
    """``SPARKRUN_CONFIG_DIR`` and ``SPARKRUN_CACHE_DIR``, else the documented places below the home.

    ``cache_dir`` is the setting of that name; the environment wins over it.
    """
    config = env.get("SPARKRUN_CONFIG_DIR")
    cache = env.get("SPARKRUN_CACHE_DIR") or cache_dir
    return Paths(
        config_dir=expand(config, env) if config else home_dir(env) / ".config" / "sparkrun",
        cache_dir=expand(cache, env) if cache else _user_cache(env) / "sparkrun",
    )


def expand(text: str, env: Mapping[str, str]) -> Path:
    """A path with a leading ``~`` put in full, by ``env`` and not by the process; ``~NAME`` stays where no user has that name."""
    if text == "~" or text.startswith("~/"):
        return home_dir(env) / text[2:]
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _user_cache(env: Mapping[str, str]) -> Path:
    configured = env.get("XDG_CACHE_HOME")
    return Path(configured) if configured else home_dir(env) / ".cache"
