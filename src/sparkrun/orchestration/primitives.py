"""What is put together the same way wherever hosts are reached and containers started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError
from sparkrun.core.paths import expand
from sparkrun.orchestration.ssh_command import MAX_PARALLEL, SshSettings

if TYPE_CHECKING:
    from sparkrun.core.plan import RankPlan
    from sparkrun.orchestration.docker_config import DockerSettings

HOST_HOME = "$HOME"
"""Stands in a path for the home of the host that it is on."""


def build_ssh_kwargs(config: SparkrunConfig, *, user: str | None = None, control_dir: str | None = None) -> SshSettings:
    """The ``ssh`` settings of ``config.yaml``; ``user`` is that of a cluster and wins over theirs. Raises ``ConfigError``."""
    key = config.text("ssh.key")
    return SshSettings(
        user=user or config.text("ssh.user"),
        key=str(expand(key, config.env)) if key else None,
        options=_ssh_options(config),
        max_parallel=max(1, int(config.number("ssh.max_parallel_ssh", MAX_PARALLEL))),
        control_dir=control_dir,
    )


def build_volumes(rank: RankPlan, settings: DockerSettings) -> tuple[str, ...]:
    """Every ``source:target[:options]`` of a rank's container, those of the plan first."""
    planned = (f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in rank.mounts)
    return tuple(in_home(volume) for volume in (*planned, *settings.volumes))


def in_home(path: str) -> str:
    """A path that begins with ``~/``, as a shell of the host reads it within quotes."""
    return f"{HOST_HOME}{path[1:]}" if path.startswith("~/") else path


def merge_env(*tiers: Mapping[str, str]) -> dict[str, str]:
    """One environment from tiers, lowest first (collective, runtime cache, runtime, platform, cluster, recipe, command line, container)."""
    return {name: value for tier in tiers for name, value in tier.items()}


def _ssh_options(config: SparkrunConfig) -> tuple[str, ...]:
    """One text is split as a shell would; the words of a list are taken as they are."""
    said = config.get("ssh.options")
    if not isinstance(said, str):
        return config.texts("ssh.options")
    try:
        return tuple(shlex.split(said))
    except ValueError as error:
        hint = "close the quote, or write a list of words: [-o, Port=2222]"
        raise ConfigError(f"{config.paths.config_file}: ssh.options {said!r}: {str(error).lower()}", hint=hint) from None
