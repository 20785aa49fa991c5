"""``.sparkrun/registry.yaml``: what a repository says of itself. It cannot say its own address, nor that it is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sparkrun.core.registry.errors import ManifestError, UnsafeRegistryError
from sparkrun.core.registry.model import FORMAT, MANIFEST_DIR, RegistryEntry
from sparkrun.core.registry.rules import mask_url, validate_format, validate_registry_name, validate_subpath
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean
from sparkrun.utils.yamlio import load_yaml

MANIFEST = f"{MANIFEST_DIR}/registry.yaml"

_HINT = "nothing was added; the owner of the repository has to correct the manifest"
_SHORT_KEYS = {"subpath": "recipes", "tuning_subpath": "tuning", "benchmark_subpath": "benchmarks", "mods_subpath": "mods"}
_KNOWN = frozenset({"name", "description", "enabled", "visible", "format", "url", "trusted", *_SHORT_KEYS, *_SHORT_KEYS.values()})
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def parse_manifest(text: str, url: str) -> tuple[RegistryEntry, ...]:
    """The registries that the repository at ``url`` declares, each checked and untrusted.

    Raises ``ManifestError`` that begins with the address, the file and, for broken YAML, the line; it lists every bad entry at once.
    """
    where = f"{mask_url(url)}: {MANIFEST}"
    items = _items(text, where)
    entries: list[RegistryEntry] = []
    problems: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            entry = _entry(item, url)
            if any(entry.name == other.name for other in entries):
                raise UnsafeRegistryError(f"the name '{entry.name}' stands twice")
            entries.append(entry)
        except UnsafeRegistryError as error:
            problems.append(f"registry {number}: {error.message}")
    if problems:
        raise ManifestError(f"{where}: {'; '.join(problems)}", hint=_HINT)
    return tuple(entries)


def unknown_keys(text: str) -> Iterator[str]:
    """One line for each key of a good manifest that has no effect."""
    for number, item in enumerate(_items(text, MANIFEST), 1):
        for key in map(str, item):
            if key not in _KNOWN:
                yield f"{MANIFEST}: registry {number}: unknown key '{key}'; {did_you_mean(key, sorted(_KNOWN)) or 'it has no effect'}"


def _items(text: str, where: str) -> list[Any]:
    try:
        document = load_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise ManifestError(f"{where}{line}: {error.problem or 'not YAML'}", hint=_HINT) from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    items = document.get("registries") if isinstance(document, Mapping) else None
    if not isinstance(items, list) or not items:
        raise ManifestError(f"{where} line 1: a list 'registries' with at least one entry is wanted", hint=_HINT)
    return items


def _entry(item: object, url: str) -> RegistryEntry:
    if not isinstance(item, Mapping):
        raise UnsafeRegistryError("an entry is a mapping with name and recipes")
    name = _text(item, "name")
    if not name:
        raise UnsafeRegistryError("no name")
    validate_registry_name(name, url)
    form = _text(item, "format") or FORMAT
    validate_format(form)
    folders = {key: _folder(item, key) for key in _SHORT_KEYS}
    return RegistryEntry(
        name=name,
        url=url,
        subpath=folders["subpath"] or "recipes",
        description=_text(item, "description") or "",
        enabled=_switch(item, "enabled"),
        visible=_switch(item, "visible"),
        tuning_subpath=folders["tuning_subpath"],
        benchmark_subpath=folders["benchmark_subpath"],
        mods_subpath=folders["mods_subpath"],
        format=form,
    )


def _folder(item: Mapping[Any, Any], key: str) -> str | None:
    """The canonical key wins over the short one."""
    value = _text(item, key) or _text(item, _SHORT_KEYS[key])
    return validate_subpath(value) if value else None


def _text(item: Mapping[Any, Any], key: str) -> str | None:
    value: ConfigValue = item.get(key)
    if value is None or isinstance(value, str):
        return value
    raise UnsafeRegistryError(f"{key} must be text, not {value!r}")


def _switch(item: Mapping[Any, Any], key: str) -> bool:
    value: ConfigValue = item.get(key)
    if value is None:
        return True
    word = str(value).strip().lower()
    if word not in _WORDS:
        raise UnsafeRegistryError(f"{key} must be true or false, not {value!r}")
    return _WORDS[word]
