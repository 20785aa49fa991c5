"""The environment of a cluster, and the file its secrets come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.cluster_manager import Cluster, cluster_env
from sparkrun.core.cluster_manager.env_file import parse_env_file
from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("export A=1", "1"),
        ("A = 1", "1"),
        ("  A=a b  # why", "a b"),
        ("A=a#b", "a#b"),
        ("A=", ""),
        ("A=# nothing", ""),
        ('A="a # b" # why', "a # b"),
        (r'A="say \"x\""', 'say "x"'),
        (r"A='a\"b'", r"a\"b"),
        ("A=x=y", "x=y"),
        ("A=$HOME", "$HOME"),
    ],
)
def test_a_line_is_read_as_a_shell_does_without_expanding(line: str, value: str) -> None:
    assert parse_env_file(line, "f") == {"A": value}


def test_comments_and_empty_lines_are_passed_over_and_the_last_line_wins() -> None:
    assert parse_env_file("# x\n\nA=1\nA=2\n", "f") == {"A": "2"}


@pytest.mark.parametrize("line", ["no equals", "1A=2", 'A="open', "A='x' y"])
def test_a_broken_line_is_named_by_number_and_not_shown(line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_env_file(f"B=1\n{line}\n", "f.env")

    assert refused.value.message.startswith("f.env:2: ")
    assert line not in refused.value.message


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"))))
def test_a_quoted_value_is_read_back(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_env_file(f'A="{escaped}"', "f") == {"A": value}


def test_references_come_from_the_env_file(tmp_path: Path, config: SparkrunConfig) -> None:
    (tmp_path / "s.env").write_text("TOKEN=t0\nHOST=h\n")
    cluster = Cluster("lab", env={"A": "${TOKEN}", "URL": "http://${HOST}/${TOKEN}", "PLAIN": "x"}, env_file=str(tmp_path / "s.env"))

    assert cluster_env(cluster, config) == {"A": "t0", "URL": "http://h/t0", "PLAIN": "x"}


def test_the_environment_of_the_shell_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "s.env").write_text("TOKENS=x\n")
    config = SparkrunConfig.load({"HOME": str(tmp_path), "TOKEN": "from the shell"})

    with pytest.raises(ConfigError, match=r"needs \$\{TOKEN\}, which is not in") as refused:
        cluster_env(Cluster("lab", env={"A": "${TOKEN}"}, env_file="~/s.env"), config)
    assert refused.value.hint == "did you mean 'TOKENS'?"


def test_a_reference_without_an_env_file_is_refused(config: SparkrunConfig) -> None:
    with pytest.raises(ConfigError, match="no env_file is set"):
        cluster_env(Cluster("lab", env={"A": "${TOKEN}"}), config)


def test_an_env_file_that_is_missing_matters_only_where_it_is_needed(config: SparkrunConfig) -> None:
    assert cluster_env(Cluster("lab", env={"A": "1"}, env_file="/nowhere"), config) == {"A": "1"}
    with pytest.raises(ConfigError, match="cannot read the env_file /nowhere"):
        cluster_env(Cluster("lab", env={"A": "${B}"}, env_file="/nowhere"), config)


def test_a_relative_env_file_lies_beside_the_cluster_files(config: SparkrunConfig) -> None:
    config.paths.clusters_dir.mkdir(parents=True)
    (config.paths.clusters_dir / "s.env").write_text("T=1\n")

    assert cluster_env(Cluster("lab", env={"A": "${T}"}, env_file="s.env"), config) == {"A": "1"}
