"""Filling in the placeholders of a recipe's ``env`` values: ``{config.NAME}`` and ``{launch.FIELD}``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sparkrun.core.errors import RecipeError
from sparkrun.core.shell_text import TextEdit, apply_edits
from sparkrun.core.templating.braces import Braces, dotted_braces
from sparkrun.core.templating.resolving import Resolver, spot_text
from sparkrun.core.values import ConfigValue
from sparkrun.utils.text import did_you_mean

LAUNCH_FIELDS = ("model_path", "model_revision", "num_nodes", "node_rank", "node_host", "cluster_id", "runtime_cache_dir")
"""What ``{launch.FIELD}`` may name; each is that of the host where the variable is set."""


class UnknownEnvReference(RecipeError):
    """An ``env`` value refers to a configuration key or launch field that does not exist."""


class EnvReferences(NamedTuple):
    """The configuration keys and launch fields that an ``env`` value refers to, each once, in order."""

    config: tuple[str, ...]
    launch: tuple[str, ...]


def env_references(value: str) -> EnvReferences:
    """What an ``env`` value refers to. Raises UnknownEnvReference for a launch field that does not exist."""
    names = [found.name.partition(".") for found in dotted_braces(value).placeholders]
    launch = tuple(dict.fromkeys(name for kind, _, name in names if kind == "launch"))
    for name in launch:
        if name not in LAUNCH_FIELDS:
            hint = did_you_mean(name, LAUNCH_FIELDS) or f"known fields: {', '.join(LAUNCH_FIELDS)}"
            raise UnknownEnvReference(f"unknown launch field {{launch.{name}}}", hint=hint)
    return EnvReferences(tuple(dict.fromkeys(name for kind, _, name in names if kind == "config")), launch)


def render_env(value: str, config: Mapping[str, ConfigValue], launch: Mapping[str, str]) -> str:
    """An ``env`` value with its references filled in. Doubled braces become single ones; ``${VAR}`` and other braces stay.

    Raises UnknownEnvReference for a reference without a value, PlaceholderCycle for values that never end.
    """
    env_references(value)
    braces, resolver = dotted_braces(value), Resolver(config)
    edits = [TextEdit(offset, offset + 1) for offset in braces.dropped]
    edits += _reference_edits(braces, resolver, launch)
    for missing in resolver.take_missing():
        raise _unknown(f"{{{missing.name}}} in the value of {missing.within}", missing.name, config)
    return apply_edits(value, edits)


def _reference_edits(braces: Braces, resolver: Resolver, launch: Mapping[str, str]) -> list[TextEdit]:
    edits = []
    for found in braces.placeholders:
        kind, _, name = found.name.partition(".")
        if kind == "launch" and name not in launch:
            raise UnknownEnvReference(f"{{launch.{name}}} has no value here", hint="it is known once the launch is planned")
        if kind == "config" and name not in resolver:
            raise _unknown(f"{{config.{name}}}", name, resolver.names)
        value = launch[name] if kind == "launch" else resolver.value(name)
        edits.append(TextEdit(found.start, found.end, spot_text(value, found.spot)))
    return edits


def _unknown(what: str, name: str, known: Collection[str]) -> UnknownEnvReference:
    return UnknownEnvReference(f"unknown configuration key {what}", hint=did_you_mean(name, known) or f"set {name} under defaults:")
