"""``sparkrun setup prune-runtime-cache``, and the age that a launch is planned with."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from sparkrun import api
from sparkrun.cli.runtime_cache import prune_runtime_cache
from sparkrun.cli.setup import setup
from sparkrun.core.errors import UsageError
from sparkrun.core.plan import Upkeep
from sparkrun.testing import FakeCluster
from tests.cli.conftest import State


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    fake = FakeCluster("a", "b", root=tmp_path / "home")
    fake["a"].kernels = {"vllm/old-1": 40, "vllm/new-1": 3}
    return fake


def say(fake: FakeCluster, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = prune_runtime_cache.main(args=[*words, "-H", "a,b"], prog_name="x", standalone_mode=False, obj=State(fake))
    return code, capsys.readouterr().out


def configure(fake: FakeCluster, text: str) -> None:
    path = fake.sctx.config.paths.config_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def upkeep(fake: FakeCluster, recipe_text: str = "") -> Upkeep:
    recipe = fake.root / "r.yaml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(f"model: org/m:Q4\nruntime: vllm\ncontainer: e/v:1\n{recipe_text}")
    plan = api.plan(api.RunOptions(recipe=str(recipe), hosts=api.HostOptions(("localhost",))), sctx=fake.sctx)
    return plan.ranks[0].upkeep


def test_what_is_old_goes_only_when_told_to(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = say(two, capsys)

    assert code == 0
    assert said.splitlines()[0] == "a: /home/spark/.cache/sparkrun/runtime-cache"
    assert [line.split()[0] for line in said.splitlines() if line.endswith("planned")] == ["vllm/old-1"]
    assert said.endswith("\nWould free 1 MB. Nothing was removed; --apply does it.\n")
    assert len(two["a"].kernels) == 2

    report = json.loads(say(two, capsys, "--apply", "--json")[1])
    assert (report["schema"], report["frees_bytes"]) == ("sparkrun.runtime-cache/1", 1_024_000)
    assert list(two["a"].kernels) == ["vllm/new-1"]


def test_the_age_comes_from_the_option_else_from_the_settings(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    configure(two, "runtime_cache: {prune: {max_age_days: 2}}\n")

    assert say(two, capsys)[1].count("planned") == 2
    assert say(two, capsys, "--older-than", "10")[1].count("planned") == 1


@pytest.mark.parametrize("age", ["0", "nan", "inf"])
def test_an_age_of_zero_is_refused(two: FakeCluster, capsys: pytest.CaptureFixture[str], age: str) -> None:
    with pytest.raises(UsageError, match=f"nothing is pruned after {age} days"):
        say(two, capsys, "--older-than", age)


def test_a_silent_host_is_told(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    two["b"].reachable = False

    code, said = say(two, capsys)

    assert code == 1
    assert "Unknown: b (" in said


def test_the_command_is_there_and_not_in_the_help() -> None:
    context = click.Context(setup)
    shown = click.HelpFormatter()
    setup.format_commands(context, shown)

    assert setup.get_command(context, "prune-runtime-cache") is prune_runtime_cache
    assert "prune-runtime-cache" not in shown.getvalue()


def test_a_launch_notes_model_and_kernels_and_prunes_after_30_days(cluster: FakeCluster) -> None:
    planned = upkeep(cluster)

    assert planned.model_folder == "models--org--m"
    assert planned.runtime_cache.startswith("/home/spark/.cache/sparkrun/runtime-cache/vllm/org__m_Q4-")
    assert (planned.runtime_caches, planned.max_age_days) == ("/home/spark/.cache/sparkrun/runtime-cache", 30)


@pytest.mark.parametrize(
    ("settings", "recipe", "days"),
    [
        ("runtime_cache: {prune: {max_age_days: 7}}", "", 7),
        ("runtime_cache: {prune: {max_age_days: 0}}", "", 0),
        ("runtime_cache: {prune: {enabled: false}}", "", 0),
        ("runtime_cache: {prune: {max_age_days: 7}}", "runtime_cache: {prune: {max_age_days: 3}}", 3),
        ("runtime_cache: false", "", 0),
    ],
)
def test_the_age_of_a_launch_is_the_recipes_else_that_of_the_settings(
    cluster: FakeCluster, settings: str, recipe: str, days: float
) -> None:
    configure(cluster, settings)

    assert upkeep(cluster, recipe).max_age_days == days


def test_settings_of_the_wrong_kind_are_told(cluster: FakeCluster) -> None:
    configure(cluster, "runtime_cache: 30")

    assert upkeep(cluster).max_age_days == 30
