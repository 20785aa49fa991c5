"""Rules on ``executor_config`` and the other settings that are mappings with known keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.keys import DOCKER_OPTIONS, LOCAL_OPTIONS, RUNTIME_READS
from sparkrun.core.recipe.schema import Finding
from sparkrun.utils.text import did_you_mean

_OPTIONS = {
    "executor_config": DOCKER_OPTIONS | LOCAL_OPTIONS,
    "distribution_config": frozenset({"models", "containers", "additional_models"}),
    "cluster_config": frozenset({"remote_cache_dir", "local_cache_dir", "resolved_model_path"}),
    "runtime_cache": frozenset({"enabled", "dir", "key_by_model", "key_by_image", "prune"}),
    "layout": frozenset({"requires", "placements"}),
}
_PARTS = frozenset({"enabled", "entries"})
_ENTRY = frozenset({"name", "revision", "target", "allow_patterns", "ignore_patterns"})
# A folder of one person, or where one site mounts its storage.
_SITE_LOCAL = re.compile(r"^(?:~|\$\{?HOME\b|/(?:home|Users|mnt|media|data|nas|net|srv)/)")


def unknown_options(case: Case) -> Iterator[Finding]:
    """Keys of a setting that nothing reads."""
    for field, known in _OPTIONS.items():
        value = getattr(case.recipe, field)
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                yield _unknown(case, (field,), key, known)
    yield from _unknown_distribution(case)
    for key in case.recipe.runtime_config:
        if ("runtime_config", key) in case.recipe.positions and key not in RUNTIME_READS:
            yield _unknown(case, ("runtime_config",), key, RUNTIME_READS | {"build_args", "mods"})


def _unknown_distribution(case: Case) -> Iterator[Finding]:
    said = case.recipe.distribution_config
    for part in ("models", "containers"):
        value = said.get(part)
        if not isinstance(value, dict):
            continue
        yield from (_unknown(case, ("distribution_config", part), key, _PARTS) for key in value if key not in _PARTS)
        yield from _unknown_entries(case, ("distribution_config", part, "entries"), value.get("entries"))
    yield from _unknown_entries(case, ("distribution_config", "additional_models"), said.get("additional_models"))


def _unknown_entries(case: Case, path: tuple[str, ...], entries: object) -> Iterator[Finding]:
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        for key in entry if isinstance(entry, dict) else ():
            if key not in _ENTRY:
                yield _unknown(case, (*path, number), key, _ENTRY)


def site_mounts(case: Case) -> Iterator[Finding]:
    """Mounts from a folder that other people's hosts do not have."""
    volumes = case.recipe.executor_config.get("volumes")
    for number, volume in enumerate(volumes if isinstance(volumes, list) else [volumes]):
        if isinstance(volume, str) and _SITE_LOCAL.match(volume):
            source = volume.partition(":")[0]
            message = f"the mount of {source} works only where that folder exists"
            where = case.where("executor_config", "volumes", number)
            yield Finding("warning", "non-portable-mount", message, fix="keep it in the cluster's executor settings", where=where)


def _unknown(case: Case, path: Sequence[str | int], key: str, known: frozenset[str]) -> Finding:
    near = did_you_mean(key, sorted(known))
    fix = near or "remove it"
    message = f"nothing reads {'.'.join(map(str, path))}.{key}"
    return Finding("warning" if near else "suggestion", "unknown-option", message, fix=fix, where=case.where(*path, key))


CONTAINER_RULES: tuple[Rule, ...] = (unknown_options, site_mounts)
