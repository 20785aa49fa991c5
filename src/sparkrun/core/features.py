"""Feature flags: what is switched on, and who said so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import UsageError
from sparkrun.utils.text import did_you_mean

Channel = Literal["stable", "beta", "alpha"]
Source = Literal["env", "config", "application", "channel", "unset"]

_CHANNELS: dict[str, Channel] = {
    "stable": "stable",
    "beta": "beta",
    "develop": "beta",
    "alpha": "alpha",
    "develop-next": "alpha",
    "yolo": "alpha",
}
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class Feature(msgspec.Struct, frozen=True):
    """A switch, and the release channels on which it is on by itself."""

    name: str
    description: str
    channels: frozenset[Channel] = frozenset()
    owner: str = "sparkrun"


class FeatureState(msgspec.Struct, frozen=True):
    """A feature as it is in force, as ``setup features list --json`` shows it."""

    name: str
    owner: str
    description: str
    enabled: bool
    source: Source
    override: bool | None
    channel: Channel
    application_channel: Channel = "stable"


_ALL = frozenset[Channel]({"stable", "beta", "alpha"})
_BETA = frozenset[Channel]({"beta", "alpha"})
_ALPHA = frozenset[Channel]({"alpha"})

FEATURES: tuple[Feature, ...] = (
    Feature("executor.docker", "run engines in Docker containers", _ALL),
    Feature("executor.local", "run engines as plain processes on the host, without a container"),
    Feature("integration.arena", "submit benchmark results to the arena", _ALL),
    Feature("integration.k8s", "run engines on Kubernetes", _ALPHA),
    Feature("builder.uv_venv", "build engine environments with uv", _BETA),
    Feature("cli.tune", "the tune commands", _ALL),
    Feature("cli.setup.features", "show setup features in the help", _BETA),
    Feature("cli.setup.rdma_test", "setup rdma-test", _ALL),
    Feature("cli.setup.rdma_test.nccl", "NCCL suites of setup rdma-test", _ALPHA),
    Feature("cli.setup.wizard", "setup wizard", _ALL),
    Feature("cli.setup.tailscale", "setup tailscale"),
    Feature("setup.steps.docker", "host set-up: Docker", _ALL),
    Feature("setup.steps.docker_group", "host set-up: docker group", _ALL),
    Feature("setup.steps.nvidia_container", "host set-up: NVIDIA container toolkit", _ALL),
    Feature("setup.steps.nvidia_cdi", "host set-up: CDI specification", _ALL),
    Feature("setup.steps.host_ipc", "host set-up: host IPC", _ALL),
    Feature("setup.steps.earlyoom", "host set-up: earlyoom", _ALL),
    Feature("setup.steps.sudoers", "host set-up: sudo rules", _ALL),
    Feature("setup.steps.ssh_identity", "host set-up: unique host keys", _ALL),
    Feature("setup.steps.ssh_mesh", "host set-up: ssh between hosts", _ALL),
    Feature("setup.steps.cx7", "host set-up: ConnectX-7 addresses", _ALL),
    Feature("setup.steps.rdma", "host set-up: RDMA", _ALL),
    Feature("gateway", "the proxy over running workloads", _ALL),
    Feature("gateway.litellm", "LiteLLM as the proxy's engine", _ALL),
    Feature("plugins.oci_relay", "relay images between hosts", _ALL),
    Feature("plugins.coldsnap", "cold snapshots of engines"),
    Feature("registry.lil", "the lil registry", _ALPHA),
    Feature("daemon", "the local API daemon", _ALPHA),
    Feature("core.external_plugins", "load plugins from plugins.paths"),
)
_BY_NAME = {feature.name: feature for feature in FEATURES}


def feature_state(name: str, config: SparkrunConfig) -> FeatureState:
    """Whether a feature is on: environment, ``features.<name>`` in config.yaml, channel, else off. ``UsageError`` for an unknown name."""
    feature = _feature(name)
    channel = release_channel(config)
    override = _override(name, config)
    env = _from_env(name, config)
    if env is not None:
        enabled, source = env, "env"
    elif override is not None:
        enabled, source = override, "config"
    else:
        enabled, source = channel in feature.channels, "channel" if feature.channels else "unset"
    return FeatureState(name, feature.owner, feature.description, enabled, source, override, channel)  # type: ignore[arg-type]


def feature_enabled(name: str, config: SparkrunConfig) -> bool:
    """Whether a feature is on; see ``feature_state``."""
    return feature_state(name, config).enabled


def feature_states(config: SparkrunConfig) -> Iterator[FeatureState]:
    """Every known feature, in the order of the table."""
    return (feature_state(feature.name, config) for feature in FEATURES)


def set_feature(name: str, enabled: bool | None, config: SparkrunConfig) -> None:
    """Write a feature's override into config.yaml; ``None`` takes it out."""
    _feature(name)
    overrides = dict(config.mapping("features"))
    overrides.pop(name, None)
    if enabled is not None:
        overrides[name] = enabled
    if overrides:
        config.set("features", overrides)
    else:
        config.unset("features")
    config.save()


def feature_variable(name: str) -> str:
    """The environment variable that overrides a feature."""
    return "SPARKRUN_FEATURE_" + name.replace(".", "_").replace("-", "_").upper()


def release_channel(config: SparkrunConfig) -> Channel:
    """``features.channel``, else ``self_update.channel``, else stable."""
    named = config.mapping("features").get("channel") or config.mapping("self_update").get("channel")
    return _CHANNELS.get(str(named).lower(), "stable") if named else "stable"


def _feature(name: str) -> Feature:
    feature = _BY_NAME.get(name)
    if feature is None:
        raise UsageError(f"unknown feature '{name}'", hint=did_you_mean(name, _BY_NAME) or "sparkrun setup features list --all")
    return feature


def _from_env(name: str, config: SparkrunConfig) -> bool | None:
    for variable in (feature_variable(name), "SPARKRUN_FEATURE_" + name.replace(".", "_").replace("-", "_")):
        text = config.env.get(variable, "").strip().lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
        if text and (warning := f"{variable}={text} is neither true nor false and has no effect") not in config.warnings:
            config.warnings.append(warning)
    return None


def _override(name: str, config: SparkrunConfig) -> bool | None:
    value = config.mapping("features").get(name)
    return value if isinstance(value, bool) else None
