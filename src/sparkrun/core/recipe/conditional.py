"""Conditional ``overrides``: which entries hold for the placed hosts, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.recipe.detect import matches_runtime, runtime_family
from sparkrun.core.recipe.schema import ConditionalOverride, Values
from sparkrun.core.values import ConfigValue, number_of
from sparkrun.utils.text import did_you_mean

SELECTORS = (
    "tp",
    "pp",
    "dp",
    "ep",
    "cp",
    "nodes",
    "gpus_per_node",
    "runtime",
    "runtime_family",
    "platform",
    "vendor",
    "accelerator",
    "arch",
    "capability",
    "memory_gb",
)
"""What ``when`` may ask, beside ``config.<key>``."""

COMPARISONS = ("gt", "gte", "lt", "lte")
OPERATORS = ("eq", "ne", "in", "not_in", *COMPARISONS)

_SIGNS = {"eq": "=", "ne": "≠", "in": "in", "not_in": "not in", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤"}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when overrides are judged. ``None`` is not known, and no condition on it holds. Memory is GiB per accelerator."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1
    nodes: int = 1
    gpus_per_node: int | None = None
    runtime: str = ""
    platform: str | None = None
    vendor: str | None = None
    accelerator: str | None = None
    arch: str | None = None
    capability: tuple[str, ...] = ()
    memory_gb: float | None = None
    config: Values = {}
    """The configuration without any conditional override."""


class Verdict(NamedTuple):
    """Whether an entry (counted from 1) holds, and the condition that decided it."""

    number: int
    matched: bool
    reason: str

    def __str__(self) -> str:
        return f"overrides[{self.number}] {'matched' if self.matched else 'skipped'}: {self.reason}"


def judge_overrides(overrides: tuple[ConditionalOverride, ...], facts: Mapping[str, Facts]) -> tuple[Verdict, ...]:
    """The verdict on each entry, given the facts of each placed host. Raises ``RecipeError`` where hosts disagree."""
    return tuple(_judge(number, entry, facts) for number, entry in enumerate(overrides, start=1))


def matching_overrides(overrides: tuple[ConditionalOverride, ...], verdicts: tuple[Verdict, ...]) -> tuple[ConditionalOverride, ...]:
    """The entries that hold, in order; later ones win."""
    return tuple(entry for entry, verdict in zip(overrides, verdicts, strict=True) if verdict.matched)


def is_selector(name: str) -> bool:
    """Whether ``when`` may ask for it."""
    return name in SELECTORS or (name.startswith("config.") and len(name) > len("config."))


def condition_problem(name: str, wanted: ConfigValue) -> str | None:
    """What is wrong with the form of one condition; ``None`` when nothing is."""
    if not isinstance(wanted, dict):
        return None
    if not wanted:
        return f"{name} has no operator (one of {', '.join(OPERATORS)})"
    for operator, operand in wanted.items():
        if operator not in OPERATORS:
            return f"{name}: unknown operator {operator!r}; {did_you_mean(operator, OPERATORS) or 'one of ' + ', '.join(OPERATORS)}"
        if operator in COMPARISONS and number_of(operand) is None:
            return f"{name}: {operator} needs a number, not {operand!r}"
        if operator in ("in", "not_in") and not isinstance(operand, list):
            return f"{name}: {operator} needs a list, not {operand!r}"
    return None


def _judge(number: int, entry: ConditionalOverride, facts: Mapping[str, Facts]) -> Verdict:
    if not facts:
        return Verdict(number, False, "no host is known")
    failures = {host: _failure(entry.when, known) for host, known in facts.items()}
    failed = {host: reason for host, reason in failures.items() if reason}
    if failed and len(failed) < len(failures):
        matched = ", ".join(host for host in failures if host not in failed)
        host, reason = next(iter(failed.items()))
        raise RecipeError(
            f"overrides[{number}] holds on {matched} but not on {host} ({reason})", hint="place the ranks on hosts that are alike"
        )
    if failed:
        return Verdict(number, False, next(iter(failed.values())))
    return Verdict(number, True, ", ".join(_words(name, wanted) for name, wanted in entry.when.items()) or "always")


def _failure(when: Values, facts: Facts) -> str | None:
    return next((reason for name, wanted in when.items() if (reason := _condition_failure(name, wanted, facts))), None)


def _condition_failure(name: str, wanted: ConfigValue, facts: Facts) -> str | None:
    if not is_selector(name):
        return f"unknown selector {name}"
    known = _known(name, facts)
    if known is None and not name.startswith("config."):
        return f"{name} is not known"
    tests = wanted if isinstance(wanted, dict) else {"in" if isinstance(wanted, list) else "eq": wanted}
    for operator, operand in tests.items():
        if not _holds(name, operator, known, operand):
            return f"{name} is {_shown(known)}, wanted {_SIGNS.get(operator, operator)} {_shown(operand)}"
    return None


def _known(name: str, facts: Facts) -> ConfigValue:
    if name.startswith("config."):
        return facts.config.get(name.removeprefix("config."))
    if name == "runtime_family":
        return runtime_family(facts.runtime)
    if name == "capability":
        return list(facts.capability)
    value: ConfigValue = getattr(facts, name)
    return value


def _holds(name: str, operator: str, known: ConfigValue, operand: ConfigValue) -> bool:
    if operator in COMPARISONS:
        return _compares(operator, number_of(known), number_of(operand))
    positive = operator in ("eq", "in")
    candidates = operand if operator in ("in", "not_in") and isinstance(operand, list) else [operand]
    return any(_same(name, known, candidate) for candidate in candidates) == positive


def _compares(operator: str, known: float | None, operand: float | None) -> bool:
    if known is None or operand is None:
        return False
    return {"gt": known > operand, "gte": known >= operand, "lt": known < operand, "lte": known <= operand}[operator]


def _same(name: str, known: ConfigValue, wanted: ConfigValue) -> bool:
    if name == "capability" and isinstance(known, list):
        return any(_text(tag) == _text(wanted) for tag in known)
    if name == "runtime":
        return matches_runtime(str(wanted), str(known))
    left, right = number_of(known), number_of(wanted)
    if left is not None and right is not None:
        return left == right
    return known == wanted or (known is not None and wanted is not None and _text(known) == _text(wanted))


def _text(value: ConfigValue) -> str:
    return str(value).strip().casefold()


def _shown(value: ConfigValue) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _words(name: str, wanted: ConfigValue) -> str:
    tests = wanted if isinstance(wanted, dict) else {"in" if isinstance(wanted, list) else "eq": wanted}
    return " and ".join(f"{name} {_SIGNS.get(operator, operator)} {_shown(operand)}" for operator, operand in tests.items())
