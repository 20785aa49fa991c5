"""After the first fetch nothing that looks at recipes asks anybody: every connection is refused, and git notes that it was started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Said
from tests.cases.test_registries import Publish, complete
from tests.core.conftest import RECIPE, GitRecorder, manifest

Cli = Callable[..., Said]

OFFICIAL = {
    ".sparkrun/registry.yaml": "registries:\n- {name: official, recipes: official-recipes, benchmarks: benchmarking}\n"
    "- {name: experimental, recipes: exp, visible: false}\n",
    "official-recipes/one.yaml": RECIPE,
    "official-recipes/modded.yaml": RECIPE + "mods: [quiet]\n",
    "exp/two.yaml": RECIPE,
    "mods/quiet/run.sh": "true\n",
    "benchmarking/quick.yaml": "framework: llama-benchy\nargs: {pp: [2048]}\n",
}
LOOKS = [
    ("list",),
    ("list", "--json"),
    ("list", "-a"),
    ("list", "@official"),
    ("list", "--runtime", "vllm"),
    ("search", "one"),
    ("show", "one"),
    ("show", "@official/one", "--json"),
    ("show", "@experimental/two"),
    ("recipe", "validate", "@official/one"),
    ("export", "recipe", "one"),
    ("run", "one", "-H", "a,b", "--dry-run"),
    ("run", "@official/modded", "-H", "a,b", "--dry-run", "--json"),
    ("registry", "list"),
    ("registry", "show", "official"),
    ("registry", "list-benchmark-profiles"),
    ("registry", "show-benchmark-profile", "@official/quick"),
]


@pytest.fixture
def fetched(sparkrun: Cli, github: Publish, git: GitRecorder) -> GitRecorder:
    """The shipped registries of a user who has listed everything once."""
    github("spark-arena/recipe-registry.git", OFFICIAL)
    github(
        "dbotwinick/sparkrun-recipe-registry.git",
        {".sparkrun/registry.yaml": manifest("sparkrun-transitional"), "recipes/old.yaml": RECIPE},
    )
    github("spark-arena/community-recipe-registry.git", {".sparkrun/registry.yaml": manifest("community"), "recipes/c.yaml": RECIPE})
    github("spark-arena/eugr-recipes", {"recipes/e.yaml": RECIPE})
    github("Atlas-Inf/sparkrun-recipes.git", {"recipes/a.yaml": RECIPE})
    said = sparkrun("list", "-a")
    assert "@atlas/a" in said.out
    assert "warning" not in said.err
    assert git.verbs.count("clone") == 5
    git.forget()
    return git


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_after_the_first_fetch_nobody_is_asked(sparkrun: Cli, fetched: GitRecorder, no_network: None, words: tuple[str, ...]) -> None:
    said = sparkrun(*words)
    assert said.code == 0, said.err
    assert said.out
    assert fetched.lines == []


@pytest.mark.parametrize(
    ("typed", "wanted"), [("on", "one"), ("@off", "@official/one"), ("@experimental/", "@experimental/two"), ("sm", "smollm2-135m")]
)
def test_after_the_first_fetch_completion_asks_nobody(fetched: GitRecorder, typed: str, wanted: str) -> None:
    for words in (("show", typed), ("run", typed), ("recipe", "validate", typed)):
        said = complete(*words)
        assert (said.returncode, said.stderr) == (0, "")
        assert f"plain,{wanted}" in said.stdout.splitlines()
    assert fetched.lines == []


def test_a_process_of_its_own_asks_nobody_either(fetched: GitRecorder) -> None:
    """With every connection of the process refused from its first line on, completion among them."""
    script = (
        "import socket, sys\n"
        "def refuse(*_): raise SystemExit('a network connection was made')\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
        "from sparkrun.cli.__main__ import main\n"
        "raise SystemExit(main(sys.argv[1:]))"
    )
    for words in (("list",), ("show", "one"), ("run", "one", "-H", "a,b", "--dry-run")):
        said = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
    assert fetched.lines == []


def test_what_is_new_is_fetched_only_when_asked_for(sparkrun: Cli, fetched: GitRecorder, github: Publish, tmp_path: Path) -> None:
    github("spark-arena/eugr-recipes", {"recipes/new.yaml": RECIPE})
    assert "@eugr/new" not in sparkrun("list").out
    assert sparkrun("registry", "update", "eugr").code == 0
    assert fetched.lines
    assert "@eugr/new" in sparkrun("list").out
