"""Rules on ``defaults`` and on how many nodes there are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from sparkrun.core.flags import literal_values
from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.detect import runtime_family
from sparkrun.core.recipe.memory import SHARES, fraction_problem, takes_gib
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.values import ConfigValue, is_off
from sparkrun.utils.text import did_you_mean

_PLACEHOLDER = re.compile(r"\{(?:config\.)?([A-Za-z_]\w*)\}")
_PARALLEL = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def unused_defaults(case: Case) -> Iterator[Finding]:
    """Defaults that no flag, placeholder or part of sparkrun reads."""
    rendered = case.rendered
    used = {*getattr(rendered, "used", ()), *_named_elsewhere(case)}
    for key, value in case.recipe.defaults.items():
        if key in used or key in case.known_keys or key.startswith("_") or is_off(value):
            continue
        near = _own_flag(key, case) or did_you_mean(key, case.known_keys) or did_you_mean(key, _flag_keys(case))
        if near or case.runtime:
            fix = near or "remove it, or use it in the command"
            yield Finding("warning", "unmapped-config-key", f"nothing reads defaults.{key}", fix=fix, where=case.where("defaults", key))


def _own_flag(key: str, case: Case) -> str:
    """What to do about a key that is a flag of the engine and none of the flag map."""
    flag = f"--{key.replace('_', '-')}"
    runtime = case.runtime
    return f"{runtime.flags_of} has {flag}: write it in the command" if runtime and flag in runtime.known_flags else ""


def _flag_keys(case: Case) -> tuple[str, ...]:
    """The engine's flags, spelt as keys."""
    flags = case.runtime.known_flags if case.runtime else ()
    return tuple(sorted(flag.lstrip("-").replace("-", "_") for flag in flags))


def internal_defaults(case: Case) -> Iterator[Finding]:
    """Keys that begin with ``_`` are sparkrun's own."""
    for key in case.recipe.defaults:
        if key.startswith("_"):
            yield Finding(
                "warning", "internal-config-key", f"defaults.{key} is internal", fix="remove it", where=case.where("defaults", key)
            )


def misplaced_keys(case: Case) -> Iterator[Finding]:
    """Keys at the top that the engine would take from ``defaults``."""
    for key in case.recipe.runtime_config:
        if (key,) in case.recipe.positions and case.runtime and case.runtime.flag_map.by_key(key):
            message = f"{key} at the top of a recipe has no effect"
            yield Finding("warning", "misplaced-config-key", message, fix=f"put it under defaults: {key}", where=case.where(key))


def memory_shares(case: Case) -> Iterator[Finding]:
    """A share of memory is between 0 and 1; a larger number is a size, and would be taken for a share."""
    for key, value, where in _shares(case):
        if problem := fraction_problem(key, value, case.around.memory_gib):
            yield Finding("error", "recipe-field", problem, fix="write a fraction between 0 and 1, such as 0.8", where=where)


def _shares(case: Case) -> Iterator[tuple[str, ConfigValue, str]]:
    """Every share that the recipe gives, with its place: in defaults, in a conditional override, or spelt out in the command."""
    recipe = case.recipe
    literals = literal_values(case.rendered_call, case.runtime.flag_map) if case.rendered_call and case.runtime else {}
    for key in SHARES:
        if takes_gib(recipe.command, key):
            continue
        conditional = ((entry.defaults, ("overrides", number, "defaults", key)) for number, entry in enumerate(recipe.overrides))
        for values, path in ((recipe.defaults, ("defaults", key)), *conditional):
            if not is_off(values.get(key)):
                yield key, values[key], case.where(*path)
        if key in literals and is_off(recipe.defaults.get(key)):
            yield key, literals[key], case.where("command")


def node_counts(case: Case) -> Iterator[Finding]:
    """Parallelism of the defaults against the node range, for hosts with one accelerator each."""
    recipe = case.recipe
    sizes = _parallelism(case)
    if not sizes:
        return
    ranks, said = math.prod(sizes.values()), " × ".join(f"{key} {size}" for key, size in sizes.items())
    if recipe.max_nodes is not None and ranks > recipe.max_nodes:
        message = f"at most {recipe.max_nodes} node{'s' * (recipe.max_nodes != 1)}, but {said} needs {ranks} with one accelerator each"
    elif ranks < recipe.min_nodes:
        message = f"at least {recipe.min_nodes} nodes, but {said} uses {ranks}"
    else:
        return
    said_by = next((key for key in ("max_nodes", "solo_only", "min_nodes", "cluster_only", "mode") if (key,) in recipe.positions), "model")
    yield Finding("warning", "node-count-mismatch", message, fix="make the two agree", where=case.where(said_by))


def _parallelism(case: Case) -> dict[str, int]:
    """The sizes that multiply to the number of ranks; empty where none is given or the runtime counts in its own way."""
    defaults, family = case.recipe.defaults, runtime_family(case.recipe.runtime)
    if family == "atlas":
        return {}
    keys = _PARALLEL[:2] if family == "sglang" and defaults.get("enable_dp_attention") else _PARALLEL
    return {key: size for key in keys if isinstance(size := defaults.get(key), int) and not isinstance(size, bool) and size > 0}


def _named_elsewhere(case: Case) -> Iterator[str]:
    """Keys that hooks, environment or other defaults name."""
    recipe = case.recipe
    hooks = (*recipe.pre_exec, *recipe.post_exec, *recipe.post_commands)
    texts: list[ConfigValue] = [hook.command for hook in hooks]
    texts += [*recipe.env.values(), *(value for entry in recipe.overrides for value in entry.env.values()), *recipe.defaults.values()]
    texts += [hook.copy for hook in hooks]
    for text in texts:
        yield from _PLACEHOLDER.findall(str(text))


SETTING_RULES: tuple[Rule, ...] = (unused_defaults, internal_defaults, misplaced_keys, memory_shares, node_counts)
