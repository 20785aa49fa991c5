"""Rules on ``defaults`` and on how many nodes there are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.detect import runtime_family
from sparkrun.core.recipe.memory import fraction_problem, takes_gib
from sparkrun.core.recipe.schema import Finding
from sparkrun.core.values import ConfigValue, is_off
from sparkrun.utils.text import did_you_mean

_PLACEHOLDER = re.compile(r"\{(?:config\.)?([A-Za-z_]\w*)\}")
_SHARES = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction")
_PARALLEL = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def unused_defaults(case: Case) -> Iterator[Finding]:
    """Defaults that no flag, placeholder or part of sparkrun reads."""
    rendered = case.rendered
    used = {*getattr(rendered, "used", ()), *_named_elsewhere(case)}
    for key, value in case.recipe.defaults.items():
        if key in used or key in case.known_keys or key.startswith("_") or is_off(value):
            continue
        near = did_you_mean(key, case.known_keys)
        if near or case.runtime:
            fix = near or "remove it, or use it in the command"
            yield Finding("warning", "unmapped-config-key", f"nothing reads defaults.{key}", fix=fix, where=case.where("defaults", key))


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
    for key in _SHARES:
        value = case.recipe.defaults.get(key)
        if value is None or takes_gib(case.recipe.command, key):
            continue
        if problem := fraction_problem(key, value, case.around.memory_gib):
            yield Finding("error", "recipe-field", problem, fix=f"write {key}: 0.8", where=case.where("defaults", key))


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
