"""A registry as it lies in the cache once it was fetched, without git."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def put_registry(home: Path, name: str, files: Mapping[str, str], *, trusted: bool = True) -> Path:
    """Add a registry of recipes and tuning configs with these files; its tree."""
    url = f"file:///srv/{name}.git"
    tree = home / ".cache/sparkrun/registries" / name
    for path, text in {".git/HEAD": "0" * 40, ".git/config": f'[remote "origin"]\n\turl = {url}\n', **files}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    entry = {"name": name, "url": url, "subpath": "recipes", "tuning_subpath": "tuning", "trusted": trusted}
    file = home / ".config/sparkrun/registries.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(file.read_text())["registries"] if file.exists() else []
    others = [other for other in known if other["name"] != name]
    file.write_text(json.dumps({"config_version": 1, "registries": [*others, entry]}))
    return tree
