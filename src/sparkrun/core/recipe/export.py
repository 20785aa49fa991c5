"""A recipe written out: true version 2, keys in the documented order, nothing lost that a launch reads."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.recipe.detect import canonical_runtime, runtime_family
from sparkrun.core.recipe.schema import ConditionalOverride, Hook, Mode, Recipe, Values
from sparkrun.core.values import ConfigValue

KEY_ORDER = (
    "recipe_version",
    "min_sparkrun_version",
    "model",
    "model_revision",
    "runtime",
    "runtime_version",
    "builder",
    "builder_config",
    "min_nodes",
    "max_nodes",
    "container",
    "containers",
    "layout",
    "cluster_config",
    "metadata",
    "build_args",
    "mods",
    "defaults",
    "env",
    "overrides",
    "readiness",
    "pre_exec",
    "command",
    "post_exec",
    "post_commands",
    "stop_after_post",
)
"""Keys in the order of an export; any other follows, alphabetically."""

_SAME_NAME = (
    "min_sparkrun_version",
    "model",
    "model_revision",
    "runtime_version",
    "builder",
    "builder_config",
    "min_nodes",
    "max_nodes",
    "container",
    "layout",
    "cluster_config",
    "build_args",
    "mods",
    "env",
    "readiness",
    "stop_after_post",
    "benchmark",
    "capabilities",
    "distribution_config",
    "executor",
    "executor_config",
    "runtime_cache",
    "runtime_config",
    "scheduler",
    "unsupported_capabilities",
)


def export_recipe(recipe: Recipe) -> str:
    """The recipe as a version 2 file that renders the same launch. Includes are worked in, what loading implied is spelt out."""
    from sparkrun.utils.yamlio import dump_yaml  # only who writes needs it

    return dump_yaml(recipe_json(recipe))


def recipe_json(recipe: Recipe) -> dict[str, ConfigValue]:
    """The canonical mapping of a recipe, in the order of an export."""
    values: dict[str, ConfigValue] = {name: _plain(getattr(recipe, name)) for name in _SAME_NAME}
    values["recipe_version"] = "2"
    values["runtime"] = public_runtime(recipe)
    values["mode"] = recipe.mode if recipe.mode != _derived_mode(recipe) else None
    values["containers"] = [{"host": image.host, "image": image.image} for image in recipe.containers]
    values["metadata"], values["description"] = _description(recipe)
    values["defaults"] = _redoubled(recipe.defaults)
    values["overrides"] = [_override(entry) for entry in recipe.overrides]
    values["command"] = _command(recipe)
    for name in ("pre_exec", "post_exec", "post_commands"):
        values[name] = [_hook(hook) for hook in getattr(recipe, name)]
    return _ordered(values)


def public_runtime(recipe: Recipe) -> str:
    """What a recipe should say: the author's own choice, else the engine's name without the variant that was worked out."""
    return canonical_runtime(recipe.declared_runtime) if recipe.declared_runtime else runtime_family(recipe.runtime)


def _command(recipe: Recipe) -> str | None:
    if recipe.command is None:
        return None
    from sparkrun.core.recipe.tidy import tidy_command  # a lexer and a renderer, which only writing needs

    return tidy_command(recipe.command, {**recipe.model_values(), **recipe.defaults})


def _plain(value: object) -> ConfigValue:
    return list(value) if isinstance(value, tuple) else value  # type: ignore[return-value]


def _ordered(values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Only what says something, in order."""
    order = {name: number for number, name in enumerate(KEY_ORDER)}
    said = [
        name
        for name, value in values.items()
        if value is not None and value not in ("", [], {}) and (value is not False or name == "runtime_cache")
    ]
    return {name: values[name] for name in sorted(said, key=lambda name: (order.get(name, len(order)), name))}


def _derived_mode(recipe: Recipe) -> Mode:
    return "cluster" if recipe.min_nodes > 1 else "solo" if recipe.max_nodes == 1 else "auto"


def _description(recipe: Recipe) -> tuple[Values, str | None]:
    """The metadata with the description in it; a description of its own only where the metadata has another."""
    metadata = dict(recipe.metadata)
    if recipe.author_version:
        metadata.setdefault("author_version", recipe.author_version)
    said = metadata.get("description")
    if said == recipe.description or not recipe.description:
        return metadata, None
    return (metadata, recipe.description) if said else ({"description": recipe.description, **metadata}, None)


def _redoubled(defaults: Values) -> Values:
    """Loading halves doubled braces in texts; one that still holds some is written with twice as many."""
    return {
        key: value.replace("{{", "{{{{").replace("}}", "}}}}") if isinstance(value, str) and "{{" in value else value
        for key, value in defaults.items()
    }


def _hook(hook: Hook) -> ConfigValue:
    if hook.command and hook.timeout_s is None:
        return hook.command
    said = {
        "command": hook.command,
        "copy": hook.copy,
        "dest": hook.dest,
        "source_host": hook.source_host,
        "timeout": hook.timeout_s,
    }
    return {key: value for key, value in said.items() if value is not None}


def _override(entry: ConditionalOverride) -> ConfigValue:
    said: Values = {"when": entry.when, "defaults": entry.defaults, "env": dict(entry.env), "container": entry.container}
    return {key: value for key, value in said.items() if value or key == "when"}
