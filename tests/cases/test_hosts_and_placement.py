"""P: hosts and placement."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Said
from tests.pace import slowness

Cli = Callable[..., Said]
VLLM = "model: org/m\nruntime: vllm\ncontainer: e/v:1\n"


@pytest.mark.parametrize("words", [("--hosts", "a,b"), ("--hosts", "a, b"), ("--hosts", "a,b,"), ("-H", "a", "-H", "b")])
def test_p1_always_two_hosts(sparkrun: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "x.yaml").write_text(VLLM + "defaults: {tensor_parallel: 2}\n")
    said = sparkrun("run", str(tmp_path / "x.yaml"), *words, "--dry-run", "--json")
    assert json.loads(said.out)["hosts"] == ["a", "b"]
    assert sparkrun("cluster", "create", "two", *words).code == 0
    assert json.loads(sparkrun("cluster", "show", "two", "--json").out)["hosts"] == ["a", "b"]


def test_p3_too_few_nodes_are_told_with_both_numbers(plan: Cli) -> None:
    said = plan(VLLM + "min_nodes: 2\n")
    assert said.code == 1
    assert "recipe needs 2 nodes, 1 given" in said.err


def test_p4_too_many_nodes_are_told_with_both_numbers(plan: Cli) -> None:
    said = plan(VLLM + "max_nodes: 1\n", "--tp", "2", hosts="a,b")
    assert said.code == 1
    assert "recipe allows 1 node, tensor_parallel 2 needs 2" in said.err
    assert "free capacity" not in said.err


def test_p7_no_other_node_hears_of_loopback(plan: Cli) -> None:
    said = plan(VLLM, "--tp", "2", hosts="127.0.0.1,10.1.1.2")
    assert said.code == 0, said.err
    other = json.dumps([rank for rank in said.plan["ranks"] if rank["host"] == "10.1.1.2"])
    assert "127.0.0.1" not in other
    assert "localhost" not in other


def test_p8_a_dry_run_of_unroutable_hosts_is_instant(plan: Cli) -> None:
    began = time.monotonic()
    said = plan(VLLM, "--tp", "2", hosts="203.0.113.1,203.0.113.2")
    assert said.code == 0
    assert said.plan["assumed_hosts"] == ["203.0.113.1", "203.0.113.2"]
    assert time.monotonic() - began < 5 * slowness()


def test_p11_without_parallelism_one_host_is_used(plan: Cli) -> None:
    said = plan(VLLM, hosts="a,b,c")
    assert said.plan["hosts"] == ["a"]
    assert len(said.plan["ranks"]) == 1
