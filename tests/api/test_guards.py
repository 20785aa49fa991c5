"""A worker that ends while the head still loads ends the launch, with its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.errors import EngineDiedError
from sparkrun.testing import FakeCluster

RECIPE = "model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {tensor_parallel: 2}\n"


def test_a_worker_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    two = FakeCluster("a", "b", root=tmp_path)
    for number, name in enumerate(("a", "b"), start=1):
        two[name].gpus = 1
        two[name].fabric = {
            "FABRIC_PORT_COUNT": "0",
            "FABRIC_IF_COUNT": "1",
            "FABRIC_IF_0_NAME": "eth0",
            "FABRIC_IF_0_ADDRESSES": f"10.0.0.{number}/24",
            "FABRIC_ROUTE_IF": "eth0",
            "FABRIC_SSH_ADDRESS": f"10.0.0.{number}",
        }
        two[name].models["org/m"] = "/models/m"
    two["b"].dies_with = 7
    two["b"].engine_log = ["boom"]
    (tmp_path / "r.yaml").write_text(RECIPE)
    with pytest.raises(EngineDiedError, match="rank 1 on b ended with exit code 7") as caught:
        api.run(api.RunOptions(recipe=str(tmp_path / "r.yaml"), hosts=api.HostOptions(hosts=("a,b",))), sctx=two.sctx)
    assert "| boom" in caught.value.message
    assert not [container for host in two.by_name.values() for container in host.docker.containers.values() if container.alive]
