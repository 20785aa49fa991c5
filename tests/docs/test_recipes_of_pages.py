"""The recipes on the pages of the engines are checked and planned as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sparkrun.cli.root import run_command

PAGES = sorted((Path(__file__).parents[2] / "docs/runtimes").glob("*.md"))
RECIPES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"```yaml\n(model: .*?)```", page.read_text(), re.DOTALL), start=1)
]


@pytest.mark.parametrize("text", RECIPES)
def test_a_recipe_of_a_page_is_without_fault_and_can_be_planned(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.yaml").write_text(text)
    assert run_command(["recipe", "validate", str(tmp_path / "page.yaml"), "--strict"]) == 0, capsys.readouterr().out
    capsys.readouterr()
    assert run_command(["run", str(tmp_path / "page.yaml"), "-H", "a,b", "--dry-run", "--json"]) == 0, capsys.readouterr().err
    plan = json.loads(capsys.readouterr().out)
    assert plan["model"] == re.findall(r"^model: (.*)$", text, re.MULTILINE)[0]
