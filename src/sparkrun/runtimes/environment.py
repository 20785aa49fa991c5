"""The environment of an engine, tier by tier: what the runtime says, and what the recipe's own values refer to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparkrun.core.templating import render_env
from sparkrun.core.values import ConfigValue
from sparkrun.runtimes.model_files import CONTAINER_HF_HOME, CONTAINER_HUB
from sparkrun.runtimes.ranks import RankContext

MODEL_CACHE = {"HF_HOME": CONTAINER_HF_HOME, "HF_HUB_CACHE": CONTAINER_HUB}
"""Where the engine finds the mounted models."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""The model is on the host before the engine starts, so it need not ask anybody."""


class RuntimeEnv(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime sets. Everybody's own values beat ``common``, ``solo`` and ``cluster``; nobody's beat ``container``."""

    common: Mapping[str, str] = {}
    solo: Mapping[str, str] = {}
    cluster: Mapping[str, str] = {}
    container: Mapping[str, str] = {}
    """Beside ``MODEL_CACHE``; it holds only in a container."""
    address: tuple[str, ...] = ()
    """Variables that tell a node of several by which address the others reach it."""

    def on(self, rank: RankContext) -> dict[str, str]:
        """The variables of one process, in or out of a container."""
        if rank.solo:
            return {**self.common, **self.solo}
        own = dict.fromkeys(self.address, rank.address) if rank.address else {}
        return {**self.common, **self.cluster, **own}


class TuningMount(msgspec.Struct, frozen=True):
    """Where an engine finds tuning configs in its container, and the variables that tell it."""

    target: str
    env: Mapping[str, str]


class LaunchFields(msgspec.Struct, frozen=True, kw_only=True):
    """What ``{launch.FIELD}`` stands for on one host."""

    cluster_id: str
    rank: RankContext
    model_path: str = ""
    model_revision: str = ""
    runtime_cache_dir: str = ""

    def values(self) -> dict[str, str]:
        """Each field by the name that recipes use."""
        return {
            "model_path": self.model_path,
            "model_revision": self.model_revision,
            "num_nodes": str(self.rank.node_count),
            "node_rank": str(self.rank.rank),
            "node_host": self.rank.host,
            "cluster_id": self.cluster_id,
            "runtime_cache_dir": self.runtime_cache_dir,
        }


def render_recipe_env(env: Mapping[str, str], config: Mapping[str, ConfigValue], launch: LaunchFields) -> dict[str, str]:
    """A recipe's environment on one host, its ``{config.X}`` and ``{launch.F}`` filled in. Raises ``UnknownEnvReference``."""
    fields = launch.values()
    return {name: render_env(value, config, fields) for name, value in env.items()}
