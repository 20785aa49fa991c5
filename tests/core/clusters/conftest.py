"""A folder for cluster files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.cluster_manager import ClusterManager
from sparkrun.core.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "cache")


@pytest.fixture
def manager(paths: Paths) -> ClusterManager:
    return ClusterManager(paths)
