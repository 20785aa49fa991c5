"""``registries.yaml``: read tolerantly, also as earlier versions wrote it; written without losing what we do not know."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from sparkrun.core.errors import ConfigError
from sparkrun.core.registry.defaults import (
    BOOTSTRAP_REGISTRY_URLS,
    FALLBACK_DEFAULT_REGISTRIES,
    default_for,
    is_deprecated,
    is_trusted_default,
    is_trusted_url,
    moved_from,
)
from sparkrun.core.registry.errors import UnsafeRegistryError
from sparkrun.core.registry.model import FORMAT, RegistryEntry
from sparkrun.core.registry.rules import validate_format, validate_registry_name, validate_registry_url, validate_subpath
from sparkrun.core.values import ConfigValue
from sparkrun.utils.files import locked, write_atomic
from sparkrun.utils.kept import read_once

CONFIG_VERSION = 1

_OPTIONAL_FOLDERS = ("tuning_subpath", "benchmark_subpath", "mods_subpath")
_TEXTS = ("description", "declared_by")
_SWITCHES = ("enabled", "visible", "trusted")
_KNOWN = frozenset({"name", "url", "subpath", "format", *_OPTIONAL_FOLDERS, *_TEXTS, *_SWITCHES})
_TOP_LEVEL = frozenset({"config_version", "registries", "suppressed_plugin_registries", "pending_bootstrap_urls"})
_WRITE_HINT = "check the folder's permissions and the free disk space"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

Settings = dict[str, ConfigValue]


class RegistryState(msgspec.Struct, frozen=True, kw_only=True):
    """What ``registries.yaml`` says, and what was odd about it."""

    entries: tuple[RegistryEntry, ...]
    suppressed: tuple[str, ...] = ()
    """Names that the user removed and that an update must not bring back."""
    pending_urls: tuple[str, ...] = ()
    """Bootstrap repositories whose manifest has not been read yet."""
    saved: bool = False
    """Whether there is a file; without one the entries are the shipped ones."""
    frozen_because: str | None = None
    """Why the file must not be written."""
    outdated: bool = False
    """The file says something that this version writes differently."""
    warnings: tuple[str, ...] = ()
    kept: tuple[Settings, ...] = ()
    """Entries that are not understood, kept for saving."""
    extra: Settings = {}
    """Keys of the file that this version does not know."""


def fresh_state() -> RegistryState:
    """The state before anything was saved: the shipped registries, every manifest still to be read."""
    return RegistryState(entries=FALLBACK_DEFAULT_REGISTRIES, pending_urls=BOOTSTRAP_REGISTRY_URLS)


class RegistryStore:
    """The file ``registries.yaml`` at ``path``; what it says is kept in ``cache_dir``."""

    def __init__(self, path: Path, cache_dir: Path) -> None:
        self.path = path
        self._kept = cache_dir / "registries.json"

    def load(self) -> RegistryState:
        """What the file says now. One that cannot be used is left alone and gives the shipped registries, untrusted, and a warning."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return fresh_state()
        except (OSError, UnicodeDecodeError) as error:
            return self._unreadable(str(error))
        try:
            document = read_once(text, _read_yaml, self._kept)
        except ValueError as error:
            return self._unreadable(str(error))
        if not isinstance(document, Mapping) or not isinstance(document.get("registries") or [], list):
            return self._unreadable("a mapping with a list 'registries' is wanted")
        return parse_state(document, str(self.path))

    def edit(self, change: Callable[[RegistryState], RegistryState]) -> RegistryState:
        """Change the file as it is now, under a lock. Raises ``ConfigError`` when it must not or cannot be written."""
        try:
            with locked(self.path.parent / ".documents.lock"):
                before = self.load()
                after = change(before)
                if after == before and before.saved and not before.outdated:
                    return before
                if before.frozen_because:
                    raise ConfigError(f"{self.path} is not changed: {before.frozen_because}", hint="correct the file, or move it away")
                from sparkrun.utils.yamlio import dump_yaml  # only who writes needs it

                write_atomic(self.path, dump_yaml(render_state(after)), mode=self._mode())
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}", hint=_WRITE_HINT) from error
        return msgspec.structs.replace(after, saved=True, outdated=False)

    def delete(self) -> None:
        """Forget everything; the next use begins with the shipped registries."""
        try:
            with locked(self.path.parent / ".documents.lock"):
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot remove {self.path}: {error.strerror}") from error

    def _mode(self) -> int:
        try:
            return self.path.stat().st_mode & 0o777
        except OSError:
            return 0o644

    def _unreadable(self, reason: str) -> RegistryState:
        copy = self.path.with_name(self.path.name + ".unreadable")
        warning = f"{self.path}: {reason}; the shipped registries are used and nothing is trusted"
        with contextlib.suppress(OSError):
            data = self.path.read_bytes()
            handle = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            warning += f"; a copy is {copy.name}"
        return msgspec.structs.replace(
            fresh_state(),
            entries=tuple(msgspec.structs.replace(entry, trusted=False) for entry in FALLBACK_DEFAULT_REGISTRIES),
            pending_urls=(),
            saved=True,
            frozen_because=reason,
            warnings=(warning,),
        )


def parse_state(document: Mapping[Any, Any], name: str) -> RegistryState:
    """The state in a file of any known version. ``name`` is what warnings call the file."""
    version = _version(document.get("config_version"))
    items: list[Any] = document.get("registries") or []
    read = _read_entries(items, name)
    without_trust = version == 0 and not any(isinstance(item, Mapping) and "trusted" in item for item in items)
    entries = tuple(migrate(entry, without_trust=without_trust) for entry in read.entries if not is_deprecated(entry.url))
    newer = f"a newer sparkrun wrote it (config_version {version}, this one knows {CONFIG_VERSION})"
    return RegistryState(
        entries=entries,
        suppressed=_texts(document.get("suppressed_plugin_registries")),
        pending_urls=_texts(document.get("pending_bootstrap_urls")),
        saved=True,
        outdated=version < CONFIG_VERSION or entries != read.entries,
        frozen_because=newer if version > CONFIG_VERSION else None,
        warnings=read.warnings,
        kept=read.kept,
        extra={str(key): value for key, value in document.items() if key not in _TOP_LEVEL},
    )


def migrate(entry: RegistryEntry, *, without_trust: bool = False) -> RegistryEntry:
    """An entry as earlier versions wrote it, brought to where its repository is now.

    ``without_trust``: the file knew no trust yet, so the address decides.
    """
    moved = moved_from(entry.url)
    if moved:
        entry = msgspec.structs.replace(entry, url=moved.new)
    if without_trust:
        entry = msgspec.structs.replace(entry, trusted=is_trusted_url(entry.url))
    elif moved and moved.trusted and is_trusted_default(entry.name, entry.url):
        entry = msgspec.structs.replace(entry, trusted=True)
    shipped = default_for(entry)
    return _fill(entry, shipped) if shipped else entry


def render_state(state: RegistryState) -> Settings:
    """The document to write, in the documented order, defaults left out."""
    registries: list[ConfigValue] = [_render_entry(entry) for entry in state.entries]
    document: Settings = {"config_version": CONFIG_VERSION, "registries": [*registries, *state.kept]}
    if state.suppressed:
        document["suppressed_plugin_registries"] = list(state.suppressed)
    if state.pending_urls:
        document["pending_bootstrap_urls"] = list(state.pending_urls)
    return {**document, **state.extra}


class _Read(NamedTuple):
    entries: tuple[RegistryEntry, ...]
    kept: tuple[Settings, ...]
    warnings: tuple[str, ...]


def _read_entries(items: list[Any], name: str) -> _Read:
    """The good entries; the others as they are, with a warning each."""
    entries: dict[str, RegistryEntry] = {}
    kept: list[Settings] = []
    warnings: list[str] = []
    for number, item in enumerate(items, 1):
        where = f"{name}: registry {number}"
        try:
            entry = _Reader(item, where, warnings).entry()
            if entry.name in entries:
                raise UnsafeRegistryError(f"the name '{entry.name}' stands twice; the first counts")
            entries[entry.name] = entry
        except UnsafeRegistryError as error:
            warnings.append(f"{where} is skipped: {error.message}")
            if isinstance(item, Mapping):
                kept.append({str(key): value for key, value in item.items()})
    return _Read(tuple(entries.values()), tuple(kept), tuple(warnings))


class _Reader:
    """One raw entry. Raises ``UnsafeRegistryError`` for what must not be used; lesser oddities become warnings."""

    def __init__(self, item: object, where: str, warnings: list[str]) -> None:
        if not isinstance(item, Mapping):
            raise UnsafeRegistryError("an entry is a mapping with name, url and subpath")
        self.item = {str(key): value for key, value in item.items()}
        self.where = where
        self.warnings = warnings

    def entry(self) -> RegistryEntry:
        name, url = self._required("name"), self._required("url")
        validate_registry_name(name)
        validate_registry_url(url)
        form = self._optional("format") or FORMAT
        validate_format(form)
        return RegistryEntry(
            name=name,
            url=url,
            subpath=validate_subpath(self._required("subpath")),
            description=self._optional("description") or "",
            declared_by=self._optional("declared_by"),
            format=form,
            extra={key: cast("ConfigValue", value) for key, value in self.item.items() if key not in _KNOWN},
            enabled=self._switch("enabled", True),
            visible=self._switch("visible", True),
            trusted=self._switch("trusted", False),
            tuning_subpath=self._folder("tuning_subpath"),
            benchmark_subpath=self._folder("benchmark_subpath"),
            mods_subpath=self._folder("mods_subpath"),
        )

    def _required(self, key: str) -> str:
        value = self.item.get(key)
        if not isinstance(value, str) or not value:
            raise UnsafeRegistryError(f"{key} must be text")
        return value

    def _optional(self, key: str) -> str | None:
        value = self.item.get(key)
        if value is None or isinstance(value, str):
            return value or None
        raise UnsafeRegistryError(f"{key} must be text, not {value!r}")

    def _folder(self, key: str) -> str | None:
        value = self._optional(key)
        return validate_subpath(value) if value else None

    def _switch(self, key: str, default: bool) -> bool:
        value = self.item.get(key)
        word = str(value).strip().lower()
        if value is None or word in _TRUE or word in _FALSE:
            return default if value is None else word in _TRUE
        self.warnings.append(f"{self.where}: {key} must be true or false, not {value!r}; {str(default).lower()} is used")
        return default


def _fill(entry: RegistryEntry, shipped: RegistryEntry) -> RegistryEntry:
    missing = {key: getattr(shipped, key) for key in _OPTIONAL_FOLDERS if getattr(entry, key) is None and getattr(shipped, key)}
    return msgspec.structs.replace(entry, **missing) if missing else entry


def _render_entry(entry: RegistryEntry) -> Settings:
    return dict(_entry_fields(entry)) | entry.extra


def _entry_fields(entry: RegistryEntry) -> Iterator[tuple[str, ConfigValue]]:
    yield from (("name", entry.name), ("url", entry.url), ("subpath", entry.subpath))
    if entry.description:
        yield "description", entry.description
    if not entry.enabled:
        yield "enabled", False
    if not entry.visible:
        yield "visible", False
    for key in _OPTIONAL_FOLDERS:
        if value := getattr(entry, key):
            yield key, value
    yield "trusted", entry.trusted
    if entry.format != FORMAT:
        yield "format", entry.format
    if entry.declared_by:
        yield "declared_by", entry.declared_by


def _version(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _read_yaml(text: str) -> object:
    """The document in ``text``. Raises ``ValueError`` that says what is wrong and where."""
    import yaml  # a third of the time that a list takes

    from sparkrun.utils.yamlio import load_yaml

    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(_where(error)) from error


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"line {mark.line + 1}: {problem}" if mark else problem
