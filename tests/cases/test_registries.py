"""G: registries that are broken, gone or out of reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.core.registry import BOOTSTRAP_REGISTRY_URLS, FALLBACK_DEFAULT_REGISTRIES
from tests.cases.conftest import Said
from tests.core.conftest import RECIPE, GitRecorder, Repo, manifest

Cli = Callable[..., Said]
Publish = Callable[[str, dict[str, str]], Repo]

VISIBLE = [entry for entry in FALLBACK_DEFAULT_REGISTRIES if entry.visible]
FIRST_URLS = {*BOOTSTRAP_REGISTRY_URLS, *(entry.url for entry in VISIBLE)}
"""What a first list looks at."""

BROKEN = {
    "dict": "model: {id: org/x}\nruntime: vllm\n",
    "str": "just text\n",
    "bad": "model: [\n",
}


@pytest.fixture
def myreg(sparkrun: Cli, github: Publish, no_shipped_registries: None) -> Repo:
    """A registry ``myreg`` with one good recipe and three broken ones."""
    files = {f"recipes/{name}.yaml": text for name, text in BROKEN.items()}
    repo = github("me/recipes", {".sparkrun/registry.yaml": manifest("myreg"), "recipes/good.yaml": RECIPE, **files})
    assert sparkrun("registry", "add", repo.url).code == 0
    return repo


class TestG1OneBadRecipe:
    @pytest.mark.parametrize("words", [("list",), ("search", "good"), ("list", "@myreg"), ("recipe", "list")])
    def test_g1_the_good_one_is_shown_and_each_bad_file_has_one_line(self, sparkrun: Cli, myreg: Repo, words: tuple[str, ...]) -> None:
        said = sparkrun(*words)
        assert said.code == 0
        assert "@myreg/good" in said.out
        assert "myreg: recipes/dict.yaml: model must be text" in said.err
        assert [sum(f"recipes/{name}.yaml" in line for line in said.err.splitlines()) for name in BROKEN] == [1, 1, 1]

    def test_g1_json_has_both(self, sparkrun: Cli, myreg: Repo) -> None:
        said = sparkrun("list", "--json")
        assert said.code == 0
        items = {item["name"]: item for item in json.loads(said.out)}
        assert "error" not in items["@myreg/good"]
        assert items["@myreg/dict"]["error"].startswith("model must be text")
        assert all(items[f"@myreg/{name}"]["path"].endswith(f"/recipes/{name}.yaml") for name in BROKEN)
        assert [key for key in items["@myreg/bad"] if key != "error"] == list(items["@myreg/good"])

    def test_g1_json_of_a_query_has_the_broken_ones_it_asks_for(self, sparkrun: Cli, myreg: Repo) -> None:
        def names(*words: str) -> list[str]:
            return [item["name"] for item in json.loads(sparkrun("list", "--json", *words).out)]

        assert names("good") == ["@myreg/good"]
        assert names("@myreg/dic") == ["@myreg/dict"]
        assert names("--runtime", "sglang") == []

    @pytest.mark.parametrize("name", BROKEN)
    def test_g1_a_bad_one_that_is_named_says_why(self, sparkrun: Cli, myreg: Repo, name: str) -> None:
        for words in (("show",), ("run", "-H", "h1", "--dry-run"), ("export", "recipe")):
            said = sparkrun(*words, f"@myreg/{name}")
            assert said.code == 2
            assert f"recipes/{name}.yaml:" in said.err
            assert "Traceback" not in said.err

    def test_g1_a_bad_local_recipe_hides_no_other(
        self, sparkrun: Cli, myreg: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "cwd").mkdir()
        monkeypatch.chdir(tmp_path / "cwd")
        Path("mine.yaml").write_text(RECIPE)
        Path("broken.yaml").write_text("model: org/m\nruntime: vllm\ncontainer: [\n")
        said = sparkrun("list")
        assert said.code == 0
        assert "mine" in said.out
        assert "@myreg/good" in said.out
        assert "broken.yaml: " in said.err


class TestG2BrokenManifest:
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("registries: [\n", " line 2: "),
            ("just text\n", ""),
            ("registries: []\n", ""),
            ("registries: {name: x}\n", ""),
            ("registries: [text]\n", ""),
        ],
    )
    def test_g2_the_address_and_the_place_are_told(
        self, sparkrun: Cli, github: Publish, no_shipped_registries: None, text: str, why: str
    ) -> None:
        repo = github("me/broken", {".sparkrun/registry.yaml": text, "recipes/good.yaml": RECIPE})
        said = sparkrun("registry", "add", repo.url)
        assert said.code == 1
        assert f"error: {repo.url}: .sparkrun/registry.yaml{why}" in said.err
        assert "Traceback" not in said.err
        assert [entry["name"] for entry in json.loads(sparkrun("registry", "list", "--json").out)] == ["builtin"]

    def test_g2_a_shipped_repository_with_a_broken_manifest_is_told_and_the_rest_goes_on(
        self, sparkrun: Cli, github: Publish, git: GitRecorder
    ) -> None:
        github("spark-arena/recipe-registry.git", {".sparkrun/registry.yaml": "registries: [\n", "official-recipes/one.yaml": RECIPE})
        said = sparkrun("list")
        assert said.code == 0
        assert "https://github.com/spark-arena/recipe-registry.git: .sparkrun/registry.yaml line 2: " in said.err
        assert "@official/one" in said.out


class TestG5PartialUpdate:
    @pytest.fixture
    def two(self, sparkrun: Cli, github: Publish, no_shipped_registries: None) -> dict[str, Repo]:
        repos = {}
        for name in ("stays", "goes"):
            repos[name] = github(f"me/{name}", {".sparkrun/registry.yaml": manifest(name), f"recipes/of-{name}.yaml": RECIPE})
            assert sparkrun("registry", "add", repos[name].url).code == 0
        repos["stays"].commit({"recipes/fresh.yaml": RECIPE})
        repos["goes"].path.rename(repos["goes"].path.with_name("gone"))
        return repos

    def test_g5_one_is_updated_and_one_failed_with_gits_reason(self, sparkrun: Cli, two: dict[str, Repo]) -> None:
        said = sparkrun("registry", "update")
        assert said.code == 1
        lines = {line.partition(": ")[0]: line for line in said.out.splitlines()}
        assert lines["stays"].startswith("stays: updated (")
        assert lines["goes"].startswith("goes: FAILED: ")
        assert "does not appear to be a git repository" in lines["goes"]

    def test_g5_the_cached_recipes_of_the_failed_one_stay(self, sparkrun: Cli, two: dict[str, Repo]) -> None:
        sparkrun("registry", "update")
        listed = sparkrun("list")
        assert listed.code == 0
        assert all(f"@{name}" in listed.out for name in ("goes/of-goes", "stays/of-stays", "stays/fresh"))
        assert sparkrun("run", "@goes/of-goes", "-H", "a,b", "--dry-run", "--json").code == 0

    def test_g5_json_says_the_same(self, sparkrun: Cli, two: dict[str, Repo]) -> None:
        said = sparkrun("registry", "update", "--json")
        assert said.code == 1
        results = {result["registry"]: result for result in json.loads(said.out)["results"]}
        assert (results["stays"]["status"], results["goes"]["status"]) == ("updated", "failed")
        assert "does not appear to be a git repository" in results["goes"]["reason"]

    @pytest.mark.parametrize(("name", "code"), [("stays", 0), ("goes", 1)])
    def test_g5_one_alone_answers_for_itself(self, sparkrun: Cli, two: dict[str, Repo], name: str, code: int) -> None:
        assert sparkrun("registry", "update", name).code == code


class TestG6OfflineFirstUse:
    """No ``registries.yaml``, an empty cache, and a GitHub on which nothing is."""

    @pytest.mark.parametrize("words", [(), ("--offline",)])
    def test_g6_a_recipe_file_asks_nobody(
        self, sparkrun: Cli, git: GitRecorder, no_network: None, tmp_path: Path, words: tuple[str, ...]
    ) -> None:
        (tmp_path / "local.yaml").write_text(RECIPE)
        said = sparkrun("run", str(tmp_path / "local.yaml"), "-H", "a,b", "--dry-run", "--json", *words)
        assert said.code == 0, said.err
        assert git.lines == []
        assert "git" not in said.err
        assert "registr" not in said.err

    @pytest.mark.parametrize("typed", ["", "sm", "@", "@official/", "@nowhere/x"])
    def test_g6_completion_asks_nobody(self, git: GitRecorder, typed: str) -> None:
        said = complete("show", typed)
        assert (said.returncode, said.stderr) == (0, "")
        assert git.lines == []

    def test_g6_a_list_asks_each_repository_once_and_names_each_registry_that_failed(self, sparkrun: Cli, git: GitRecorder) -> None:
        said = sparkrun("list")
        assert said.code == 0
        assert "@builtin/smollm2-135m" in said.out
        assert git.verbs == ["clone"] * len(FIRST_URLS)
        assert all(sum(url in line for line in git.lines) == 1 for url in FIRST_URLS)
        failures = [line for line in said.err.splitlines() if line.startswith("warning: ")]
        assert sorted(line.split(": ")[1] for line in failures) == sorted(entry.name for entry in VISIBLE)
        assert all("does not appear to be a git repository" in line for line in failures)
        assert "fatal:" not in said.err

    def test_g6_a_list_asks_all_repositories_at_once(self, git: GitRecorder) -> None:
        git.hang("clone")
        listing = subprocess.Popen([sys.executable, "-m", "sparkrun", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for process in git.wait_until_all_hang(len(FIRST_URLS)):
            os.kill(process, signal.SIGKILL)
        out, err = listing.communicate(timeout=30)
        assert listing.returncode == 0, err
        assert "@builtin/smollm2-135m" in out

    def test_g6_an_offline_list_names_what_was_never_fetched(self, sparkrun: Cli, git: GitRecorder, no_network: None) -> None:
        said = sparkrun("list", "--offline")
        assert said.code == 0
        assert "@builtin/smollm2-135m" in said.out
        assert git.lines == []
        assert said.err.splitlines() == [f"warning: {entry.name}: not fetched yet (offline)" for entry in VISIBLE]

    def test_g6_nothing_is_saved_so_that_the_next_list_tries_again(self, sparkrun: Cli, git: GitRecorder, github: Publish) -> None:
        sparkrun("list")
        assert not Path(os.environ["SPARKRUN_CONFIG_DIR"], "registries.yaml").exists()
        github("spark-arena/recipe-registry.git", {".sparkrun/registry.yaml": manifest("official"), "recipes/one.yaml": RECIPE})
        assert "@official/one" in sparkrun("list").out


def complete(*words: str) -> subprocess.CompletedProcess[str]:
    """What a shell gets when the user presses Tab after ``words``."""
    line = " ".join(("sparkrun", *words))
    env = {**os.environ, "_SPARKRUN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return subprocess.run([sys.executable, "-m", "sparkrun"], env=env, capture_output=True, text=True, check=False)
