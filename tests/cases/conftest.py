"""Trouble reports as tests: typed as a user types them, without a network, in an empty home."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import conftest as typed
from tests.core.conftest import GitRecorder, Repo, fake_github, forbid_connections


class Said(typed.Said):
    """What a command printed, and its exit code."""

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of a dry run."""
        plan: dict[str, Any] = json.loads(self.out)
        return plan

    def command(self, rank: int = 0) -> str:
        """What a rank would run."""
        text: str = self.plan["ranks"][rank]["command"]
        return text

    def words(self, rank: int = 0) -> list[str]:
        """The same as the shell reads it."""
        return shlex.split(self.command(rank))


@pytest.fixture
def sparkrun(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Type a command line."""
    run = typed.typing(capsys)
    return lambda *words: Said(*run(*words))


@pytest.fixture
def plan(sparkrun: Callable[..., Said], tmp_path: Path) -> Callable[..., Said]:
    """Plan a launch of a recipe's text on host ``h1``, or on those given."""

    def dry_run(text: str, *words: str, hosts: str = "h1") -> Said:
        file = tmp_path / "case.yaml"
        file.write_text(text)
        return sparkrun("run", str(file), "-H", hosts, "--dry-run", "--json", *words)

    return dry_run


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GitRecorder:
    """The git on PATH: it notes what it is asked, and the folder ``github`` is GitHub to it, with what a test puts there."""
    recorder = GitRecorder(tmp_path / "bin")
    for name, value in fake_github(tmp_path / "github").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{recorder.folder}:{os.environ['PATH']}")
    return recorder


@pytest.fixture
def github(git: GitRecorder, tmp_path: Path) -> Callable[[str, dict[str, str]], Repo]:
    """Puts a repository with these files on GitHub."""

    def publish(name: str, files: dict[str, str]) -> Repo:
        made = Repo(tmp_path / "github", name)
        made.commit(dict(files))
        return made

    return publish


@pytest.fixture
def no_shipped_registries() -> None:
    """A user who removed every shipped registry."""
    folder = Path(os.environ["SPARKRUN_CONFIG_DIR"])
    folder.mkdir(parents=True)
    (folder / "registries.yaml").write_text("config_version: 1\nregistries: []\n")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection of this process fails the test."""
    forbid_connections(monkeypatch)
