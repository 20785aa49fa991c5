from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Said

Cli = Callable[..., Said]
QUICK = "framework: llama-benchy\nmetadata: {description: A quick look}\ntimeout: 600\nargs: {pp: [2048]}\n"


@pytest.fixture
def folder() -> Path:
    """The folder of the user's own profiles, who has no registries."""
    config = Path(os.environ["SPARKRUN_CONFIG_DIR"])
    (config / "benchmarking").mkdir(parents=True)
    (config / "registries.yaml").write_text("config_version: 1\nregistries: []\n")
    return config / "benchmarking"


def test_without_profiles_a_list_says_so(cli: Cli, folder: Path) -> None:
    assert cli("registry", "list-benchmark-profiles") == Said(0, "No benchmark profiles found.\n", "")
    assert cli("registry", "list-benchmark-profiles", "--json") == Said(0, "[]\n", "")


def test_a_list_shows_framework_and_description_and_names_what_is_broken(cli: Cli, folder: Path) -> None:
    (folder / "quick.yaml").write_text(QUICK)
    (folder / "bad.yaml").write_text("args: {}\n")
    said = cli("registry", "list-benchmark-profiles")
    assert said.code == 0
    assert [line.split() for line in said.out.splitlines()] == [
        ["Profile", "Registry", "Framework", "Description"],
        ["quick", "llama-benchy", "A", "quick", "look"],
    ]
    assert said.err == f"warning: {folder / 'bad.yaml'}: a benchmark profile names its framework\n"


def test_a_profile_is_shown_with_its_file(cli: Cli, folder: Path) -> None:
    (folder / "quick.yaml").write_text(QUICK)
    said = cli("registry", "show-benchmark-profile", "quick")
    assert said.code == 0
    assert said.out.startswith("Name:        quick\n")
    assert "Framework:   llama-benchy\n" in said.out
    assert "Description: A quick look\n" in said.out
    assert said.out.endswith(QUICK)


def test_a_profile_as_json(cli: Cli, folder: Path) -> None:
    (folder / "quick.yaml").write_text(QUICK)
    shown = json.loads(cli("registry", "show-benchmark-profile", "quick", "--json").out)
    assert shown == {
        "name": "quick",
        "registry": None,
        "path": str(folder / "quick.yaml"),
        "framework": "llama-benchy",
        "description": "A quick look",
        "category": None,
        "timeout_s": 600,
        "args": {"pp": [2048]},
        "schedule": [],
    }
    assert json.loads(cli("registry", "list-benchmark-profiles", "--json").out) == [shown]


def test_an_unknown_registry_is_wrong_usage(cli: Cli, folder: Path) -> None:
    said = cli("registry", "list-benchmark-profiles", "--registry", "nope")
    assert said.code == 2
    assert "no registry 'nope'" in said.err


def test_an_unknown_profile_is_an_error(cli: Cli, folder: Path) -> None:
    said = cli("registry", "show-benchmark-profile", "nope")
    assert said.code == 1
    assert "benchmark profile 'nope' not found" in said.err
