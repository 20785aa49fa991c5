"""Write the versions of versions.yaml wherever they are repeated.

usage: python scripts/update-versions.py [--check]     --check writes nothing and fails where a place says something else
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


class VersionsError(Exception):
    """versions.yaml, or a place that repeats it, is not as it should be."""


@dataclass(frozen=True)
class Versions:
    """What versions.yaml says."""

    sparkrun: str
    python: str

    @property
    def python_tag(self) -> str:
        """The least Python in the form of a wheel tag: 3.11 is py311."""
        return f"py{self.python.replace('.', '')}"


@dataclass(frozen=True)
class Place:
    """A line that repeats a version: ``pattern`` finds the version as its only group, ``attribute`` of Versions belongs there."""

    path: str
    pattern: str
    attribute: str


PLACES = (
    Place("pyproject.toml", r'^version = "(.*)"$', "sparkrun"),
    Place("pyproject.toml", r'^requires-python = ">=(.*)"$', "python"),
    Place("pyproject.toml", r'^target-version = "(.*)"$', "python_tag"),
    Place("pyproject.toml", r'^python_version = "(.*)"$', "python"),
    Place("src/sparkrun/__init__.py", r'^__version__ = "(.*)"$', "sparkrun"),
)


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Write the versions of versions.yaml wherever they are repeated.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a place says something else")
    check = parser.parse_args(argv).check
    try:
        stale = stale_places(root, read_versions(root))
    except VersionsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for place, found, wanted in stale:
        print(f"{place.path}: {found} {'should be' if check else '->'} {wanted}")
        if not check:
            write_version(root, place, wanted)
    return 1 if check and stale else 0


def read_versions(root: Path) -> Versions:
    """The versions in ``root/versions.yaml``; both must be text, since 3.10 as a number is 3.1."""
    data = yaml.safe_load((root / "versions.yaml").read_text(encoding="utf-8"))
    if not isinstance(data, dict) or set(data) != {"sparkrun", "python"}:
        raise VersionsError("versions.yaml must hold the keys sparkrun and python, and no others")
    if wrong := [key for key, value in data.items() if not isinstance(value, str)]:
        raise VersionsError(f"versions.yaml: {' and '.join(wrong)} must be in quotes")
    return Versions(**data)


def stale_places(root: Path, versions: Versions) -> list[tuple[Place, str, str]]:
    """Every place that says something else, with what it says and what it should say."""
    compared = [(place, find_version(root, place), str(getattr(versions, place.attribute))) for place in PLACES]
    return [(place, found, wanted) for place, found, wanted in compared if found != wanted]


def find_version(root: Path, place: Place) -> str:
    return match_in(root, place)[1].group(1)


def write_version(root: Path, place: Place, version: str) -> None:
    text, match = match_in(root, place)
    (root / place.path).write_text(text[: match.start(1)] + version + text[match.end(1) :], encoding="utf-8")


def match_in(root: Path, place: Place) -> tuple[str, re.Match[str]]:
    text = (root / place.path).read_text(encoding="utf-8")
    matches = list(re.finditer(place.pattern, text, re.MULTILINE))
    if len(matches) != 1:
        raise VersionsError(f"{place.path}: {len(matches)} lines match {place.pattern}, expected one")
    return text, matches[0]


if __name__ == "__main__":
    raise SystemExit(main())
