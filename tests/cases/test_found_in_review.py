"""Faults found while reading the code, as the commands that show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases.conftest import Said

Cli = Callable[..., Said]
VLLM = "model: org/m\nruntime: vllm\ncontainer: e/v:1\n"


@pytest.mark.parametrize("cache", ["false", "{enabled: no}", "{enabled: 'off'}"])
def test_a_compile_cache_is_switched_off_in_any_spelling(plan: Cli, cache: str) -> None:
    said = plan(VLLM + f"runtime_cache: {cache}\n")
    assert said.code == 0, said.err
    assert "/cache/runtime" not in said.out


def test_pruning_of_the_compile_cache_is_a_mapping(plan: Cli) -> None:
    said = plan(VLLM + "runtime_cache: {key_by_image: true, prune: {enabled: true, max_age_days: 3}}\n")
    assert said.code == 0, said.err
    assert "/cache/runtime" in said.out


def test_a_compile_cache_of_the_wrong_kind_is_one_clear_line(plan: Cli) -> None:
    said = plan(VLLM + "runtime_cache: {key_by_model: maybe}\n")
    assert said.code == 1
    assert "case.yaml:4" in said.err
    assert "runtime_cache" in said.err
    assert "Traceback" not in said.err


def test_an_override_picks_the_variant_of_the_engine(plan: Cli) -> None:
    said = plan(VLLM, "--tp", "2", "-o", "distributed_executor_backend=ray", hosts="a,b")
    assert said.plan["runtime"] == "vllm-ray"


def test_an_image_for_a_host_that_is_not_there_is_refused(plan: Cli) -> None:
    text = "model: org/m\nruntime: vllm-distributed\ncontainers: [{host: spark-1, image: e/v:1}]\n"
    said = plan(text, hosts="spark-2")
    assert said.code == 1
    assert "spark-1 is none of the hosts" in said.err


def test_a_builder_that_is_not_there_is_one_clear_line(plan: Cli) -> None:
    said = plan(VLLM + "builder: uv-venv\n")
    assert said.code == 1
    assert "error: the builder uv-venv (feature builder.uv_venv) is not part of this version\n" in said.err
    assert not plan(VLLM + "builder: eugr\n").plan["warnings"]
