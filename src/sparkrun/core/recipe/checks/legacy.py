"""Rules on what older recipes say and newer ones need not. All are deprecations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sparkrun.core.recipe.checks.case import Case, Rule
from sparkrun.core.recipe.places import KeyPath
from sparkrun.core.recipe.schema import Finding

_TOPOLOGY = {"mode": "min_nodes and max_nodes", "solo_only": "max_nodes: 1", "cluster_only": "min_nodes: 2"}


class _Old(NamedTuple):
    """An old way to say something: its rule, its key, and the words about it."""

    code: str
    key: KeyPath
    message: str
    fix: str

    def found(self, case: Case) -> Finding:
        return Finding("warning", self.code, self.message, fix=self.fix, where=case.where(*self.key), deprecation=True)


def old_format(case: Case) -> Iterator[Finding]:
    """``recipe_version: "1"``."""
    if case.recipe.version == "1":
        fix = f"sparkrun export recipe {case.recipe.name} writes it as version 2"
        yield _Old("deprecated-recipe-format", ("recipe_version",), "recipe_version 1 is the old format", fix).found(case)


def old_runtime(case: Case) -> Iterator[Finding]:
    """``runtime: eugr-vllm``."""
    if case.recipe.runtime == "eugr-vllm":
        fix = "runtime: vllm-ray, with builder: eugr"
        yield _Old("deprecated-runtime", ("runtime",), "runtime eugr-vllm is an old name", fix).found(case)


def old_topology(case: Case) -> Iterator[Finding]:
    """``mode``, ``solo_only`` and ``cluster_only``."""
    for key, fix in _TOPOLOGY.items():
        if (key,) in case.recipe.positions:
            yield _Old("deprecated-topology", (key,), f"{key} is an old way to say how many nodes", f"write {fix}").found(case)


def doubled_braces(case: Case) -> Iterator[Finding]:
    """``{{`` for a single brace."""
    if case.recipe.command and "{{" in case.recipe.command:
        message = "doubled braces in the command stand for single ones, which need no doubling"
        yield _Old("deprecated-brace-escape", ("command",), message, "write { and } once").found(case)


def unused_name(case: Case) -> Iterator[Finding]:
    """``name``: a recipe is called by its file."""
    if ("name",) in case.recipe.positions:
        message = f"name is not used: the recipe is called {case.recipe.name}, after its file"
        yield _Old("deprecated-recipe-name", ("name",), message, "remove it").found(case)


def old_build_args(case: Case) -> Iterator[Finding]:
    """``build_args`` below ``runtime_config``."""
    if ("runtime_config", "build_args") in case.recipe.positions:
        message, fix = "build_args under runtime_config is an old place", "move build_args to the top of the recipe"
        yield _Old("deprecated-build-arg", ("runtime_config", "build_args"), message, fix).found(case)


LEGACY_RULES: tuple[Rule, ...] = (old_format, old_runtime, old_topology, doubled_braces, unused_name, old_build_args)
