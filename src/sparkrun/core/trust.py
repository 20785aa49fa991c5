"""Whose recipes may do what: who is trusted, what only trusted recipes may set, and what no recipe may mount."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.model_source import parse_model
from sparkrun.core.recipe.fields import dotted
from sparkrun.core.recipe.places import KeyPath
from sparkrun.core.recipe.schema import Hook, Recipe, RecipeSource, Values
from sparkrun.core.registry import RegistryManager
from sparkrun.core.values import ConfigValue

ActionPlace = Literal["every container", "the head container", "this machine"]

IPC_MODES = ("none", "private", "shareable")
"""What ``executor_config.ipc`` of an untrusted recipe may be: none of them shares memory with the host."""

BUILD_SOURCE = ("repo", "ref", "smoke_test")
"""What of ``builder_config`` decides which program builds an image on a host, or what runs in it before a launch."""

DENIED_MOUNTS = ("/etc", "/boot", "/proc", "/sys", "/dev", "/root", "/run", "/var/run", "/var/lib/docker")
"""Folders of a host that no recipe may mount, nor anything below them."""

_PREDICATES: dict[str, Callable[[ConfigValue], bool]] = {
    "privileged": lambda value: value not in (None, False),
    "cap_add": bool,
    # An empty list takes the default profile and no-new-privileges away.
    "security_opt": lambda _value: True,
    "devices": bool,
    "user": lambda _value: True,
    "volumes": bool,
    "ipc": lambda value: value is not None and value not in IPC_MODES,
}


class TrustVerdict(NamedTuple):
    """Whether a recipe's hooks, mods and host settings run unasked, and why or why not."""

    trusted: bool
    reason: str


class UntrustedRecipeError(RecipeError):
    """A recipe sets what only a trusted one may set. ``keys`` are the dotted names."""

    def __init__(self, verdict: TrustVerdict, refused: tuple[RefusedKey, ...], source: RecipeSource) -> None:
        told = "; ".join(f"{key.where}: {key.name} {key.why}" for key in refused)
        all_of_it = f", sparkrun registry trust {source.registry} allows all recipes of the registry" if source.registry else ""
        super().__init__(f"{told} ({verdict.reason})", hint=f"--trust allows it this once{all_of_it}; read the recipe first")
        self.keys = tuple(key.name for key in refused)


class DeniedMountError(RecipeError):
    """A recipe mounts a folder that no recipe may mount."""


class RefusedKey(msgspec.Struct, frozen=True):
    """A key that only a trusted recipe may set, and where it stands."""

    name: str
    where: str
    why: str


class HostAction(msgspec.Struct, frozen=True):
    """Something that a recipe runs besides its engine, and that an untrusted one must ask for."""

    key: str
    text: str
    place: ActionPlace


def recipe_trust(source: RecipeSource, manager: RegistryManager) -> TrustVerdict:
    """Whether a recipe is trusted now. A registry's is, if its entry is and still has the address that the recipe was read from."""
    if source.kind == "url":
        return TrustVerdict(False, "a recipe from an address is never trusted")
    if source.registry and source.kind == "registry":
        if not manager.trusts(source.registry, source.url or ""):
            return TrustVerdict(False, f"registry '{source.registry}' is not trusted")
        if not source.trusted:
            return TrustVerdict(False, "it includes a recipe that is not trusted, or the registry was not trusted when it was read")
        return TrustVerdict(True, f"registry '{source.registry}' is trusted")
    if not source.trusted:
        return TrustVerdict(False, "it is, or includes, a recipe that is not trusted")
    return TrustVerdict(True, "it comes with sparkrun" if source.kind == "builtin" else "it is your own file")


def host_actions(recipe: Recipe) -> tuple[HostAction, ...]:
    """What to ask for before an untrusted recipe runs: its mods and hooks, in the order in which they run."""
    mods = (HostAction(f"mods[{number}]", mod, "every container") for number, mod in enumerate(recipe.mods, 1))
    return (
        *mods,
        *_hook_actions("pre_exec", recipe.pre_exec, "every container"),
        *_hook_actions("post_exec", recipe.post_exec, "the head container"),
        *_hook_actions("post_commands", recipe.post_commands, "this machine"),
    )


def refuse_untrusted(recipe: Recipe, verdict: TrustVerdict) -> None:
    """Raise ``UntrustedRecipeError``, which names every key with its place, for an untrusted recipe that reaches for the host."""
    refused = () if verdict.trusted else refused_keys(recipe)
    if refused:
        raise UntrustedRecipeError(verdict, refused, recipe.source)


def refused_keys(recipe: Recipe) -> tuple[RefusedKey, ...]:
    """The keys of a recipe that only a trusted one may set."""
    return tuple(RefusedKey(dotted(path), recipe.where(*path), why) for path, why in _refused(recipe))


def check_mounts(recipe: Recipe, resolve: Callable[[str], str] = os.path.realpath) -> None:
    """Raise ``DeniedMountError`` for a mount that no recipe may have, trusted or not. ``resolve`` follows links on this machine."""
    for path, source in mount_sources(recipe):
        if problem := mount_problem(source, resolve):
            raise DeniedMountError(f"{recipe.where(*path)}: {dotted(path)}: {problem}", hint="mount a folder of your own, by its full path")


def mount_problem(source: str, resolve: Callable[[str], str] = os.path.realpath) -> str | None:
    """Why a folder of a host must not be mounted, ``None`` when it may be."""
    if not source.startswith("/"):
        return f"{source!r} is not an absolute path"
    if ".." in source.split("/"):
        return f"{source!r} goes up with '..'"
    for path, told in ((source, source), (resolve(source), f"{source} leads to {resolve(source)}, which")):
        if denied := _denied(path):
            return f"{told} {denied}"
    return None


def mount_sources(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    """Every host folder that the recipe names for mounting, with the path of the key that names it."""
    volumes = recipe.executor_config.get("volumes")
    if isinstance(volumes, str):
        yield ("executor_config", "volumes"), volumes.partition(":")[0]
    elif isinstance(volumes, dict):
        yield from ((("executor_config", "volumes", source), source) for source in volumes)
    elif isinstance(volumes, list):
        yield from ((("executor_config", "volumes", number), str(text).partition(":")[0]) for number, text in enumerate(volumes))
    if isinstance(recipe.runtime_cache, dict) and (folder := recipe.runtime_cache.get("dir")):
        yield ("runtime_cache", "dir"), str(folder)


def _denied(path: str) -> str | None:
    clean = "/" + posixpath.normpath(path).lstrip("/")
    if clean == "/":
        return "is the whole file system"
    for folder in DENIED_MOUNTS:
        if clean == folder or clean.startswith(f"{folder}/"):
            return f"is in {folder}"
    parts = clean.split("/")
    if parts[-1] == "docker.sock":
        return "is Docker's socket"
    return "is in a .ssh folder" if ".ssh" in parts else None


def _refused(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    for key, reaches in _PREDICATES.items():
        if key in recipe.executor_config and reaches(recipe.executor_config[key]):
            why = f"must be one of {', '.join(IPC_MODES)}" if key == "ipc" else "is only for trusted recipes"
            yield ("executor_config", key), why
    if recipe.executor not in (None, "docker"):
        yield ("executor",), f"must be docker, not {recipe.executor}"
    yield from ((("builder_config", key), "is only for trusted recipes") for key in BUILD_SOURCE if key in recipe.builder_config)
    if recipe.cluster_config:
        yield ("cluster_config",), "is only for trusted recipes"
    if isinstance(recipe.runtime_cache, dict) and recipe.runtime_cache.get("dir"):
        yield ("runtime_cache", "dir"), "is only for trusted recipes"
    if _is_path(recipe.model):
        yield ("model",), "must not be a path of the host"
    for path, values in _layers(recipe):
        if values.get("executor") not in (None, "docker"):
            yield (*path, "executor"), "must be docker"
        if _is_path(values.get("model")):
            yield (*path, "model"), "must not be a path of the host"


def _layers(recipe: Recipe) -> Iterable[tuple[KeyPath, Values]]:
    yield ("defaults",), recipe.defaults
    for number, override in enumerate(recipe.overrides):
        yield ("overrides", number, "defaults"), override.defaults


def _is_path(model: ConfigValue) -> bool:
    if not isinstance(model, str):
        return False
    try:
        return parse_model(model).kind == "path"
    except RecipeError:
        return False


def _hook_actions(key: str, hooks: tuple[Hook, ...], place: ActionPlace) -> Iterator[HostAction]:
    for number, hook in enumerate(hooks, 1):
        text = (
            hook.command or f"copy {hook.copy} to {hook.dest or '/workspace/mods'}{f' from {hook.source_host}' if hook.source_host else ''}"
        )
        yield HostAction(f"{key}[{number}]", text, place)
