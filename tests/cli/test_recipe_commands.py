from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from sparkrun.cli.recipe_names import ClusterName, RecipeName, WorkloadName
from sparkrun.cli.root import root
from tests.cli.conftest import Said

Cli = Callable[..., Said]

GOOD = "recipe_version: '2'\nmodel: org/good\nruntime: vllm\ncontainer: e/v:1\ndefaults: {port: 8000, tensor_parallel: 2}\n"


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def registry(tmp_path: Path, cli: Cli) -> str:
    """A registry 'mine' of a local repository with one good recipe and three broken files; the shipped ones are gone."""
    folder = tmp_path / "repo"
    (folder / "recipes").mkdir(parents=True)
    (folder / ".sparkrun").mkdir()
    (folder / ".sparkrun/registry.yaml").write_text("registries:\n- {name: mine, description: Mine, recipes: recipes}\n")
    (folder / "recipes/good.yaml").write_text(GOOD)
    (folder / "recipes/dict.yaml").write_text("model: {id: org/x}\nruntime: vllm\ncontainer: a/b:1\n")
    (folder / "recipes/str.yaml").write_text("just text\n")
    (folder / "recipes/bad.yaml").write_text("model: [\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    config = Path(os.environ["SPARKRUN_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "registries.yaml").write_text("config_version: 1\nregistries: []\n")
    assert cli("registry", "add", f"file://{folder}").code == 0
    return f"file://{folder}"


def test_a_broken_recipe_is_named_and_hides_no_other(cli: Cli, registry: str) -> None:
    said = cli("list")
    assert said.code == 0
    assert "@mine/good" in said.out
    for name in ("dict", "str", "bad"):
        assert f"warning: mine: recipes/{name}.yaml: " in said.err
    assert "mine: recipes/dict.yaml: model must be text" in said.err


def test_a_list_as_json_has_the_documented_keys(cli: Cli, registry: str) -> None:
    items = {item["name"]: item for item in json.loads(cli("list", "--json").out)}
    assert {name for name, item in items.items() if "error" not in item} == {"@builtin/smollm2-135m", "@mine/good"}
    good = items["@mine/good"]
    assert list(good) == ["name", "file", "path", "model", "description", "runtime", "min_nodes", "tp", "gpu_mem", "builder", "registry"]
    assert (good["file"], good["runtime"], good["tp"], good["gpu_mem"], good["registry"]) == ("good", "vllm-distributed", 2, None, "mine")


@pytest.mark.parametrize(
    "words", [("--runtime", "vllm"), ("--runtime", "vllm-distributed"), ("org/GOOD",), ("@mine",), ("@mine/go",), ("--registry", "mine")]
)
def test_recipes_are_found_by_runtime_family_text_and_registry(cli: Cli, registry: str, words: tuple[str, ...]) -> None:
    assert [item["file"] for item in json.loads(cli("list", "--json", *words).out) if "error" not in item] == ["good"]


def test_an_unknown_registry_is_wrong_usage(cli: Cli, registry: str) -> None:
    said = cli("list", "--registry", "min")
    assert said.code == 2
    assert "did you mean 'mine'?" in said.err


def test_nothing_found_is_no_error(cli: Cli, registry: str) -> None:
    assert cli("search", "nowhere").out == "No recipes found matching 'nowhere'.\n"
    assert json.loads(cli("search", "nowhere", "--json").out) == []


def test_a_recipe_of_a_registry_is_shown_by_either_name(cli: Cli, registry: str) -> None:
    for name in ("good", "@mine/good"):
        assert "Model:       org/good\n" in cli("show", name).out


def test_an_unknown_recipe_gets_the_nearest(cli: Cli, registry: str) -> None:
    said = cli("show", "goood")
    assert said.code == 1
    assert "recipe 'goood' not found" in said.err
    assert "good" in said.err.split("hint:")[1]


def test_a_good_recipe_validates(cli: Cli, registry: str) -> None:
    said = cli("recipe", "validate", "@mine/good", "--json")
    assert said.code == 0
    report = json.loads(said.out)
    assert (report["valid"], report["errors"]) == (True, 0)


def test_a_duplicate_key_fails_validation_with_both_lines(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("model: org/x\ncontainer: a/b:1\ndefaults:\n  port: 8000\n  tensor_parallel: 1\n  port: 9000\n")
    said = cli("recipe", "validate", str(file))
    assert said.code == 1
    assert f"{file}:6:3" in said.out
    assert "line 4" in said.out or ":4:3" in said.out


def test_warnings_fail_when_that_is_wanted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("model: org/x\nruntime: vllm\ncontainer: a/b:1\nmax_model_len: 4\n")
    assert cli("recipe", "validate", str(file)).code == 0
    assert cli("recipe", "validate", str(file), "--strict").code == 1
    assert cli("recipe", "validate", str(file), "--fail-on", "none").code == 0


def test_an_export_renders_as_the_public_runtime_and_keeps_benchmark(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("model: org/x\ncontainer: a/b:1\ncommand: vllm serve {model} --port 8000\nbenchmark: {args: {pp: [2048]}}\n")
    saved = tmp_path / "out.yaml"
    assert cli("export", "recipe", str(file), "--save", str(saved)).code == 0
    assert "runtime: vllm\n" in saved.read_text()
    assert "benchmark:" in saved.read_text()
    assert cli("export", "recipe", str(saved)).out == saved.read_text()


def test_the_schema_is_json(cli: Cli) -> None:
    assert json.loads(cli("recipe", "schema").out)["$schema"].startswith("https://json-schema.org/")


def test_a_registry_is_listed_trusted_and_forgotten(cli: Cli, registry: str) -> None:
    entries = {entry["name"]: entry for entry in json.loads(cli("registry", "list", "--json").out)}
    assert entries["mine"]["trusted"] is False
    assert cli("registry", "trust", "mine").out == "mine is trusted\n"
    assert cli("registry", "trust", "mine").out == "mine is trusted already\n"
    assert "Trusted:     yes\n" in cli("registry", "show", "mine").out
    assert cli("registry", "remove", "mine").code == 2
    assert cli("registry", "remove", "mine", "--yes").out == "removed mine\n"
    assert cli("registry", "show", "mine").code == 1


def test_an_update_that_fails_keeps_the_recipes_and_says_why(cli: Cli, registry: str, tmp_path: Path) -> None:
    assert cli("registry", "update", "mine").code == 0
    (tmp_path / "repo").rename(tmp_path / "gone")
    said = cli("registry", "update", "mine")
    assert said.code == 1
    assert "mine: FAILED: " in said.out
    assert "@mine/good" in cli("list").out


def test_the_builtin_registry_cannot_be_forgotten(cli: Cli) -> None:
    said = cli("registry", "remove", "builtin", "--yes")
    assert said.code != 0
    assert said.err.startswith("error: ")


def completions(kind: RecipeName | WorkloadName | ClusterName, incomplete: str) -> list[str]:
    return [item.value for item in kind.shell_complete(None, None, incomplete)]  # type: ignore[arg-type]


def test_recipes_complete_from_the_index_without_git(cli: Cli, registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("list")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert completions(RecipeName(), "go") == ["good"]
    assert completions(RecipeName(), "@mi") == ["@mine/good"]
    assert completions(RecipeName(), "smol") == ["smollm2-135m"]
    assert completions(WorkloadName(), "") == []


def test_clusters_complete_from_their_files() -> None:
    folder = Path(os.environ["SPARKRUN_CONFIG_DIR"]) / "clusters"
    folder.mkdir(parents=True)
    (folder / "lab.yaml").write_text("hosts: [a]\n")
    (folder / "lab.manifest.yaml").write_text("{}\n")
    assert completions(ClusterName(), "l") == ["lab"]


@pytest.mark.parametrize(
    "words", ["cluster show", "cluster inspect", "cluster update", "cluster delete", "cluster set-default", "status --cluster"]
)
def test_every_command_that_takes_a_saved_cluster_completes_it(cli: Cli, words: str) -> None:
    assert cli("cluster", "create", "lab", "-H", "a").code == 0
    found = ShellComplete(root, {}, "sparkrun", "_SPARKRUN_COMPLETE").get_completions(words.split(), "l")
    assert [item.value for item in found] == ["lab"]
