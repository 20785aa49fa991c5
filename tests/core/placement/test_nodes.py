"""How many ranks and nodes a recipe asks for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.errors import RecipeError
from sparkrun.core.placement import NODE_RULES, NodeCountError, NodeWish, TensorParallelError, check_tensor_parallel, required_nodes
from sparkrun.core.placement.heads import legal_sizes
from sparkrun.core.placement.nodes import node_rule, world_size


def sizes(tp: int = 0, pp: int = 0, dp: int = 0, ep: int = 0) -> dict[str, int]:
    """The kinds of parallelism that are set."""
    given = {"tensor_parallel": tp, "pipeline_parallel": pp, "data_parallel": dp, "expert_parallel": ep}
    return {key: size for key, size in given.items() if size}


def wish(runtime: str = "vllm-distributed", parallelism: Mapping[str, int] | None = None, **more: object) -> NodeWish:
    return NodeWish(runtime=runtime, parallelism=parallelism or {}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runtime", "parallelism", "size"),
    [
        ("vllm-distributed", sizes(2, 2, 3), 12),
        ("vllm-distributed", sizes(4, ep=4), 4),
        ("vllm-ray", sizes(2, 2), 4),
        ("sglang", sizes(2, dp=2), 4),
        ("trtllm", sizes(2, 3), 6),
        ("llama-cpp", sizes(pp=3), 3),
        ("atlas", sizes(4, ep=4), 4),
        ("atlas", sizes(2, ep=4), 8),
        ("atlas", sizes(1, ep=1), 1),
        ("atlas", sizes(ep=2), 2),
        ("tokenary", sizes(2), 2),
        ("somebody-elses", sizes(2, 2), 4),
    ],
)
def test_each_runtime_counts_its_ranks(runtime: str, parallelism: Mapping[str, int], size: int) -> None:
    assert world_size(node_rule(runtime), parallelism) == size
    assert required_nodes(wish(runtime, parallelism), [1] * 16).ranks == size


def test_data_parallel_attention_spans_the_tensor_parallel_ranks() -> None:
    assert required_nodes(wish("sglang", sizes(4, dp=4), dp_attention=True), [1] * 4).ranks == 4
    with pytest.raises(RecipeError, match=r"data_parallel must equal tensor_parallel \(2 and 4\)"):
        required_nodes(wish("sglang", sizes(4, dp=2), dp_attention=True), [1] * 4)


def test_no_parallelism_uses_one_of_three_hosts() -> None:
    count = required_nodes(wish(), [1, 1, 1])

    assert (count.ranks, count.nodes) == (1, 1)


def test_llama_cpp_without_parallelism_takes_every_host_up_to_the_limit() -> None:
    assert required_nodes(wish("llama-cpp"), [1, 1, 1]).nodes == 3
    assert required_nodes(wish("llama-cpp", max_nodes=2), [1, 1, 1]).nodes == 2
    assert required_nodes(wish("llama-cpp", solo=True), [1, 1, 1]).nodes == 1
    assert required_nodes(wish("llama-cpp", runtime_max_nodes=1), [1, 1, 1]).nodes == 1
    assert required_nodes(wish("llama-cpp", sizes(1)), [1, 1, 1]).nodes == 1


def test_no_parallelism_honours_the_least_number_of_nodes() -> None:
    assert required_nodes(wish(min_nodes=2), [1, 1, 1]).nodes == 2


@pytest.mark.parametrize("parallelism", [{}, sizes(2), sizes(1)])
def test_fewer_hosts_than_the_recipe_needs_are_refused(parallelism: Mapping[str, int]) -> None:
    with pytest.raises(NodeCountError, match=r"^recipe needs 2 nodes, 1 given"):
        required_nodes(wish(parallelism=parallelism, min_nodes=2), [1])


def test_more_ranks_than_the_recipe_allows_nodes_are_refused() -> None:
    with pytest.raises(NodeCountError, match=r"^recipe allows 1 node, tensor_parallel 2 needs 2$"):
        required_nodes(wish(parallelism=sizes(2), max_nodes=1), [1])


@pytest.mark.parametrize("room", [[], [0], [1], [1, 1]])
def test_a_limit_is_told_whatever_the_hosts_are(room: list[int]) -> None:
    with pytest.raises(NodeCountError, match="recipe allows 1 node, tensor_parallel 2 × pipeline_parallel 2 needs 4"):
        required_nodes(wish(parallelism=sizes(2, 2), max_nodes=1), room)


def test_a_runtime_on_one_node_says_so_itself() -> None:
    with pytest.raises(NodeCountError, match="modular-max runs on 1 node, tensor_parallel 2 needs 2"):
        required_nodes(wish("modular-max", sizes(2)), [1, 1])
    assert required_nodes(wish("modular-max", sizes(2)), [2]).nodes == 1


def test_too_few_hosts_for_the_ranks_are_refused_with_the_formula() -> None:
    with pytest.raises(NodeCountError) as refused:
        required_nodes(wish(parallelism=sizes(2, 2)), [1, 1, 1])

    assert refused.value.message == "recipe needs 4 nodes, 3 given (tensor_parallel 2 × pipeline_parallel 2, one GPU per host)"
    assert "--tp 3" in (refused.value.hint or "")


def test_hosts_with_several_gpus_hold_several_ranks() -> None:
    assert required_nodes(wish(parallelism=sizes(8)), [8, 8]).nodes == 1
    assert required_nodes(wish(parallelism=sizes(8, 2)), [8, 8]).nodes == 2
    with pytest.raises(NodeCountError, match=r"recipe needs 3 nodes, 2 given \(tensor_parallel 8 × pipeline_parallel 3, 8 GPUs per host\)"):
        required_nodes(wish(parallelism=sizes(8, 3)), [8, 8])


def test_ranks_below_the_least_number_of_nodes_are_refused() -> None:
    with pytest.raises(NodeCountError, match="recipe needs 2 nodes, tensor_parallel 1 uses 1"):
        required_nodes(wish(parallelism=sizes(1), min_nodes=2), [1, 1])


def test_a_least_number_above_the_limit_is_refused() -> None:
    with pytest.raises(NodeCountError, match="recipe needs 2 nodes, solo allows 1"):
        required_nodes(wish(min_nodes=2, solo=True), [1, 1])


@pytest.mark.parametrize(
    ("runtime", "parallelism", "told"),
    [
        ("vllm-ray", sizes(dp=2), "vllm-ray has no data_parallel"),
        ("eugr-vllm", sizes(dp=2), "eugr-vllm has no data_parallel"),
        ("llama-cpp", sizes(dp=2), "llama-cpp has no data_parallel"),
        ("llama-cpp", sizes(2, 2), r"by tensor_parallel or by pipeline_parallel, not both \(2 and 2\)"),
        ("vllm-distributed", {"tensor_parallel": 0}, "tensor_parallel is 0, less than 1"),
        ("vllm-distributed", {"tensor_parallel": -2}, "tensor_parallel is -2, less than 1"),
    ],
)
def test_a_parallelism_that_the_engine_lacks_is_refused(runtime: str, parallelism: Mapping[str, int], told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        required_nodes(wish(runtime, parallelism), [1] * 8)


def test_the_demand_carries_the_limits() -> None:
    demand = required_nodes(wish(parallelism=sizes(2), min_nodes=2, max_nodes=4), [8, 8]).demand()

    assert (demand.ranks, demand.min_nodes, demand.max_nodes, demand.even, demand.formula) == (2, 2, 4, True, "tensor_parallel 2")


def test_engines_that_place_ranks_themselves_need_no_equal_nodes() -> None:
    assert not required_nodes(wish("vllm-ray", sizes(3)), [1, 2]).even
    assert not required_nodes(wish(parallelism=sizes(dp=3)), [1, 2]).even


@given(
    st.sampled_from(sorted(NODE_RULES)),
    st.dictionaries(st.sampled_from(["tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel"]), st.integers(1, 4)),
    st.lists(st.integers(0, 8), max_size=6),
    st.integers(1, 4),
)
def test_the_nodes_are_never_more_than_given_nor_fewer_than_wanted(
    runtime: str, parallelism: dict[str, int], room: list[int], least: int
) -> None:
    try:
        count = required_nodes(wish(runtime, parallelism, min_nodes=least), room)
    except (NodeCountError, RecipeError):
        return

    assert least <= count.nodes <= len(room)
    assert count.nodes <= count.ranks <= sum(max(gpus, 1) for gpus in room)


@pytest.mark.parametrize(
    ("size", "heads", "kv_heads"),
    [(1, 32, 8), (2, 32, 8), (8, 32, 8), (16, 32, 8), (4, None, None), (4, 40, None), (8, None, 1), (3, 48, 3)],
)
def test_heads_that_split_are_accepted(size: int, heads: int | None, kv_heads: int | None) -> None:
    check_tensor_parallel(size, attention_heads=heads, kv_heads=kv_heads)


@pytest.mark.parametrize(
    ("size", "heads", "kv_heads", "message", "choices"),
    [
        (3, 32, 8, "tensor_parallel 3 does not divide 32 attention heads", (1, 2, 4, 8, 16)),
        (5, 40, 8, "tensor_parallel 5 neither divides 8 KV heads nor is a multiple of them", (1, 2, 4, 8)),
        (4, None, 3, "tensor_parallel 4 neither divides 3 KV heads nor is a multiple of them", (1, 3, 6, 9, 12, 15)),
        (20, 64, None, "tensor_parallel 20 does not divide 64 attention heads", (1, 2, 4, 8, 16)),
    ],
)
def test_heads_that_do_not_split_are_refused_with_both_numbers_and_the_choices(
    size: int, heads: int | None, kv_heads: int | None, message: str, choices: tuple[int, ...]
) -> None:
    with pytest.raises(TensorParallelError) as refused:
        check_tensor_parallel(size, attention_heads=heads, kv_heads=kv_heads)

    assert (refused.value.message, refused.value.choices) == (message, choices)
    assert refused.value.hint == f"tensor_parallel can be {', '.join(map(str, choices[:-1]))} or {choices[-1]}"


@given(st.integers(1, 32), st.none() | st.integers(1, 128), st.none() | st.integers(1, 128))
def test_every_choice_that_is_told_is_legal(size: int, heads: int | None, kv_heads: int | None) -> None:
    choices = legal_sizes(size, heads, kv_heads)

    assert choices[0] == 1
    for choice in choices:
        check_tensor_parallel(choice, attention_heads=heads, kv_heads=kv_heads)
    if size not in choices:
        with pytest.raises(TensorParallelError):
            check_tensor_parallel(size, attention_heads=heads, kv_heads=kv_heads)
