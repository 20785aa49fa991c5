"""A recipe's text becomes a ``Recipe``: every field typed, nothing dropped, every complaint with its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard, get_args

import msgspec

from sparkrun.core.errors import RecipeError, RecipeNotFoundError, RecipeSyntaxError
from sparkrun.core.model_source import parse_model
from sparkrun.core.recipe.detect import EUGR_IMAGE, concrete_runtime, declared_family
from sparkrun.core.recipe.entries import lone_hooks, override_findings, read_containers, read_hooks, read_overrides, read_readiness
from sparkrun.core.recipe.env import env_findings, read_env
from sparkrun.core.recipe.fields import Fields, dotted, key_text, kind_of
from sparkrun.core.recipe.include import IncludeResolver, flatten, resolve_sibling
from sparkrun.core.recipe.keys import CONSUMED, DOCKER_OPTIONS, RUNTIME_READS, TOP_LEVEL
from sparkrun.core.recipe.places import Document
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.schema import Finding, Mode, Recipe, RecipeSource, Values
from sparkrun.core.values import ConfigValue, value_text
from sparkrun.utils.text import did_you_mean, nearest

OTHER_NAMES = {"environment": "env", "env_vars": "env", "image": "container", "docker_image": "container", "hooks": "pre_exec"}
"""What people call a key elsewhere."""


class Topology(msgspec.Struct, frozen=True):
    """How many nodes a recipe takes."""

    mode: Mode = "auto"
    min_nodes: int = 1
    max_nodes: int | None = None
    solo_only: bool = False
    cluster_only: bool = False


def load_recipe_file(path: Path, *, trusted: bool = True, resolve: IncludeResolver = resolve_sibling) -> Recipe:
    """Read a recipe file. Raises ``RecipeNotFoundError``, ``RecipeSyntaxError`` (with ``file:line:col``) or ``RecipeError``."""
    source = RecipeSource("file", path.stem, path=str(path), trusted=trusted)
    return load_recipe_text(read_recipe_text(path), source, resolve=resolve)


def read_recipe_text(path: Path) -> str:
    """The text of a recipe file. Raises ``RecipeNotFoundError``, ``RecipeSyntaxError`` (not UTF-8) or ``RecipeError``."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RecipeNotFoundError(f"no recipe file {path}") from None
    except IsADirectoryError:
        raise RecipeNotFoundError(f"{path} is a folder, not a recipe file") from None
    except UnicodeDecodeError as error:
        raise RecipeSyntaxError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise RecipeError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error


def load_recipe_text(text: str, source: RecipeSource, *, resolve: IncludeResolver = resolve_sibling) -> Recipe:
    """Read a recipe. Messages call it by the path of ``source``; ``resolve`` finds what it includes.

    Raises ``RecipeSyntaxError`` (not YAML, or a field of the wrong kind) or ``RecipeError`` (a value that cannot be used).
    """
    from sparkrun.core.recipe.source import read_document  # with YAML, which loads slowly; a list reads what is kept

    document, source, depth = flatten(read_document(text, source.path or source.ref), source, resolve)
    recipe = _decode(Fields(document), source)
    return recipe if depth < 2 else msgspec.structs.replace(recipe, findings=(*recipe.findings, _nested(recipe, depth)))


def _nested(recipe: Recipe, depth: int) -> Finding:
    message = f"stands on a chain of {depth} included recipes"
    return Finding("suggestion", "nested-include", message, fix="include one recipe that includes no other", where=recipe.where("include"))


def _decode(fields: Fields, source: RecipeSource) -> Recipe:
    """The typed recipe of a document whose includes are merged."""
    _refuse_misplaced(fields)
    _require_version(fields)
    version, author_version = _version(fields)
    topology = _topology(fields)
    runtime_config = _runtime_config(fields)
    build_args = _build_args(fields)
    command = _command(fields)
    defaults = _collapsed(fields.mapping("defaults"))
    declared = fields.text("runtime") or None
    container = fields.text("container")
    metadata = fields.mapping("metadata")
    return Recipe(
        source=source,
        model=_model(fields),
        version=version,
        author_version=author_version,
        min_sparkrun_version=fields.text("min_sparkrun_version"),
        description=fields.text("description") or str(metadata.get("description") or ""),
        model_revision=fields.text("model_revision"),
        runtime=concrete_runtime(declared, command, defaults.get("distributed_executor_backend")),
        declared_runtime=declared,
        runtime_version=fields.text("runtime_version"),
        **msgspec.structs.asdict(topology),
        container=container,
        containers=read_containers(fields),
        builder=fields.text("builder") or _implied_builder(declared_family(declared, command), version, bool(build_args), container),
        builder_config=fields.mapping("builder_config"),
        build_args=build_args,
        mods=_mods(fields),
        defaults=defaults,
        overrides=read_overrides(fields),
        env=read_env(fields, ("env",)),
        command=command,
        runtime_config=runtime_config,
        metadata=metadata,
        pre_exec=read_hooks(fields, "pre_exec"),
        post_exec=read_hooks(fields, "post_exec"),
        post_commands=read_hooks(fields, "post_commands"),
        stop_after_post=fields.switch("stop_after_post") or False,
        benchmark=fields.mapping("benchmark"),
        layout=fields.mapping("layout") or None,
        executor=fields.text("executor"),
        executor_config=fields.mapping("executor_config"),
        scheduler=fields.text("scheduler"),
        distribution_config=fields.mapping("distribution_config"),
        cluster_config=fields.mapping("cluster_config"),
        runtime_cache=_runtime_cache(fields),
        readiness=read_readiness(fields),
        capabilities=fields.texts("capabilities"),
        unsupported_capabilities=fields.texts("unsupported_capabilities"),
        include=fields.text("include"),
        positions=fields.document.positions,
        findings=tuple(_findings(fields, author_version)),
    )


def _refuse_misplaced(fields: Fields) -> None:
    where = fields.document.where
    if "env_templates" in fields.document.value:
        hint = "write {config.NAME} and {launch.NAME} in env"
        raise InvalidRecipeError(where("env_templates"), "env_templates is no longer a key", hint=hint)
    for key in sorted(DOCKER_OPTIONS.intersection(map(key_text, fields.document.value))):
        raise InvalidRecipeError(
            where(key), f"{key} at the top of a recipe has no effect", code="misplaced-config-key", hint=f"move it to executor_config.{key}"
        )


def _require_version(fields: Fields) -> None:
    wanted = fields.text("min_sparkrun_version")
    if wanted is None:
        return
    from packaging.version import InvalidVersion, Version  # only recipes that ask for a version pay for it

    from sparkrun import __version__

    where = fields.document.where("min_sparkrun_version")
    try:
        too_old = Version(__version__) < Version(wanted)
    except InvalidVersion:
        message = f"min_sparkrun_version must be a version string, not a range or {wanted!r}"
        raise InvalidRecipeError(where, message, hint='write "0.5"') from None
    if too_old:
        raise InvalidRecipeError(where, f"recipe needs sparkrun {wanted} or later, this is {__version__}", hint="sparkrun update")


def _version(fields: Fields) -> tuple[str, str | None]:
    """The format's version, and the author's own where the key holds something else."""
    said = fields.text("sparkrun_version") or fields.text("recipe_version") or "2"
    number = said.strip().removesuffix(".0")
    return (number, None) if number in ("1", "2") else ("2", said)


def _model(fields: Fields) -> str:
    where, value = fields.document.where("model"), fields.raw("model")
    if value is None or value == "":
        raise _no_model(fields, where)
    if not isinstance(value, str):
        raise RecipeSyntaxError(f"{where}: model must be text, not {kind_of(value)}", hint="write model: org/name")
    try:
        parse_model(value)
    except RecipeError as error:
        raise InvalidRecipeError(where, error.message, hint=error.hint) from None
    return value


def _no_model(fields: Fields, where: str) -> InvalidRecipeError:
    """Says so at the key that was meant to be it, if there is one."""
    unknown = [key for key in map(key_text, fields.document.value) if key not in TOP_LEVEL]
    meant = nearest("model", unknown)
    if meant is None:
        return InvalidRecipeError(where, "no model", hint="add model: org/name")
    return InvalidRecipeError(fields.document.where(meant), f"no model, and an unknown key {meant!r}", hint="did you mean 'model'?")


def _command(fields: Fields) -> str | None:
    value = fields.raw("command")
    if value is not None and not isinstance(value, str):
        raise fields.wrong(("command",), "text", value)
    return value if value and value.strip() else None


def _topology(fields: Fields) -> Topology:
    mode, minimum, maximum = _mode(fields), fields.whole("min_nodes"), fields.whole("max_nodes")
    solo, cluster = fields.switch("solo_only") or False, fields.switch("cluster_only") or False
    minimum = 1 if minimum is None else minimum
    if minimum < 1:
        raise InvalidRecipeError(fields.document.where("min_nodes"), f"min_nodes must be 1 or more, not {minimum}")
    if mode == "solo":
        minimum = maximum = 1
    if cluster:
        mode, minimum = "cluster", max(2, minimum)
    if solo:
        mode, maximum = "solo", 1
    if maximum is not None and maximum < minimum:
        raise InvalidRecipeError(*_contradiction(fields, minimum, maximum))
    if mode == "auto":
        mode = "cluster" if minimum > 1 else "solo" if maximum == 1 else "auto"
    return Topology(mode, minimum, maximum, solo, cluster)


def _mode(fields: Fields) -> Mode:
    mode = (fields.text("mode") or "auto").strip().lower()
    for known in get_args(Mode):
        if mode == known:
            return known  # type: ignore[no-any-return]
    raise InvalidRecipeError(fields.document.where("mode"), f"mode must be one of {', '.join(get_args(Mode))}, not {mode!r}")


def _contradiction(fields: Fields, minimum: int, maximum: int) -> tuple[str, str]:
    said = {key: fields.raw(key) for key in ("max_nodes", "solo_only", "min_nodes", "cluster_only", "mode") if fields.raw(key) is not None}
    words = ", ".join(f"{key}: {value_text(value)}" for key, value in said.items())
    return fields.document.where(next(iter(said))), f"at least {minimum} and at most {maximum} nodes contradict each other ({words})"


def _implied_builder(runtime: str | None, version: str, build_args: bool, container: str | None) -> str | None:
    """Recipes for the eugr images build by ``eugr`` without saying so."""
    if runtime not in (None, "vllm"):
        return None
    return "eugr" if version == "1" or build_args or (container or "").startswith(EUGR_IMAGE) else None


def _collapsed(defaults: Values) -> Values:
    """Texts that double their braces, as version 1 wanted, with single ones."""
    return {key: value.replace("{{", "{").replace("}}", "}") if _doubled(value) else value for key, value in defaults.items()}


def _doubled(value: ConfigValue) -> TypeGuard[str]:
    return isinstance(value, str) and "{{" in value


def _build_args(fields: Fields) -> tuple[str, ...]:
    """The arguments under ``runtime_config`` where they stand there too."""
    return fields.texts("runtime_config", "build_args") or fields.texts("build_args")


def _mods(fields: Fields) -> tuple[str, ...]:
    """The mods of both places, each once."""
    return tuple(dict.fromkeys((*fields.texts("mods"), *fields.texts("runtime_config", "mods"))))


def _runtime_config(fields: Fields) -> Values:
    """``runtime_config`` with every unknown key of the top level, so that a runtime can still read it."""
    config = {key: value for key, value in fields.mapping("runtime_config").items() if key not in ("build_args", "mods")}
    swept = {key_text(key): fields.value(value, (key,)) for key, value in fields.document.value.items() if key not in TOP_LEVEL}
    return {**swept, **config}


def _runtime_cache(fields: Fields) -> bool | Values | None:
    value = fields.raw("runtime_cache")
    return fields.mapping("runtime_cache") if isinstance(value, dict) else fields.switch("runtime_cache")


def _findings(fields: Fields, author_version: str | None) -> Iterator[Finding]:
    yield from _duplicates(fields.document)
    yield from _unknown_keys(fields)
    yield from lone_hooks(fields)
    yield from override_findings(fields)
    yield from env_findings(fields)
    if author_version:
        key = "sparkrun_version" if fields.raw("sparkrun_version") is not None else "recipe_version"
        message = f"{key} {author_version} is not a version of the recipe format; it is read as format 2"
        fix = 'write recipe_version: "2", and your own number under metadata'
        yield Finding("suggestion", "author-recipe-version", message, fix=fix, where=fields.document.where(key))


def _duplicates(document: Document) -> Iterator[Finding]:
    for path, first, second in document.duplicates:
        message = f"{dotted(path)} stands twice, on line {first.line} and on line {second.line}; the second counts"
        yield Finding(
            "error",
            "duplicate-key",
            message,
            fix="remove one of them",
            where=f"{second.file or document.name}:{second.line}:{second.column}",
        )


def _unknown_keys(fields: Fields) -> Iterator[Finding]:
    for key in map(key_text, fields.document.value):
        where = fields.document.where(key)
        if key in TOP_LEVEL or key in RUNTIME_READS:
            continue
        if key in CONSUMED:
            message = f"{key} at the top of a recipe has no effect"
            yield Finding("warning", "misplaced-config-key", message, fix=f"put it under defaults: {key}", where=where)
        else:
            near = did_you_mean(key, TOP_LEVEL) or _meant_by_another_name(key)
            fix = near or "remove it, or put it where it belongs"
            yield Finding("warning" if near else "suggestion", "unknown-top-level-key", f"unknown key {key!r}", fix=fix, where=where)


def _meant_by_another_name(key: str) -> str:
    said = nearest(key, OTHER_NAMES)
    return f"did you mean '{OTHER_NAMES[said]}'?" if said else ""
