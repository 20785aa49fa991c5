"""Rules on ``command``: what it names, what it spells out, and what the launch adds itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkrun.core.flags import literal_values, unknown_flags
from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.knowledge import RENDEZVOUS_FLAGS
from sparkrun.core.recipe.schema import Finding, Severity
from sparkrun.core.shell_text import TokenKind, canonical, flag_name
from sparkrun.core.templating import PlaceholderCycle
from sparkrun.utils.text import is_typing_error

LONG_COMMAND = 60
"""Lines from which a command counts as a program."""

_CHANGED_FROM_OUTSIDE = (
    "port",
    "host",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "max_model_len",
    "gpu_memory_utilization",
    "served_model_name",
)
_MODEL_WORDS = ("{model}", "{resolved_model_path}")
_PINNED = re.compile(r"\{(?:model|model_revision|resolved_model_path)\}|--revision\b")
_MANAGED_PATH = re.compile(r"/cache/(?:huggingface|runtime)\b")


def unknown_placeholders(case: Case) -> Iterator[Finding]:
    """Names in braces that the configuration does not hold: the engine would get them literally."""
    rendered, where = case.rendered, case.where("command")
    if isinstance(rendered, PlaceholderCycle):
        yield Finding("error", "unknown-placeholder", rendered.message, fix=rendered.hint, where=where)
        return
    for unknown in rendered.unknown if rendered else ():
        near = unknown.nearest
        fix = f"did you mean {{{near}}}?" if near else f"add {unknown.name} to defaults, or take the placeholder out"
        yield Finding("error", "unknown-placeholder", f"unknown placeholder {{{unknown.name}}} in the command", fix=fix, where=where)


def rendezvous_flags(case: Case) -> Iterator[Finding]:
    """Flags that the launch adds for each rank. With ray no rank has any."""
    runtime = case.runtime
    known = runtime.rendezvous_flags if runtime else RENDEZVOUS_FLAGS
    names = (flag_name(word) for word in case.words)
    found = list(dict.fromkeys(canonical(name) for name in names if name and canonical(name) in known))
    if not found:
        return
    flags, where = ", ".join(found), case.where("command")
    if (runtime and runtime.strategy == "ray") or case.recipe.runtime in ("vllm-ray", "eugr-vllm"):
        fix = "remove them, or the ray backend"
        yield Finding("error", "runtime-field", f"the command mixes ray with flags of single ranks ({flags})", fix=fix, where=where)
    else:
        message = f"the command holds {flags}, which each rank gets at launch"
        yield Finding("warning", "hardcoded-rendezvous-flag", message, fix="remove them", where=where)


def literal_flags(case: Case) -> Iterator[Finding]:
    """Values that stand in the command, where options like ``--port`` could not be followed without editing it."""
    if not case.call or not case.runtime:
        return
    literals = literal_values(case.call, case.runtime.flag_map)
    for key in _CHANGED_FROM_OUTSIDE:
        if key not in literals:
            continue
        literal, default = literals[key], case.recipe.defaults.get(key)
        if default is None:
            fix = f"write {{{key}}} there, and {key}: {literal} under defaults"
            yield Finding(
                "suggestion", "hardcoded-serve-flag", f"the command spells out {key} {literal}", fix=fix, where=case.where("command")
            )
        elif not _same(literal, default):
            message = f"the command says {key} {literal}, defaults say {default}"
            yield Finding(
                "warning", "hardcoded-serve-flag", message, fix=f"write {{{key}}} in the command", where=case.where("defaults", key)
            )


def engine_flags(case: Case) -> Iterator[Finding]:
    """Flags that the engine is not known to have: most likely of another version, unless one is a slip of the fingers."""
    call, runtime = case.rendered_call, case.runtime
    if not call or not runtime or not runtime.known_flags:
        return
    engine = runtime.flags_of or runtime.engine.name
    for unknown in unknown_flags(call, runtime.known_flags):
        near = unknown.nearest
        severity: Severity = "warning" if near and is_typing_error(unknown.flag, near) else "suggestion"
        fix = f"did you mean {near}?" if near else "check the help of the engine that your image holds"
        message = f"{unknown.flag} is not a flag of {engine}, as far as known"
        yield Finding(severity, "unknown-engine-flag", message, fix=fix, where=case.where("command"))


def model_in_command(case: Case) -> Iterator[Finding]:
    """The engine must be told the model, best through ``{model}``, which is the very files that were fetched."""
    recipe, where = case.recipe, case.where("command")
    if recipe.command is None:
        return
    texts = (recipe.command, *map(str, recipe.defaults.values()))
    if any(word in text for word in _MODEL_WORDS for text in texts):
        return
    if any(recipe.model in text for text in texts):
        message = f"the command spells out {recipe.model}"
        yield Finding(
            "suggestion", "restated-model-arg", message, fix="write {model}, which names the files that were fetched", where=where
        )
    else:
        yield Finding(
            "warning", "model-not-in-command", f"the command does not name {recipe.model}", fix="write {model} in it", where=where
        )


def revision_in_command(case: Case) -> Iterator[Finding]:
    """A revision that the command never hands on."""
    recipe = case.recipe
    if not recipe.model_revision or recipe.command is None or _PINNED.search(recipe.command) or recipe.model_revision in recipe.command:
        return
    message = f"model_revision {recipe.model_revision} does not reach the engine"
    fix = "write {model}, or --revision {model_revision}, in the command"
    yield Finding("warning", "unpinned-model-revision", message, fix=fix, where=case.where("model_revision"))


def managed_paths(case: Case) -> Iterator[Finding]:
    """Paths inside the container that the launch decides."""
    if case.recipe.command and (match := _MANAGED_PATH.search(case.recipe.command)):
        message = f"the command spells out {match[0]}, which the launch mounts"
        yield Finding(
            "suggestion",
            "restated-managed-path",
            message,
            fix="use {model}, or the variables of the container",
            where=case.where("command"),
        )


def programs(case: Case) -> Iterator[Finding]:
    """A program inside the command is better a mod or a hook."""
    lines = (case.recipe.command or "").count("\n") + 1
    heredoc = any(token.kind is TokenKind.HEREDOC for token in case.lexed.tokens)
    if heredoc or lines > LONG_COMMAND:
        message = f"the command holds a program ({'a here-document' if heredoc else f'{lines} lines'})"
        yield Finding("suggestion", "inline-script", message, fix="make it a mod, or a pre_exec hook", where=case.where("command"))


def dangling_backslash(case: Case) -> Iterator[Finding]:
    """A backslash at the end continues nothing."""
    if (case.recipe.command or "").rstrip().endswith("\\"):
        yield Finding(
            "suggestion", "dangling-line-continuation", "the command ends in a backslash", fix="remove it", where=case.where("command")
        )


def _same(literal: str | bool, default: object) -> bool:
    if isinstance(default, int | float) and not isinstance(default, bool) and isinstance(literal, str):
        try:
            return float(literal) == default
        except ValueError:
            return False
    return str(literal).lower() == str(default).lower()


COMMAND_RULES: tuple[Rule, ...] = (
    unknown_placeholders,
    rendezvous_flags,
    literal_flags,
    engine_flags,
    model_in_command,
    revision_in_command,
    managed_paths,
    programs,
    dangling_backslash,
)
