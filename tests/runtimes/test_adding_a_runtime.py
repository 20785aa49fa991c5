"""The example of docs/adding-a-runtime.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import PluginError
from sparkrun.core.features import set_feature
from sparkrun.core.recipe import RecipeSource, load_recipe_text
from sparkrun.runtimes.base import RuntimePlugin
from tests.runtimes.serving import Served, configured

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-runtime.md"


def block(language: str) -> str:
    """The first example of a language on the page."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def runtime(config: SparkrunConfig, tmp_path: Path) -> RuntimePlugin:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "nimbus.py").write_text(block("python"))
    config.set("plugins.paths", [str(folder)])
    set_feature("core.external_plugins", True, config)
    return Plugins(config).runtime("nimbus")


def served(runtime: RuntimePlugin, *overrides: str) -> Served:
    recipe = load_recipe_text(block("yaml"), RecipeSource("text", "r"))
    assert recipe.runtime == "nimbus"
    return configured(runtime, recipe, *overrides)


def test_the_recipe_of_the_page_starts_what_the_page_says(runtime: RuntimePlugin) -> None:
    told = re.search(r"starts `([^`]*)`", PAGE.read_text())
    assert told
    head, worker = (command.text for command in served(runtime).rank_commands(2))
    assert head == told[1]
    assert worker == told[1].replace("--shard 0", "--shard 1")


def test_it_counts_nodes_and_keeps_secrets_like_any_other(runtime: RuntimePlugin) -> None:
    example = served(runtime, "api_key=k")
    assert runtime.required_nodes(example.recipe, example.config, [1, 1, 1]).nodes == 2
    assert (example.command.secret_env, "k" in example.words) == ({"NIMBUS_API_KEY": "k"}, False)
    (_, worker) = example.ranks(2)
    assert runtime.get_extra_env(msgspec.structs.replace(example.ctx, rank=worker)) == {"NIMBUS_CLUSTER": "1", "NIMBUS_ADDRESS": "10.0.0.2"}


def test_every_name_on_the_page_exists(runtime: RuntimePlugin) -> None:
    """Each attribute and method in the two tables is one of a runtime."""
    cells = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text(), re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)", cell)]
    assert len(names) > 20
    assert [name for name in names if not hasattr(runtime, name)] == []


def test_without_the_feature_the_file_is_not_read(config: SparkrunConfig, tmp_path: Path) -> None:
    (tmp_path / "nimbus.py").write_text(block("python"))
    config.set("plugins.paths", [str(tmp_path)])
    with pytest.raises(PluginError, match="no runtime named 'nimbus'"):
        Plugins(config).runtime("nimbus")
