"""The environment of a recipe: every value a text, placeholders checked, nothing expanded from this machine."""

from __future__ import annotations

from collections.abc import Iterator

from sparkrun.core.container_words import variable_problem
from sparkrun.core.recipe.fields import Fields, dotted, key_text
from sparkrun.core.recipe.places import KeyPath
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.values import compact_json


def read_env(fields: Fields, path: KeyPath) -> dict[str, str]:
    """Variables as texts: numbers as they were spelt, switches in lower case, an empty one not set, a mapping as JSON."""
    texts: dict[str, str] = {}
    for key, name in _names(fields, path):
        if problem := variable_problem(name):
            raise InvalidRecipeError(fields.document.where(*path, key), f"{dotted(path)}: {problem}", hint="no engine could read it")
        text = _text(fields, (*path, key))
        if text is not None:
            _check_launch_fields(fields, (*path, key), text)
            texts[name] = text
    return texts


def env_findings(fields: Fields, path: KeyPath = ("env",)) -> Iterator[Finding]:
    """Variables whose YAML is something else than a text."""
    for key, name in _names(fields, path):
        value, where = fields.raw(*path, key), fields.document.where(*path, key)
        if value is None:
            message, fix = f"env {name} has no value and is not set", f'write {name}: "" for an empty one'
            yield Finding("suggestion", "empty-env-value", message, fix=fix, where=where)
        elif isinstance(value, dict | list):
            text = _text(fields, (*path, key))
            message = f"env {name} is a {'mapping' if isinstance(value, dict) else 'list'} to YAML; it is passed as {text}"
            yield Finding("warning", "env-value-not-text", message, fix=f"put quotes around it: {name}: '{text}'", where=where)


def _names(fields: Fields, path: KeyPath) -> Iterator[tuple[str | int, str]]:
    """Each key as YAML has it, and as a name."""
    for key in fields.checked_mapping(*path):
        yield key, key_text(key)


def _text(fields: Fields, path: KeyPath) -> str | None:
    """The text of one variable. ``{config.port}`` without quotes is a mapping to YAML, and the placeholder to its author."""
    value = fields.value(fields.raw(*path), path)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return fields.spelt(path, value)
    if isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) is None:
        return "{" + next(iter(value)) + "}"
    return compact_json(value)


def _check_launch_fields(fields: Fields, path: KeyPath, text: str) -> None:
    if "{launch." not in text:
        return
    from sparkrun.core.templating import UnknownEnvReference, env_references  # a whole lexer, which few recipes need

    try:
        env_references(text)
    except UnknownEnvReference as error:
        raise InvalidRecipeError(fields.document.where(*path), f"{dotted(path)}: {error.message}", hint=error.hint) from None
