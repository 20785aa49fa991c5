"""scripts/update-versions.py, on a tree of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent

PYPROJECT = """\
[project]
version = "0.5.0"
requires-python = ">=3.11"

[tool.ruff]
target-version = "py311"

[tool.mypy]
python_version = "3.11"
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_versions", ROOT / "scripts" / "update-versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "sparkrun"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Text."""\n\n__version__ = "0.5.0"\n')
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    set_versions(tmp_path, sparkrun="0.5.0", python="3.11")
    return tmp_path


def test_a_tree_that_agrees_passes_the_check(script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--check"], tree) == 0
    assert capsys.readouterr().out == ""


def test_check_names_every_stale_place_and_writes_nothing(script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_versions(tree, sparkrun="0.6.0", python="3.11")

    assert script.main(["--check"], tree) == 1

    assert capsys.readouterr().out.splitlines() == [
        "pyproject.toml: 0.5.0 should be 0.6.0",
        "src/sparkrun/__init__.py: 0.5.0 should be 0.6.0",
    ]
    assert (tree / "pyproject.toml").read_text() == PYPROJECT


def test_writing_makes_the_check_pass(script: ModuleType, tree: Path) -> None:
    set_versions(tree, sparkrun="1.0.0", python="3.12")

    assert script.main([], tree) == 0

    assert script.main(["--check"], tree) == 0
    assert (tree / "src/sparkrun/__init__.py").read_text() == '"""Text."""\n\n__version__ = "1.0.0"\n'
    assert (tree / "pyproject.toml").read_text() == PYPROJECT.replace("0.5.0", "1.0.0").replace("3.11", "3.12").replace("311", "312")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sparkrun: "1.0"\npython: 3.11\n', "python must be in quotes"),
        ('sparkrun: "1.0"\n', "must hold the keys sparkrun and python"),
        ('sparkrun: "1.0"\npython: "3.11"\nnode: "20"\n', "and no others"),
    ],
)
def test_a_versions_file_of_another_shape_is_refused(
    script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tree / "versions.yaml").write_text(text)

    assert script.main([], tree) == 1
    assert message in capsys.readouterr().err


def test_a_place_that_lost_its_version_is_named(script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src/sparkrun/__init__.py").write_text("")

    assert script.main(["--check"], tree) == 1
    assert "src/sparkrun/__init__.py: 0 lines match" in capsys.readouterr().err


def set_versions(tree: Path, *, sparkrun: str, python: str) -> None:
    (tree / "versions.yaml").write_text(f'sparkrun: "{sparkrun}"\npython: "{python}"\n')
