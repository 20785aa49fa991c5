"""The options of ``run``: which exclude each other, what they do to the plan, and what of them the help shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkrun.api import RunResult
from sparkrun.cli.plan_text import result_text
from sparkrun.core.timings import Timing
from tests.cli.conftest import Said

Cli = Callable[..., Said]


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {port: 8123}\n")
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--follow", "--no-follow"), "--follow and --no-follow exclude each other"),
        (("--follow", "--no-ready-wait"), "--follow and --no-ready-wait exclude each other"),
        (("--foreground", "--no-ready-wait"), "--foreground and --no-ready-wait exclude each other"),
        (("--foreground", "--follow"), "--foreground and --follow exclude each other"),
        (("--probe",), "--probe goes with --dry-run"),
        (("--dry-run", "--collect-diagnostics", "x"), "--collect-diagnostics goes with a real run"),
        (("--restart", "sometimes", "--dry-run"), "no, always, unless-stopped or on-failure[:N]"),
        (("-e", "nonsense"), "NAME=VALUE is wanted"),
        (("--executor-args", "--label 'open"), "no closing quotation"),
        (("--label", "nonsense"), "KEY=VALUE is wanted"),
        (("--executor-args", 'a "b'), "no closing quotation"),
        (("--executor-args", "image"), "'image' is no option of docker run"),
        (("--container-name", "a b"), "'a b' is not a container name"),
        (("--image", "Bad Image"), "'Bad Image' is not an image"),
        (("--memory-limit", "lots"), "must be a size such as 32gb"),
        (("-o", "port=abc"), "port must be a whole number from 1 to 65535"),
    ],
)
def test_options_that_contradict_each_other_are_refused(cli: Cli, recipe: str, words: tuple[str, ...], said: str) -> None:
    ended = cli("run", recipe, "-H", "spark-1", *words)
    assert said in ended.err
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.parametrize("words", [("run", "{}", "--dry-run"), ("build", "{}", "--dry-run"), ("recipe", "vram", "{}")])
def test_a_setting_without_its_value_is_a_failure(cli: Cli, recipe: str, words: tuple[str, ...]) -> None:
    ended = cli(*(word.format(recipe) for word in words), "-H", "spark-1", "-o", "port")
    assert "-o port: no '=' in it" in ended.err
    assert (ended.code, ended.out) == (1, "")


def test_post_hooks_need_the_wait(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "hooks.yaml"
    path.write_text("model: org/m\nruntime: vllm\ncontainer: e/v:1\npost_commands: ['true']\n")
    ended = cli("run", str(path), "-H", "spark-1", "--no-ready-wait", "--dry-run")
    assert (ended.code, "post_commands exclude each other" in ended.err) == (2, True)


def plan(cli: Cli, *words: str) -> Any:
    ended = cli("run", "-H", "spark-1", "--dry-run", "--json", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_words_after_two_dashes_are_added_to_the_engine_s_command(cli: Cli, recipe: str) -> None:
    assert plan(cli, recipe, "--no-follow", "--", "--seed", "7")["ranks"][0]["command"].endswith("--seed 7")


def test_a_container_has_the_name_and_the_restart_policy_it_is_given(cli: Cli, recipe: str) -> None:
    run = plan(cli, recipe, "--container-name", "mine", "--restart", "unless-stopped", "-e", "A=b c")["ranks"][0]["run"]
    assert run[run.index("--name") + 1] == "mine"
    assert run[run.index("--restart") + 1] == "unless-stopped"
    assert "A=b c" in run


def test_diagnostics_are_not_written_over_a_file_that_is_there(cli: Cli, recipe: str, tmp_path: Path) -> None:
    (tmp_path / "d.ndjson").write_text("mine")
    ended = cli("run", recipe, "-H", "spark-1", "--collect-diagnostics", str(tmp_path / "d.ndjson"))
    assert (ended.code, "is there already" in ended.err) == (2, True)


def test_solo_is_deprecated_and_works(cli: Cli, recipe: str) -> None:
    ended = cli("run", recipe, "-H", "spark-1,spark-2", "--solo", "--dry-run", "--json")
    assert (ended.code, "--solo is deprecated" in ended.err) == (0, True)
    assert len(json.loads(ended.out)["ranks"]) == 1


def test_expert_options_stand_in_the_help_only_for_those_who_want_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--collect-diagnostics" not in cli("run", "--help").out
    monkeypatch.setenv("SPARKRUN_ADVANCED", "1")
    shown = cli("run", "--help").out
    assert "--collect-diagnostics" in shown
    assert "--ray-port" in shown


RESULT = RunResult(
    cluster_id="sparkrun_a_b", recipe="r", runtime="vllm", model="m", served_model_name="m", endpoint="http://h:1/v1", port=1, hosts=("h",),
    ready=True, port_open_ms=900, healthy_ms=1000, first_token_ms=300,
    timings=(
        Timing(title="Preparing", seconds=0.5, parts=(Timing(title="look at h", seconds=0.4),)),
        Timing(title="Building image", skipped="no builder"),
        Timing(
            title="Post-launch hooks",
            seconds=1.3,
            parts=(Timing(title="wait", seconds=1.3, parts=(Timing(title="port open", seconds=0.9),)),),
        ),
    ),
)  # fmt: skip


def test_the_times_are_a_tree_of_phases_steps_and_stages() -> None:
    assert result_text(RESULT).splitlines()[1:8] == [
        "  after: port 0.90 s, healthy 1.00 s, first token 0.30 s",
        "  took:",
        "      0.50 s  Preparing",
        "        0.40 s  look at h",
        "           -  Building image — skipped (no builder)",
        "      1.30 s  Post-launch hooks",
        "        1.30 s  wait",
    ]


def test_without_timings_there_are_none() -> None:
    text = result_text(RESULT, timings=False)
    assert "took" not in text
    assert " s" not in text.splitlines()[1]
