"""What every test stands on: no real home, no real settings, no feature flag from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from sparkrun.core.config import SparkrunConfig
from sparkrun.testing import FakeCluster

settings.register_profile("sparkrun", deadline=None)  # how busy the machine is says nothing about a property
settings.load_profile("sparkrun")

REAL_PROGRAMS = (
    "scripts_host/",
    "cases/test_registries.py",
    "cases/test_no_network.py",
    "core/registry/",
    "core/test_resolve.py",
    "core/test_benchmark_profiles.py",
    "core/test_catalog.py",
    "core/test_mods.py",
    "embedded/test_llama_server.py",
)
"""Tests that run real programs: the unit suite leaves them out, so that it stays a matter of seconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the marker ``tools`` by place."""
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(REAL_PROGRAMS):
            item.add_marker(pytest.mark.tools)


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty home of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("SPARKRUN_FEATURE_", "HF_", "LLAMA_ARG_")) or name in {
            "SPARKRUN_CONFIG_DIR",
            "SPARKRUN_CACHE_DIR",
            "XDG_CACHE_HOME",
            "LLAMA_API_KEY",
        }:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SPARKRUN_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("SPARKRUN_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose home is empty."""
    return {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def config(env: dict[str, str]) -> SparkrunConfig:
    """Settings without a file."""
    return SparkrunConfig.load(env)


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """This machine in memory, with the local executor switched on and a model on it."""
    fake = FakeCluster("localhost", root=tmp_path / "home", env={"SPARKRUN_FEATURE_EXECUTOR_LOCAL": "1"})
    fake["localhost"].models["/models/tiny.gguf"] = "/models/tiny.gguf"
    return fake
