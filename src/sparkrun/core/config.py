"""The user's settings: ``config.yaml``, read tolerantly, written without losing what we do not know."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

from sparkrun.core.errors import ConfigError
from sparkrun.core.paths import Paths, resolve_paths
from sparkrun.core.values import MOST, ConfigValue, within_bounds
from sparkrun.utils.files import locked, write_atomic

D = TypeVar("D")
Settings = dict[str, ConfigValue]
_MISSING = object()


class SparkrunConfig:
    """Dotted look-up over ``config.yaml``. A value of the wrong kind gives the default and a line in ``warnings``."""

    def __init__(self, settings: Settings, paths: Paths, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._loaded = copy.deepcopy(settings)
        self.paths = paths
        self.env = env
        self.warnings: list[str] = []

    @classmethod
    def load(cls, env: Mapping[str, str]) -> SparkrunConfig:
        """The settings below ``SPARKRUN_CONFIG_DIR`` or the user's home; none is an empty file."""
        paths = resolve_paths(env)
        settings = read_settings(paths.config_file)
        cache_dir = settings.get("cache_dir")
        if isinstance(cache_dir, str):
            paths = resolve_paths(env, cache_dir=cache_dir)
        return cls(settings, paths, env)

    def get(self, key: str) -> ConfigValue:
        """The raw value at a dotted key, ``None`` when absent."""
        found = _find(self._settings, key)
        return None if found is _MISSING else cast("ConfigValue", found)

    def text(self, key: str, default: str | None = None) -> str | None:
        """A text setting."""
        value = self.get(key)
        if value is None or isinstance(value, str):
            return default if value is None else value
        return self._wrong(key, value, "text", default)

    def number(self, key: str, default: float) -> float:
        """A number setting."""
        value = self.get(key)
        if value is None:
            return default
        if within_bounds(value):
            return value
        return self._wrong(key, value, f"between -{MOST:.0f} and {MOST:.0f}" if type(value) in (int, float) else "a number", default)

    def switch(self, key: str, default: bool | None) -> bool | None:
        """A true/false setting."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        return self._wrong(key, value, "true or false", default)

    def mapping(self, key: str) -> Settings:
        """A mapping of settings; empty when absent."""
        value = self.get(key)
        if value is None or isinstance(value, dict):
            return {} if value is None else value
        return self._wrong(key, value, "a mapping", {})

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text counts as a list of one."""
        value = self.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(cast("list[str]", value))
        return self._wrong(key, value, "a list of texts", ())

    def set(self, key: str, value: ConfigValue) -> None:
        """Put a value at a dotted key; ``save`` makes it last."""
        _put(self._settings, key, value)

    def unset(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        return _drop(self._settings, key)

    def save(self) -> None:
        """Write what was changed since loading onto the file as it is now, so that concurrent edits of other keys survive."""
        from sparkrun.utils.yamlio import dump_yaml

        path = self.paths.config_file
        try:
            with locked(path.parent / ".documents.lock"):
                merged = _merge(self._loaded, self._settings, read_settings(path))
                write_atomic(path, dump_yaml(merged))
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}", hint="check the folder's permissions and the free disk space"
            ) from error
        self._settings, self._loaded = merged, copy.deepcopy(merged)

    def _wrong(self, key: str, value: object, wanted: str, default: D) -> D:
        warning = f"{self.paths.config_file}: {key} must be {wanted}, not {value!r}; the default is used"
        if warning not in self.warnings:
            self.warnings.append(warning)
        return default


def read_settings(path: Path) -> Settings:
    """The mapping in a YAML file, empty when the file is missing. Raises ``ConfigError`` with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return _parse(path, text)


def _parse(path: Path, text: str) -> Settings:
    import yaml  # only when there is a file to read: a bare command pays nothing

    from sparkrun.utils.yamlio import load_yaml

    try:
        value = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(
            f"{path}{where}: {getattr(error, 'problem', None) or error}", hint="correct the line, or move the file away"
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: a mapping of settings is wanted, not {type(value).__name__}")
    return cast("Settings", value)


def _find(settings: Mapping[str, object], key: str) -> object:
    found: object = settings
    if key in settings:
        return settings[key]
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _MISSING
        found = found[part]
    return found


def _put(settings: Settings, key: str, value: ConfigValue) -> None:
    *parents, last = key.split(".")
    target = settings
    for part in parents:
        inner = target.get(part)
        if not isinstance(inner, dict):
            inner = target[part] = {}
        target = inner
    target[last] = value


def _drop(settings: Settings, key: str) -> bool:
    *parents, last = key.split(".")
    target = settings
    for part in parents:
        inner = target.get(part)
        if not isinstance(inner, dict):
            return False
        target = inner
    return target.pop(last, _MISSING) is not _MISSING


def _merge(base: Settings, ours: Settings, theirs: Settings) -> Settings:
    """Three-way: a key that we changed since ``base`` is ours, any other is what the file holds now."""
    merged: Settings = {}
    for key in dict.fromkeys([*theirs, *ours]):
        mine, other, before = ours.get(key, _MISSING), theirs.get(key, _MISSING), base.get(key, _MISSING)
        if isinstance(mine, dict) and isinstance(other, dict):
            merged[key] = _merge(before if isinstance(before, dict) else {}, mine, other)
        else:
            kept = other if mine == before else mine
            if kept is not _MISSING:
                merged[key] = cast("ConfigValue", kept)
    return merged
