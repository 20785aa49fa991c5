"""How many ranks and nodes a recipe asks for, by its runtime's own way of counting. Knows no host, only how many GPUs each has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sparkrun.core.errors import RecipeError
from sparkrun.core.placement.errors import NodeCountError
from sparkrun.core.placement.model import Demand

TP, PP, DP, EP = "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel"
_SET_BY = (TP, PP, DP, EP, "context_parallel")


class NodeRule(NamedTuple):
    """How a runtime counts. The world size is the product of ``factors``."""

    factors: tuple[str, ...] = (TP, PP, DP)
    once: tuple[str, str] | None = None
    """Two factors that span the same ranks when they are equal, and are then counted once."""
    must_match: bool = False
    """Whether the two of ``once`` must be equal."""
    without: tuple[str, ...] = ()
    """Kinds of parallelism that the engine does not have."""
    either: tuple[str, str] | None = None
    """Two kinds of which only one may be used."""
    fills_hosts: bool = False
    """Whether a recipe without parallelism takes every host."""
    max_nodes: int | None = None
    even: bool = True
    """Whether every node must hold the same number of ranks: engines that are told a number of nodes divide the ranks by it."""
    splits_heads: bool = True
    """Whether tensor parallelism splits attention heads evenly."""


DEFAULT_RULE = NodeRule()
NODE_RULES: Mapping[str, NodeRule] = {
    "vllm-distributed": DEFAULT_RULE,
    "vllm-ray": NodeRule(without=(DP,), even=False),
    "eugr-vllm": NodeRule(without=(DP,), even=False),
    "sglang": DEFAULT_RULE,
    "llama-cpp": NodeRule(without=(DP,), either=(TP, PP), fills_hosts=True, even=False, splits_heads=False),
    "trtllm": DEFAULT_RULE,
    "atlas": NodeRule(factors=(TP, EP), once=(TP, EP)),
    "modular-max": NodeRule(max_nodes=1),
    "tokenary": DEFAULT_RULE,
}
"""By runtime. One that is not here counts in the usual way."""
DP_ATTENTION_RULE = NodeRule(factors=(TP, PP, DP), once=(TP, DP), must_match=True)
"""SGLang with ``enable_dp_attention``: its data-parallel ranks are its tensor-parallel ones."""


class NodeWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe and its user say about nodes. ``parallelism`` has the keys that somebody set (``tensor_parallel`` …)."""

    runtime: str
    parallelism: Mapping[str, int] = {}
    min_nodes: int = 1
    max_nodes: int | None = None
    runtime_max_nodes: int | None = None
    """What the runtime itself can do, where that is less than its rule says."""
    solo: bool = False
    dp_attention: bool = False


class NodeCount(msgspec.Struct, frozen=True):
    """How many ranks there will be, on how few nodes at the least, on how many at the most, and which product says so."""

    ranks: int
    nodes: int
    max_nodes: int | None = None
    formula: str = ""
    even: bool = False

    def demand(self) -> Demand:
        """The demand of these ranks, one GPU each; memory and share are for the caller to add."""
        return Demand(ranks=self.ranks, min_nodes=self.nodes, max_nodes=self.max_nodes, even=self.even, formula=self.formula)


class _Limit(NamedTuple):
    nodes: int
    who: str


def node_rule(runtime: str, *, dp_attention: bool = False) -> NodeRule:
    """How this runtime counts."""
    return DP_ATTENTION_RULE if runtime == "sglang" and dp_attention else NODE_RULES.get(runtime, DEFAULT_RULE)


def world_size(rule: NodeRule, parallelism: Mapping[str, int]) -> int:
    """The number of ranks that the parallelism asks for; what is not set counts as 1."""
    return math.prod(parallelism.get(key, 1) for key in _counted(rule, parallelism))


def required_nodes(wish: NodeWish, room: Sequence[int]) -> NodeCount:
    """Ranks and nodes for a recipe on given hosts; ``room`` is how many GPUs each of them has (a host without any counts as one place).

    Without parallelism one host is used, or as many as the recipe's least; llama.cpp takes every host. Raises ``RecipeError`` for a
    parallelism that the runtime does not have, ``NodeCountError`` with both numbers when recipe, parallelism and hosts do not agree.
    """
    rule = node_rule(wish.runtime, dp_attention=wish.dp_attention)
    _check_parallelism(rule, wish)
    limit = min(_limits(rule, wish), default=None)
    if not any(key in wish.parallelism for key in _SET_BY):
        return _without_parallelism(rule, wish, len(room), limit)
    ranks, formula = world_size(rule, wish.parallelism), _formula(rule, wish.parallelism)
    places = sorted((max(gpus, 1) for gpus in room), reverse=True)
    fewest = _fewest_nodes(ranks, places)
    _check_limit(limit, fewest, formula)
    _check_least(wish, len(room), limit)
    if ranks < wish.min_nodes:
        raise NodeCountError(f"recipe needs {_nodes(wish.min_nodes)}, {formula} uses {ranks}", hint=f"raise it: --tp {wish.min_nodes}")
    if fewest > len(room):
        raise _too_few(fewest, places, formula)
    even = rule.even and wish.parallelism.get(DP, 1) == 1
    return NodeCount(ranks, max(fewest, wish.min_nodes), limit.nodes if limit else None, formula, even)


def _without_parallelism(rule: NodeRule, wish: NodeWish, given: int, limit: _Limit | None) -> NodeCount:
    _check_least(wish, given, limit)
    most = min(given, limit.nodes) if limit else given
    ranks = max(most if rule.fills_hosts else 1, wish.min_nodes)
    return NodeCount(ranks, ranks, limit.nodes if limit else None, "no parallelism" if ranks == 1 else f"{_nodes(ranks)}, one rank each")


def _check_parallelism(rule: NodeRule, wish: NodeWish) -> None:
    given = wish.parallelism
    for key, size in given.items():
        if size < 1:
            raise RecipeError(f"{key} is {size}, less than 1", hint=f"set {key} to 1 or more")
        if size > 1 and key in rule.without:
            raise RecipeError(f"{wish.runtime} has no {key} (it is {size})", hint=f"remove {key}, or use another runtime")
    if rule.either and all(given.get(key, 1) > 1 for key in rule.either):
        first, second = rule.either
        raise RecipeError(
            f"{wish.runtime} splits by {first} or by {second}, not both ({given[first]} and {given[second]})", hint="set one of them to 1"
        )
    if rule.must_match and rule.once and given.get(rule.once[1], 1) not in (1, given.get(rule.once[0], 1)):
        first, second = rule.once
        raise RecipeError(
            f"with enable_dp_attention {second} must equal {first} ({given.get(second, 1)} and {given.get(first, 1)})",
            hint=f"set {second} to {given.get(first, 1)}",
        )


def _counted(rule: NodeRule, parallelism: Mapping[str, int]) -> tuple[str, ...]:
    if rule.once and parallelism.get(rule.once[0], 1) == parallelism.get(rule.once[1], 1):
        return tuple(key for key in rule.factors if key != rule.once[1])
    return rule.factors


def _formula(rule: NodeRule, parallelism: Mapping[str, int]) -> str:
    keys = [key for key in _counted(rule, parallelism) if parallelism.get(key, 1) > 1]
    return " × ".join(f"{key} {parallelism[key]}" for key in keys) or f"{TP} 1"


def _limits(rule: NodeRule, wish: NodeWish) -> Iterator[_Limit]:
    if wish.max_nodes is not None:
        yield _Limit(wish.max_nodes, "recipe allows")
    for own in (rule.max_nodes, wish.runtime_max_nodes):
        if own is not None:
            yield _Limit(own, f"{wish.runtime} runs on")
    if wish.solo:
        yield _Limit(1, "solo allows")


def _check_limit(limit: _Limit | None, fewest: int, formula: str) -> None:
    if limit and fewest > limit.nodes:
        raise NodeCountError(
            f"{limit.who} {_nodes(limit.nodes)}, {formula} needs {fewest}",
            hint=f"lower the parallelism (--tp {limit.nodes}), or use hosts with more GPUs",
        )


def _check_least(wish: NodeWish, given: int, limit: _Limit | None) -> None:
    if limit and wish.min_nodes > limit.nodes:
        raise NodeCountError(f"recipe needs {_nodes(wish.min_nodes)}, {limit.who} {limit.nodes}", hint="lower min_nodes")
    if wish.min_nodes > given:
        raise NodeCountError(f"recipe needs {_nodes(wish.min_nodes)}, {given} given", hint="add a host with -H")


def _too_few(fewest: int, places: Sequence[int], formula: str) -> NodeCountError:
    per_host = f"{places[0]} GPUs per host" if places and places[0] > 1 else "one GPU per host"
    hint = f"add hosts with -H, or lower the parallelism (--tp {max(sum(places), 1)})"
    return NodeCountError(f"recipe needs {_nodes(fewest)}, {len(places)} given ({formula}, {per_host})", hint=hint)


def _fewest_nodes(ranks: int, places: Sequence[int]) -> int:
    """Filling the largest hosts first; where all of them do not suffice, more of the largest kind are counted."""
    left = ranks
    for number, size in enumerate(places, start=1):
        left -= size
        if left <= 0:
            return number
    return len(places) + math.ceil(left / (places[0] if places else 1))


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number != 1)}"
