"""Executors: how a rank becomes something that runs on a host, is seen, read and stopped there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from sparkrun.core.errors import ExecutorUnavailableError
from sparkrun.core.plan import HostAction, RankPlan
from sparkrun.core.plugin import SparkrunPlugin
from sparkrun.core.remote import ScriptCall
from sparkrun.core.values import ConfigValue

EXT_EXECUTOR = "sparkrun.executor"
EVIDENCE_LINES = 200
"""How many of a rank's last lines are asked for; a message shows fewer of them, the file kept of a failure has all."""
DEFAULT_EXECUTOR = "docker"

ExecutorConfig = Mapping[str, ConfigValue]


class JobLabels(msgspec.Struct, frozen=True, kw_only=True):
    """What a running rank says of itself, so that any control machine can tell what it is."""

    cluster_id: str
    intent_id: str
    launch: str
    """A word that only this launch knows: undoing it touches nothing that another launch started."""
    recipe: str
    recipe_ref: str
    runtime: str
    model: str
    served_model_name: str
    rank: int
    role: str
    host: str
    port: int | None = None
    endpoint: str | None = None
    health_path: str | None = None
    image: str | None = None
    tensor_parallel: int = 1
    ranks: int = 1
    """How many there are in all: one that is not seen is missing."""
    hosts: str = ""
    """Where they all are, head first, with commas between, as whoever launched it calls them; without loopback, which means its reader."""
    digest: str = ""
    """What it was made from: the same workload with another digest was changed since."""


class LogView(msgspec.Struct, frozen=True):
    """Which part of a serve log: its last ``lines`` (``None``: all of this launch) without the first ``skip``, and what comes.

    ``since`` is a moment (ISO 8601) or an age such as ``10m``.
    """

    lines: int | None = None
    follow: bool = False
    skip: int = 0
    all_ranks: bool = False
    since: str | None = None
    dated: bool = False
    """Each line begins with its time, where the executor keeps that."""


class Executor(SparkrunPlugin):
    """Pure: builds the scripts, touches nothing. ``plugin_name`` is what a recipe's ``executor:`` says."""

    extension_point = EXT_EXECUTOR
    status_scope: ClassVar[str] = "host"
    """What one look covers: here, everything of this executor on a host."""
    uses_images: ClassVar[bool] = True
    config_keys: ClassVar[frozenset[str]] = frozenset()
    dated_logs: ClassVar[bool] = False
    """Whether each line of a log has its time, so that a part of it can be asked for by that."""
    start_timeout_s: ClassVar[float] = 120
    """What starting a rank may take."""

    def container_name(self, cluster_id: str, role: str) -> str:
        """The name of the one container or process of a role."""
        return f"{cluster_id}_{role}"

    def node_container_name(self, cluster_id: str, rank: int) -> str:
        """The name of one rank of many."""
        return f"{cluster_id}_node_{rank}"

    def run_cmd(self, rank: RankPlan, config: ExecutorConfig, labels: JobLabels | None = None) -> list[str]:
        """The words that run the rank on its host, without labels unless they are given."""
        raise NotImplementedError

    def stop_cmd(self, name: str) -> list[str]:
        """The words that stop a rank on its host."""
        raise NotImplementedError

    def generate_launch_script(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> ScriptCall:
        """The script that starts the rank."""
        raise NotImplementedError

    def start_action(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> HostAction:
        """Starting a rank, and how to take that back."""
        return HostAction(
            rank.host,
            f"start rank {rank.rank} on {rank.host}",
            self.generate_launch_script(rank, labels, config),
            self.stop_call((rank.name,), launch=labels.launch),
            timeout_s=self.start_timeout_s,
        )

    def gate_action(self, rank: RankPlan, labels: JobLabels, config: ExecutorConfig) -> HostAction | None:
        """Letting a rank that waits become its engine; ``None`` where the start already runs the engine."""
        del rank, labels, config
        return None

    def open_call(self, rank: RankPlan, labels: JobLabels) -> ScriptCall | None:
        """The script behind ``gate_action``."""
        del rank, labels
        return None

    def hook_call(self, rank: RankPlan, command: str, env: Mapping[str, str], *, timeout_s: int) -> ScriptCall:
        """Run a command beside the engine, where the engine runs. ``timeout_s`` 0 is no limit."""
        raise NotImplementedError

    def stop_call(self, names: tuple[str, ...], *, launch: str = "") -> ScriptCall:
        """Stop these names on a host and confirm it; with ``launch``, only what that launch started."""
        raise NotImplementedError

    def status_call(self, names: tuple[str, ...] = ()) -> ScriptCall:
        """What runs on a host: these names, or everything."""
        raise NotImplementedError

    def logs_call(self, name: str, view: LogView) -> ScriptCall:
        """The serve log of one name."""
        raise NotImplementedError

    def evidence_call(self, name: str) -> ScriptCall:
        """Why a rank is dead: exit code and last lines."""
        raise NotImplementedError

    def watch_params(self, name: str) -> Mapping[str, str]:
        """What the readiness observer needs to notice that the rank died."""
        raise NotImplementedError

    def check_config(self, config: ExecutorConfig) -> None:
        """Raise ``ConfigError`` for a value that cannot be used."""

    def trial_call(self, start: ScriptCall) -> ScriptCall | None:
        """What tells whether a start would be taken, without starting anything; ``None`` where only a start can tell."""
        del start
        return None

    def unknown_keys(self, config: ExecutorConfig) -> tuple[str, ...]:
        """Keys of ``executor_config`` that this executor does not know."""
        return tuple(key for key in config if key not in self.config_keys)


def assigned(env: Mapping[str, str]) -> tuple[str, ...]:
    """Variables as scripts take them: ``NAME=value``, sorted."""
    return tuple(f"{key}={value}" for key, value in sorted(env.items()))


def upkeep_params(rank: RankPlan) -> dict[str, str]:
    """Parameters of a start script for the caches that the rank uses (``upkeep.sh``)."""
    upkeep = rank.upkeep
    return {
        "HUB": upkeep.hub,
        "MODEL_FOLDER": upkeep.model_folder,
        "RUNTIME_CACHE": upkeep.runtime_cache,
        "RUNTIME_CACHES": upkeep.runtime_caches,
        "PRUNE_MINUTES": str(round(upkeep.max_age_days * 24 * 60)),
        "DROP_CACHES": upkeep.drop_caches,
    }


class ExecutorLayers(msgspec.Struct, frozen=True):
    """Who may name an executor, strongest first."""

    cli: str | None = None
    recipe: str | None = None
    cluster: str | None = None
    runtime: str | None = None
    config: str | None = None

    def chosen(self) -> tuple[str, str]:
        """The name in force and the layer that gave it."""
        for layer in ("cli", "recipe", "cluster", "runtime", "config"):
            if name := getattr(self, layer):
                return name, layer
        return DEFAULT_EXECUTOR, "default"


def resolve_executor(layers: ExecutorLayers, find: Callable[[str], Executor]) -> Executor:
    """The executor in force. ``find`` raises ``ExecutorUnavailableError``; no other executor is ever taken in its place."""
    name, layer = layers.chosen()
    try:
        return find(name)
    except ExecutorUnavailableError as error:
        said = {"cli": "--executor", "recipe": "the recipe", "cluster": "the cluster", "runtime": "the runtime", "config": "config.yaml"}
        origin = f" (named by {said[layer]})" if layer in said else ""
        raise ExecutorUnavailableError(f"{error.message}{origin}", hint=error.hint) from error


def resolve_executor_config(*tiers: ExecutorConfig) -> dict[str, ConfigValue]:
    """One configuration from several, strongest first: CLI, recipe, cluster, runtime, config.yaml, built-in."""
    merged: dict[str, ConfigValue] = {}
    for tier in reversed(tiers):
        merged.update(tier)
    return merged
