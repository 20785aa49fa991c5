"""The example of docs/builders.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.builders.eugr_options import EugrOptions
from sparkrun.core.features import set_feature
from sparkrun.core.recipe.builders import EUGR
from sparkrun.testing import FakeCluster

PAGE = Path(__file__).resolve().parents[2] / "docs/builders.md"
RECIPE = (
    "model: org/m\nruntime: vllm\nbuilder: mirror\ncontainer: org/engine:1\nbuilder_config: {registry: m.lab}\ndefaults: {port: 8000}\n"
)


@pytest.fixture
def spark(tmp_path: Path) -> FakeCluster:
    """A host, and the builder of the page in a file."""
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    (tmp_path / "mirror.py").write_text(found[1])
    cluster = FakeCluster("spark-1", root=tmp_path)
    cluster["spark-1"].gpus = 1
    cluster["spark-1"].models["org/m"] = "/hub/m"
    config = cluster.sctx.config
    config.set("plugins.paths", [str(tmp_path / "mirror.py")])
    set_feature("core.external_plugins", True, config)
    return cluster


def options(tmp_path: Path, text: str = RECIPE, **changes: object) -> api.RunOptions:
    (tmp_path / "r.yaml").write_text(text)
    return api.RunOptions(recipe=str(tmp_path / "r.yaml"), hosts=api.HostOptions(hosts=("spark-1",)), **changes)  # type: ignore[arg-type]


def test_the_image_becomes_what_the_page_says_and_is_pulled_like_any_other(spark: FakeCluster, tmp_path: Path) -> None:
    told = re.search(r"the image `(\S+)` becomes `(\S+)`", PAGE.read_text())
    assert told
    assert told[1] in RECIPE
    spark["spark-1"].docker.lacks.add(told[2])

    assert api.run(options(tmp_path), sctx=spark.sctx).ready

    (container,) = spark["spark-1"].docker.containers.values()
    assert container.image == told[2]
    assert [call.params["IMAGE"] for call in spark["spark-1"].ran if call.name == "docker_pull"] == [told[2]]


def test_its_build_and_its_way_out_are_those_of_the_page(spark: FakeCluster, tmp_path: Path) -> None:
    spark["spark-1"].refuse("docker_pull", "no route")

    with pytest.raises(api.BuildFailedError, match=r"cannot make m\.lab/org/engine:1 on spark-1: it failed: no route") as caught:
        api.run(options(tmp_path, rebuild=True), sctx=spark.sctx)

    assert caught.value.hint == "is the mirror up?"


def test_its_options_are_checked_like_those_of_any_other(spark: FakeCluster, tmp_path: Path) -> None:
    report = api.validate(str(options(tmp_path, RECIPE.replace("registry:", "regstry:")).recipe), sctx=spark.sctx)

    assert [finding.message for finding in report.findings if finding.code == "builder-field"] == [
        "the builder mirror does not read regstry"
    ]


def test_every_option_of_the_eugr_builder_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [key for key in EUGR.options if f"`{key}`" not in text] == []
    assert set(EugrOptions.__struct_fields__) | {"rebuild"} == EUGR.options
