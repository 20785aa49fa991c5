from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Said

Cli = Callable[..., Said]


def test_a_feature_is_enabled_shown_and_reset(cli: Cli) -> None:
    assert "executor.local" not in cli("setup", "features", "list").out
    assert cli("setup", "features", "enable", "executor.local").out.startswith("executor.local                   on   (config)")
    listed = {entry["name"]: entry for entry in json.loads(cli("setup", "features", "list", "--json").out)}
    assert listed["executor.local"] == {
        "name": "executor.local",
        "owner": "sparkrun",
        "description": "run engines as plain processes on the host, without a container",
        "enabled": True,
        "source": "config",
        "override": True,
        "channel": "stable",
        "application_channel": "stable",
    }
    assert "off  (unset)" in cli("setup", "features", "reset", "executor.local").out


def test_disable_is_remembered(cli: Cli) -> None:
    cli("setup", "features", "disable", "executor.docker")
    assert "executor.docker                  off  (config)" in cli("setup", "features", "list").out


def test_a_variable_that_decides_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKRUN_FEATURE_EXECUTOR_LOCAL", "0")
    said = cli("setup", "features", "enable", "executor.local")
    assert "off  (env)" in said.out
    assert "SPARKRUN_FEATURE_EXECUTOR_LOCAL in the environment decides" in said.err


def test_an_unknown_feature_is_wrong_usage(cli: Cli) -> None:
    assert cli("setup", "features", "enable", "executor.locl") == Said(
        2, "", "error: unknown feature 'executor.locl'\n  hint: did you mean 'executor.local'?\n"
    )


def test_all_features_can_be_listed(cli: Cli) -> None:
    assert "plugins.coldsnap" in cli("setup", "features", "list", "--all").out
