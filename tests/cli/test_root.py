from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Said

Cli = Callable[..., Said]


def imported_by(*words: str) -> set[str]:
    """The modules that a command line loads."""
    script = f"""
import sys
from sparkrun.cli.__main__ import main
try:
    main({list(words)!r})
finally:
    print("MODULES", *sys.modules, file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ), check=False)
    return set(ended.stderr.rpartition("MODULES")[2].split())


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), ("run", "--help"), ("run", "--nonsense"), ("cluster", "list"), ("setup", "features", "list")],
    ids=" ".join,
)
def test_a_command_that_needs_no_plugin_loads_none(words: tuple[str, ...]) -> None:
    loaded = imported_by(*words)
    assert "sparkrun.cli" in loaded
    assert not {"scitrera_app_framework", "rich", "huggingface_hub", "textual", "sparkrun.runtimes.base"} & loaded


NEVER = {"rich", "textual", "huggingface_hub", "urllib.request", "http.client", "importlib.metadata", "multiprocessing"}
"""What none of the quick commands has a use for."""
NO_HOSTS = {"asyncio", "concurrent.futures", "logging", "socket", "ssl", "subprocess", "tempfile", "sparkrun.orchestration.ssh"}
NO_PLUGINS = {"scitrera_app_framework", "vpd", "sparkrun.runtimes.base"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (("run", "--nonsense"), NO_HOSTS | NO_PLUGINS | {"msgspec", "yaml", "pathlib", "json", "hashlib"}),
        (("list",), NO_HOSTS | NO_PLUGINS | {"yaml", "sparkrun.scripts", "sparkrun.core.cluster_manager"}),
        (("search", "mine"), NO_HOSTS | NO_PLUGINS | {"yaml"}),
        (("cluster", "list"), NO_HOSTS - {"tempfile"} | NO_PLUGINS | {"yaml"}),
        (("run", "mine.yaml", "-H", "192.0.2.1", "--dry-run"), {"asyncio.events", "ssl", "sparkrun.testing"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_quick_command_loads_nothing_that_it_has_no_use_for(
    words: tuple[str, ...], unwanted: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("model: org/name\nruntime: vllm\ncontainer: example.org/vllm\n")
    settings = Path(os.environ["SPARKRUN_CONFIG_DIR"])
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "registries.yaml").write_text("config_version: 1\nregistries: []\n")
    imported_by(*words)  # whatever is kept for the next time is kept now

    loaded = imported_by(*words)

    assert "sparkrun.cli.root" in loaded
    assert not (NEVER | unwanted) & loaded


def test_the_version_needs_not_even_click() -> None:
    assert not {"click", "msgspec", "yaml"} & imported_by("--version")


def test_help_lists_every_command(cli: Cli) -> None:
    said = cli("--help")
    assert said.code == 0
    for name in ("run", "status", "logs", "stop", "show", "cluster", "setup"):
        assert f"\n  {name} " in said.out


def test_no_command_is_wrong_usage(cli: Cli) -> None:
    assert cli().code == 2


def test_a_mistyped_command_gets_the_nearest(cli: Cli) -> None:
    assert cli("stauts") == Said(2, "", "error: no such command 'stauts'\n  hint: did you mean 'status'?\n")


def test_a_mistyped_option_gets_the_nearest(cli: Cli) -> None:
    assert cli("run", "x", "--prot", "1") == Said(2, "", "error: no such option '--prot'\n  hint: did you mean '--port'?\n")


def test_a_missing_argument_points_to_the_help(cli: Cli) -> None:
    assert cli("run") == Said(2, "", "error: missing argument 'RECIPE'\n  hint: sparkrun run --help\n")


def test_a_missing_file_is_one_line_and_a_way_out(cli: Cli) -> None:
    said = cli("show", "./nowhere.yaml")
    assert said.code == 1
    assert said.err.startswith("error: ")
    assert "nowhere.yaml" in said.err
    assert "Traceback" not in said.err


def test_broken_yaml_is_wrong_usage_with_file_line_and_column(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("model: a/b\ndefaults:\n  port: [8000\n")
    said = cli("run", str(file), "--dry-run")
    assert said.code == 2
    assert f"error: {file}:4:1: " in said.err


def test_a_broken_config_file_is_named_with_its_line(cli: Cli) -> None:
    file = Path(os.environ["SPARKRUN_CONFIG_DIR"]) / "config.yaml"
    file.parent.mkdir()
    file.write_text("ssh: {user: [}\n")
    said = cli("status")
    assert (said.code, said.err.startswith(f"error: {file}:1:")) == (1, True)


@pytest.mark.parametrize(
    "words",
    [("--follow", "--no-follow"), ("--follow", "--no-ready-wait"), ("--foreground", "--no-ready-wait"), ("--foreground", "--follow")],
    ids=" ".join,
)
def test_options_that_exclude_each_other_are_wrong_usage(cli: Cli, words: tuple[str, ...]) -> None:
    said = cli("run", "x", *words)
    assert said.code == 2
    assert f"{words[0]} and {words[1]} exclude each other" in said.err


@pytest.mark.parametrize("text", ["FOO", "=x", "a b=1"])
def test_a_variable_without_name_or_value_is_wrong_usage(cli: Cli, text: str) -> None:
    said = cli("run", "x", "-e", text)
    assert (said.code, "NAME=VALUE is wanted" in said.err) == (2, True)


def test_stop_wants_a_name_or_all(cli: Cli) -> None:
    assert cli("stop").code == 2
    assert cli("stop", "x", "--all").code == 2
