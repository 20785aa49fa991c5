from __future__ import annotations

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import UsageError
from sparkrun.core.features import FEATURES, feature_enabled, feature_state, feature_states, feature_variable, set_feature


def test_docker_is_on_and_local_is_off_on_the_stable_channel(config: SparkrunConfig) -> None:
    assert feature_enabled("executor.docker", config)
    assert not feature_enabled("executor.local", config)


def test_the_environment_beats_the_file(env: dict[str, str]) -> None:
    set_feature("executor.local", True, SparkrunConfig.load(env))
    state = feature_state("executor.local", SparkrunConfig.load({**env, feature_variable("executor.local"): "false"}))
    assert (state.enabled, state.source, state.override) == (False, "env", True)


@pytest.mark.parametrize("variable", ["SPARKRUN_FEATURE_EXECUTOR_LOCAL", "SPARKRUN_FEATURE_executor_local"])
def test_the_variable_may_be_spelt_either_way(env: dict[str, str], variable: str) -> None:
    assert feature_enabled("executor.local", SparkrunConfig.load({**env, variable: "1"}))


def test_a_variable_that_is_neither_true_nor_false_is_told(env: dict[str, str]) -> None:
    config = SparkrunConfig.load({**env, "SPARKRUN_FEATURE_EXECUTOR_LOCAL": "maybe"})
    assert not feature_enabled("executor.local", config)
    assert "neither true nor false" in config.warnings[0]


@pytest.mark.parametrize(("channel", "enabled"), [("stable", False), ("beta", True), ("alpha", True), ("yolo", True)])
def test_a_channel_decides_where_nobody_else_does(config: SparkrunConfig, channel: str, enabled: bool) -> None:
    config.set("features.channel", channel)
    state = feature_state("builder.uv_venv", config)
    assert (state.enabled, state.source) == (enabled, "channel")


def test_the_channel_of_self_update_counts_when_features_names_none(config: SparkrunConfig) -> None:
    config.set("self_update.channel", "alpha")
    assert feature_enabled("daemon", config)


def test_enable_disable_and_reset_are_kept(env: dict[str, str]) -> None:
    for wanted, expected in ((True, True), (False, False), (None, False)):
        set_feature("executor.local", wanted, SparkrunConfig.load(env))
        assert feature_enabled("executor.local", SparkrunConfig.load(env)) is expected
    assert feature_state("executor.local", SparkrunConfig.load(env)).override is None


def test_an_unknown_feature_gets_the_nearest_name(config: SparkrunConfig) -> None:
    with pytest.raises(UsageError) as caught:
        feature_state("executor.locale", config)
    assert caught.value.hint == "did you mean 'executor.local'?"


def test_every_feature_has_a_state(config: SparkrunConfig) -> None:
    assert [state.name for state in feature_states(config)] == [feature.name for feature in FEATURES]
