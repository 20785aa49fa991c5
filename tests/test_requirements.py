"""requirements/*.txt are complete locks of pyproject.toml, and say nothing of where packages come from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
ABSENT = Version("0")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_lock_names_no_address_and_no_folder(lock: Path) -> None:
    options = [line for line in lock.read_text().splitlines() if "://" in line or re.match(r"\s*(-(?!-hash=)|[./])", line)]

    assert options == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_of_a_lock_has_one_version_and_hashes(lock: Path) -> None:
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.MULTILINE))

    assert [entry for entry in entries if not re.match(r"[a-z0-9.-]+==\S+( ; .*?)? \\\n +--hash=sha256:", entry)] == []


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("runtime", PROJECT["project"]["dependencies"]),
        ("demo", PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["local"]),
        ("dev", PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
        ("uv", PROJECT["dependency-groups"]["uv"]),
        ("model", PROJECT["dependency-groups"]["model"]),
    ],
)
def test_lock_keeps_the_bounds_of_the_project(lock: str, wanted: list[str | dict[str, str]]) -> None:
    locked = locked_versions(ROOT / "requirements" / f"{lock}.txt")
    requirements = [Requirement(text) for text in wanted if isinstance(text, str)]

    assert [str(wish) for wish in requirements if locked.get(canonicalize_name(wish.name), ABSENT) not in wish.specifier] == []


def test_dev_is_a_superset_of_demo() -> None:
    """The demo runs in the environment of the tests where that is there."""
    demo, dev = (locked_versions(ROOT / "requirements" / f"{name}.txt") for name in ("demo", "dev"))

    assert demo.items() <= dev.items()


def locked_versions(lock: Path) -> dict[str, Version]:
    return {name: Version(version) for name, version in re.findall(r"^([a-z0-9.-]+)==(\S+)", lock.read_text(), re.MULTILINE)}
