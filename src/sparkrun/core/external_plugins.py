"""Plugins from files that the user names in ``plugins.paths``; behind the feature flag ``core.external_plugins``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.paths import expand


def load_external_plugins(config: SparkrunConfig, failed: Callable[[str, Exception], None]) -> Iterator[ModuleType]:
    """Each ``*.py`` of ``plugins.paths`` (files, or folders of files) as a module; one that cannot be loaded goes to ``failed``."""
    for text in config.texts("plugins.paths"):
        place = expand(text, config.env)
        for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            try:
                yield _load(file)
            except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the rest goes on
                failed(str(file), error)


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"sparkrun_external_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
