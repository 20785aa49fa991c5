from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.identity import CLUSTER_ID, Intent, cluster_id, matches_id, placement_token


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def test_an_intent_is_its_parts_joined_by_nul() -> None:
    intent = Intent(
        runtime="vllm-distributed",
        model="org/M",
        image="img:1",
        host_images={"b": "y", "a": "x"},
        port=8000,
        served_model_name="m",
        parallelism={"tensor_parallel": 2, "pipeline_parallel": 1},
    )
    assert intent.id == digest("vllm-distributed", "org/M", "image=img:1", "image@a=x", "image@b=y", "port=8000", "name=m", "tp=2")[:16]


def test_the_order_of_hosts_does_not_matter() -> None:
    assert placement_token(["b", "a"]) == placement_token(["a", "b"]) == digest("a", "b")[:12]


@given(st.text(), st.text(), st.lists(st.text(min_size=1), min_size=1))
def test_every_id_has_the_documented_form(runtime: str, model: str, hosts: list[str]) -> None:
    assert CLUSTER_ID.fullmatch(cluster_id(Intent(runtime=runtime, model=model), hosts))


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("sparkrun_edeba08d671a0805_915ffdbd7f95", True),
        ("edeba08d671a0805_915ffdbd7f95", True),
        ("edeba08d", True),
        ("EDEB", True),
        ("edeba08d671a0805_915f", True),
        ("sparkrun_ed", True),
        ("sparkrun_", False),
        ("sparkrun_x", False),
        ("ede", False),
        ("edebb", False),
        ("915ffdbd7f95", False),
        ("qwen", False),
    ],
)
def test_a_workload_is_found_by_its_id_or_the_beginning_of_it(text: str, matches: bool) -> None:
    assert matches_id(text, "sparkrun_edeba08d671a0805_915ffdbd7f95") is matches
