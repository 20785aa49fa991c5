"""Writing a recipe out and reading it back plans the same launch, whatever its values are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.bootstrap import Plugins
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import SparkrunError
from sparkrun.core.recipe import RecipeSource, export_recipe, load_recipe_text
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.base import RuntimePlugin
from sparkrun.utils.yamlio import dump_yaml
from tests.runtimes.serving import configured

RUNTIMES = ("vllm-distributed", "vllm-ray", "sglang", "llama-cpp", "trtllm", "atlas")
KEYS = ("port", "host", "served_model_name", "dtype", "kv_cache_dtype", "chat_template", "reasoning_parser", "speculative_config", "own")
SCALARS = st.none() | st.booleans() | st.integers(0, 9999) | st.text(alphabet="ab {}'\"\\$-#,", max_size=12)
DEFAULTS = st.dictionaries(
    st.sampled_from(KEYS), SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2), max_size=4
)
STARTS = {"sglang": "sglang serve --model-path", "llama-cpp": "llama-server -m", "trtllm": "trtllm-serve", "atlas": "spark serve"}


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RuntimePlugin]:
    plugins = Plugins(SparkrunConfig.load({"HOME": str(tmp_path_factory.mktemp("home"))}))
    return {name: plugins.runtime(name) for name in RUNTIMES}


@given(name=st.sampled_from(RUNTIMES), defaults=DEFAULTS, version=st.sampled_from("12"), templated=st.booleans(), env=SCALARS)
def test_an_export_plans_the_same_launch(
    runtimes: dict[str, RuntimePlugin], name: str, defaults: dict[str, ConfigValue], version: str, templated: bool, env: ConfigValue
) -> None:
    placeholders = "".join(f" --{key} {{{key}}}" for key in defaults)
    command = {"command": f"{STARTS.get(name, 'vllm serve')} {{model}}{placeholders}"} if templated else {}
    text = dump_yaml({"recipe_version": version, "model": "org/m", "runtime": name, "defaults": defaults, "env": {"A": env}, **command})
    try:
        recipe = load_recipe_text(text, RecipeSource("text", "r"))
    except SparkrunError:
        return
    back = load_recipe_text(export_recipe(recipe), RecipeSource("text", "r"))
    assert outcome(runtimes[name], back) == outcome(runtimes[name], recipe)


def outcome(runtime: RuntimePlugin, recipe: object) -> object:
    """What the engine gets, with its environment, or why it gets nothing."""
    try:
        served = configured(runtime, recipe)  # type: ignore[arg-type]
        return served.command.text, served.config.container.env
    except SparkrunError as error:
        return error.message
