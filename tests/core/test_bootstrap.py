from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkrun.core.bootstrap import KINDS, Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ExecutorUnavailableError, PluginError
from sparkrun.core.features import set_feature
from sparkrun.orchestration.executor import ExecutorLayers, resolve_executor

FOREIGN = """\
from sparkrun.runtimes.base import RuntimePlugin


class Foreign(RuntimePlugin):
    plugin_name = "{name}"
"""


def test_there_are_seven_kinds() -> None:
    assert [kind.extension_point for kind in KINDS.values()] == [
        "sparkrun.runtime",
        "sparkrun.builder",
        "sparkrun.benchmarking",
        "sparkrun.executor",
        "sparkrun.scheduler",
        "sparkrun.transport",
        "sparkrun.telemetry",
    ]


def test_our_own_plugins_are_found_by_scanning(config: SparkrunConfig) -> None:
    assert Plugins(config).runtime("llama-cpp").plugin_name == "llama-cpp"


def test_an_unknown_plugin_gets_the_nearest_name(config: SparkrunConfig) -> None:
    with pytest.raises(PluginError, match="no runtime named 'llama-cp'") as caught:
        Plugins(config).runtime("llama-cp")
    assert caught.value.hint == "did you mean 'llama-cpp'?"


def test_every_kind_can_be_asked_for(config: SparkrunConfig) -> None:
    plugins = Plugins(config)
    for kind in KINDS:
        assert isinstance(plugins.names(kind), tuple)
    assert plugins.failures == []


def test_a_switched_off_executor_names_its_flag(config: SparkrunConfig) -> None:
    with pytest.raises(ExecutorUnavailableError, match=r"switched off by the feature flag executor\.local") as caught:
        Plugins(config).executor("local")
    assert "SPARKRUN_FEATURE_EXECUTOR_LOCAL=1" in str(caught.value.hint)


def test_a_switched_on_executor_is_had(config: SparkrunConfig) -> None:
    set_feature("executor.local", True, config)
    assert Plugins(config).executor("local").plugin_name == "local"


def test_what_runs_is_seen_whatever_is_switched_off(config: SparkrunConfig) -> None:
    assert "local" in {executor.plugin_name for executor in Plugins(config).executors()}


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (ExecutorLayers(), "docker"),
        (ExecutorLayers(config="e"), "e"),
        (ExecutorLayers(config="e", runtime="d"), "d"),
        (ExecutorLayers(config="e", runtime="d", cluster="c"), "c"),
        (ExecutorLayers(config="e", runtime="d", cluster="c", recipe="b"), "b"),
        (ExecutorLayers(config="e", runtime="d", cluster="c", recipe="b", cli="a"), "a"),
    ],
)
def test_the_strongest_layer_names_the_executor(layers: ExecutorLayers, name: str) -> None:
    assert layers.chosen()[0] == name


def test_a_refused_executor_says_who_named_it(config: SparkrunConfig) -> None:
    with pytest.raises(ExecutorUnavailableError, match=r"\(named by the cluster\)"):
        resolve_executor(ExecutorLayers(cluster="local"), Plugins(config).executor)


def external(config: SparkrunConfig, tmp_path: Path, text: str) -> Plugins:
    (tmp_path / "plug.py").write_text(text)
    config.set("plugins.paths", [str(tmp_path)])
    set_feature("core.external_plugins", True, config)
    return Plugins(config)


def test_a_plugin_of_a_path_is_found_when_that_is_switched_on(config: SparkrunConfig, tmp_path: Path) -> None:
    plugins = external(config, tmp_path, FOREIGN.format(name="mine"))
    assert plugins.runtime("mine").plugin_name == "mine"


def test_a_plugin_of_a_path_is_not_loaded_otherwise(config: SparkrunConfig, tmp_path: Path) -> None:
    (tmp_path / "plug.py").write_text(FOREIGN.format(name="mine"))
    config.set("plugins.paths", [str(tmp_path)])
    with pytest.raises(PluginError, match="no runtime named 'mine'"):
        Plugins(config).runtime("mine")


def test_a_broken_plugin_takes_nothing_with_it(config: SparkrunConfig, tmp_path: Path) -> None:
    plugins = external(config, tmp_path, "1/0\n")
    assert "llama-cpp" in plugins.names("runtime")
    assert [(failure.origin, failure.reason) for failure in plugins.failures] == [
        (str(tmp_path / "plug.py"), "ZeroDivisionError: division by zero")
    ]


def test_a_foreign_plugin_cannot_take_the_name_of_one_of_ours(config: SparkrunConfig, tmp_path: Path) -> None:
    plugins = external(config, tmp_path, FOREIGN.format(name="llama-cpp"))
    plugins.names("runtime")
    assert type(plugins.runtime("llama-cpp")).__module__ == "sparkrun.runtimes.llama_cpp"
    assert "exists already" in plugins.failures[0].reason


def test_plugins_of_installed_packages_are_found_by_entry_point(tmp_path: Path) -> None:
    (tmp_path / "foreign_engine.py").write_text(FOREIGN.format(name="foreign"))
    info = tmp_path / "foreign_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sparkrun.runtimes]\nforeign = foreign_engine:Foreign\n")
    script = (
        "import os\nfrom sparkrun.core.bootstrap import Plugins\nfrom sparkrun.core.config import SparkrunConfig\n"
        "print(Plugins(SparkrunConfig.load(os.environ)).runtime('foreign').plugin_name)"
    )
    env = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert ended.stdout == "foreign\n", ended.stderr
