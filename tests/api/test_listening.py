"""Where an engine listens: for the others of its launch on the fabric, for clients on what they can reach, or it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.plan import LaunchPlan
from sparkrun.testing import FakeCluster


def plan(root: Path, runtime: str, defaults: str, host: str = "spark-1") -> LaunchPlan:
    """Of a launch on one host."""
    cluster = FakeCluster(host, root=root)
    cluster[host].models["org/m"] = "/models/m"
    recipe = root / "r.yaml"
    recipe.write_text(f"model: org/m\nruntime: {runtime}\ncontainer: e/v:1\ndefaults: {defaults}\n")
    return api.plan(api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(hosts=(host,))), sctx=cluster.sctx)


@pytest.mark.parametrize(("runtime", "listens"), [("sglang", "127.0.0.1"), ("llama-cpp", "127.0.0.1"), ("trtllm", "localhost")])
def test_an_engine_that_only_its_own_host_reaches_is_told(tmp_path: Path, runtime: str, listens: str) -> None:
    (warning,) = [text for text in plan(tmp_path, runtime, "{}").warnings if "listens" in text]
    assert warning.startswith(f"{runtime} listens on {listens} of spark-1, where nobody else reaches it")


@pytest.mark.parametrize(
    ("runtime", "defaults", "host"),
    [("sglang", "{host: 0.0.0.0}", "spark-1"), ("vllm", "{}", "spark-1"), ("sglang", "{}", "localhost")],
)
def test_an_engine_that_clients_reach_is_not(tmp_path: Path, runtime: str, defaults: str, host: str) -> None:
    assert not [text for text in plan(tmp_path, runtime, defaults, host).warnings if "listens" in text]
