"""The lists of a recipe whose entries are small mappings: hooks, conditional overrides, images of hosts, and the readiness gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkrun.core.recipe.conditional import SELECTORS, condition_problem, is_selector
from sparkrun.core.recipe.env import read_env
from sparkrun.core.recipe.fields import Fields, dotted, kind_of
from sparkrun.core.recipe.keys import PARALLELISM
from sparkrun.core.recipe.places import KeyPath
from sparkrun.core.recipe.problem import InvalidRecipeError
from sparkrun.core.recipe.schema import ConditionalOverride, Finding, Hook, HostImage, Values
from sparkrun.core.values import MOST
from sparkrun.utils.text import did_you_mean

HOOK_LISTS = ("pre_exec", "post_exec", "post_commands")
READINESS = ("port_timeout_s", "health_timeout_s", "inference", "inference_style", "inference_timeout_s", "inference_prompt")
INFERENCE_STYLES = ("auto", "openai-chat-stream-v1", "openai-responses-stream-v1", "anthropic-messages-stream-v1")

_HOOK_KEYS = ("command", "timeout", "timeout_s", "copy", "dest", "source_host")
_OVERRIDE_KEYS = ("when", "defaults", "env", "container")
_FIXED_DEFAULTS = PARALLELISM | {"port", "served_model_name"}


def read_hooks(fields: Fields, name: str) -> tuple[Hook, ...]:
    """The hooks of one list; a lone text or mapping counts as a list of one. Raises ``InvalidRecipeError`` (``invalid-hook-entry``)."""
    value = fields.raw(name)
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(_hook(fields, (name, number)) for number in range(len(value)))
    return (_hook(fields, (name,)),)


def lone_hooks(fields: Fields) -> Iterator[Finding]:
    """A suggestion for each hook list that is written as one entry."""
    for name in HOOK_LISTS:
        if isinstance(fields.raw(name), str | Mapping):
            message, fix = f"{name} is one entry, not a list", f"write {name}: as a list"
            yield Finding("suggestion", "scalar-hook-command-list", message, fix=fix, where=fields.document.where(name))


def read_overrides(fields: Fields) -> tuple[ConditionalOverride, ...]:
    """The conditional overrides in order. What would move the endpoint or the placement is refused."""
    return tuple(_override(fields, path) for path in fields.entries("overrides"))


def override_findings(fields: Fields) -> Iterator[Finding]:
    """A warning for each selector that does not exist: its entry never holds."""
    for path in fields.entries("overrides"):
        for name in fields.mapping(*path, "when"):
            if not is_selector(name):
                message = f"{dotted(path)}.when asks for {name!r}, which does not exist, so it never holds"
                fix = did_you_mean(name, SELECTORS) or f"selectors: {', '.join(SELECTORS)}, config.<key>"
                yield Finding("warning", "override-unknown-selector", message, fix=fix, where=fields.document.where(*path, "when", name))


def read_containers(fields: Fields) -> tuple[HostImage, ...]:
    """The images of single hosts; each host once."""
    images: dict[str, HostImage] = {}
    for path in fields.entries("containers"):
        refuse_unknown(fields, path, ("host", "image"))
        host, image = fields.text(*path, "host"), fields.text(*path, "image")
        where = fields.document.where(*path)
        if not host or not image:
            raise InvalidRecipeError(where, f"{dotted(path)} needs host and image")
        if host in images:
            raise InvalidRecipeError(where, f"{dotted(path)}: host {host} has an image already ({images[host].image})")
        images[host] = HostImage(host, image)
    return tuple(images.values())


def read_readiness(fields: Fields) -> Values:
    """The gate that a launch must pass; unknown keys and bad values are refused."""
    values = fields.mapping("readiness")
    refuse_unknown(fields, ("readiness",), READINESS)
    for key, value in values.items():
        where = fields.document.where("readiness", key)
        if key == "inference":
            values[key] = fields.switch("readiness", key)
        elif key == "inference_style" and value not in INFERENCE_STYLES:
            raise InvalidRecipeError(where, f"readiness.inference_style must be one of {', '.join(INFERENCE_STYLES)}, not {kind_of(value)}")
        elif key.endswith("_s"):
            values[key] = _seconds(fields, ("readiness", key))
        else:
            values[key] = fields.text("readiness", key)
    return values


def refuse_unknown(fields: Fields, path: KeyPath, known: tuple[str, ...], *, code: str = "recipe-field") -> None:
    """Raise ``InvalidRecipeError`` for the first key of a mapping that is none of ``known``."""
    for key in fields.checked_mapping(*path):
        if key not in known:
            raise InvalidRecipeError(
                fields.document.where(*path, key),
                f"unknown key {key!r} in {dotted(path)}",
                code=code,
                hint=did_you_mean(str(key), known) or f"known keys: {', '.join(known)}",
            )


def _hook(fields: Fields, path: KeyPath) -> Hook:
    value = fields.raw(*path)
    if isinstance(value, str) and value.strip():
        return Hook(command=value)
    if not isinstance(value, Mapping):
        raise _bad_hook(fields, path, f"must be a command or a mapping, not {kind_of(value or None)}")
    refuse_unknown(fields, path, _HOOK_KEYS, code="invalid-hook-entry")
    command, copy = fields.text(*path, "command"), fields.text(*path, "copy")
    if not command and not copy:
        raise _bad_hook(fields, path, "has neither command nor copy")
    if command and copy:
        raise _bad_hook(fields, path, "has both command and copy")
    if copy and path[0] != "pre_exec":
        raise _bad_hook(fields, path, "copies; only pre_exec can")
    timeout = "timeout" if "timeout" in value else "timeout_s"
    return Hook(
        command=command,
        copy=copy,
        dest=fields.text(*path, "dest"),
        source_host=fields.text(*path, "source_host"),
        timeout_s=_seconds(fields, (*path, timeout)),
    )


def _bad_hook(fields: Fields, path: KeyPath, message: str) -> InvalidRecipeError:
    hint = "a hook is a command, {command, timeout}, or in pre_exec {copy, dest, source_host}"
    return InvalidRecipeError(fields.document.where(*path), f"{dotted(path)} {message}", code="invalid-hook-entry", hint=hint)


def _seconds(fields: Fields, path: KeyPath) -> float | None:
    seconds = fields.number(*path)
    if seconds is not None and not 0 <= seconds <= MOST:
        raise InvalidRecipeError(fields.document.where(*path), f"{dotted(path)} must be seconds, 0 to {MOST:g}, not {seconds:g}")
    return seconds


def _override(fields: Fields, path: KeyPath) -> ConditionalOverride:
    refuse_unknown(fields, path, _OVERRIDE_KEYS)
    if fields.raw(*path, "when") is None:
        raise InvalidRecipeError(fields.document.where(*path), f"{dotted(path)} has no when", hint="when: {} holds always")
    when, defaults = fields.mapping(*path, "when"), fields.mapping(*path, "defaults")
    for name, wanted in when.items():
        if problem := condition_problem(name, wanted):
            raise InvalidRecipeError(fields.document.where(*path, "when", name), f"{dotted(path)}.when: {problem}")
    for key in _FIXED_DEFAULTS.intersection(defaults):
        raise InvalidRecipeError(
            fields.document.where(*path, "defaults", key),
            f"{dotted(path)} must not set {key}: it decides where the model runs and answers",
            hint=f"set {key} under defaults, or with -o {key}=…",
        )
    return ConditionalOverride(
        when=when,
        defaults=defaults,
        env=read_env(fields, (*path, "env")),
        container=fields.text(*path, "container"),
    )
