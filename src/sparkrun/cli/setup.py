"""``sparkrun setup``."""

from __future__ import annotations

import os

import click

from sparkrun.cli.lazy import Entry, LazyGroup
from sparkrun.cli.options import echo_json, json_option
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.features import FeatureState, feature_state, feature_states, feature_variable, set_feature

_COMMANDS = {
    "features": Entry("sparkrun.cli.setup:features", "Feature flags: list, enable, disable, reset."),
    "sync": Entry("sparkrun.cli.build:stage", "Bring a recipe's image and model to all hosts (as stage)."),
    "prune-runtime-cache": Entry("sparkrun.cli.runtime_cache:prune_runtime_cache", "Remove old compiled kernels from hosts.", hidden=True),
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def setup() -> None:
    """Set sparkrun up."""


@click.group()
def features() -> None:
    """Feature flags: what is switched on, and who said so."""


@features.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the flags that are off everywhere by default.")
@json_option
def list_features(everything: bool, as_json: bool) -> None:
    """Show the flags and where each value comes from."""
    config = SparkrunConfig.load(os.environ)
    shown = [
        state for state in feature_states(config) if everything or state.enabled or state.override is not None or state.source == "env"
    ]
    if as_json:
        import msgspec

        echo_json(msgspec.to_builtins(shown))
    else:
        for state in shown:
            click.echo(_row(state))
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)


@features.command()
@click.argument("name")
def enable(name: str) -> None:
    """Switch a feature on."""
    _change(name, True)


@features.command()
@click.argument("name")
def disable(name: str) -> None:
    """Switch a feature off."""
    _change(name, False)


@features.command()
@click.argument("name")
def reset(name: str) -> None:
    """Forget what was said about a feature; its channel decides again."""
    _change(name, None)


def _change(name: str, enabled: bool | None) -> None:
    config = SparkrunConfig.load(os.environ)
    set_feature(name, enabled, config)
    state = feature_state(name, config)
    click.echo(_row(state))
    if state.source == "env":
        click.echo(f"warning: {feature_variable(name)} in the environment decides, whatever the file says", err=True)


def _row(state: FeatureState) -> str:
    return f"{state.name:32} {'on ' if state.enabled else 'off'}  ({state.source})  {state.description}"
