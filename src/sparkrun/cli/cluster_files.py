"""The cluster files of a command, read without starting anything else of sparkrun."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click

from sparkrun.core.cluster_manager import ClusterManager
from sparkrun.core.config import SparkrunConfig


class ClusterFiles:
    """Settings and saved clusters of this user."""

    def __init__(self) -> None:
        self.config = SparkrunConfig.load(os.environ)
        self.manager = ClusterManager(self.config.paths)

    def say_warnings(self, more: Iterable[str] = ()) -> None:
        """Everything odd that was met, each once, on stderr."""
        for warning in dict.fromkeys([*self.config.warnings, *self.manager.warnings, *more]):
            click.echo(f"warning: {warning}", err=True)
