"""A package's public names, each loaded when it is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package. ``homes`` gives, by module, the names it defines with blanks between them."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
