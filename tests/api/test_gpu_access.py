"""How containers reach NVIDIA's accelerators, by what the platform prefers and docker on the host can."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.testing import FakeCluster

HOOK = {"DOCKER_GPU_HOOK": "1"}
LIST = {"DOCKER_CDI": "1"}
BY_HOOK, BY_LIST = ["--gpus", "device=0"], ["--device", "nvidia.com/gpu=0"]


@pytest.mark.parametrize(
    ("gpu", "docker", "words"),
    [
        ("NVIDIA GB10", HOOK, BY_HOOK),
        ("NVIDIA GB10", HOOK | LIST, BY_HOOK),
        ("NVIDIA GB10", LIST, BY_LIST),
        ("NVIDIA H100 80GB HBM3", HOOK, BY_HOOK),
        ("NVIDIA H100 80GB HBM3", HOOK | LIST, BY_LIST),
        ("NVIDIA H100 80GB HBM3", {}, BY_HOOK),
    ],
)
def test_a_launch_takes_the_way_that_the_host_has(tmp_path: Path, gpu: str, docker: dict[str, str], words: list[str]) -> None:
    cluster = FakeCluster("a", root=tmp_path)
    host = cluster["a"]
    host.gpus, host.gpu_name, host.docker.device_access = 1, gpu, docker
    host.models["org/m"] = "/models/m"
    (tmp_path / "r.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\n")

    api.run(api.RunOptions(recipe=str(tmp_path / "r.yaml"), hosts=api.HostOptions(("a",))), sctx=cluster.sctx)

    (container,) = host.docker.containers.values()
    said = list(container.words)
    at = said.index(words[0]) if words == BY_HOOK else said.index(words[1]) - 1
    assert said[at : at + 2] == words
