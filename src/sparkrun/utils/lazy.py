"""Loading what is imported only when it is first used: a package's public names (PEP 562), and modules that others import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


def lazy_names(package: str, homes: Mapping[str, str], *, others: str = "") -> Callable[[str], object]:
    """The ``__getattr__`` of a package. ``homes`` gives, by module, the names it defines with blanks between them; any other name is one
    that the module ``others`` hands on, or none.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        home = home_of.get(name) or others
        if not home or (name not in home_of and name not in import_module(home).__all__):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


@contextmanager
def put_off(name: str) -> Iterator[None]:
    """Within it, the first import of a top-level module loads nothing yet: the first use does, or the next import."""
    finder = _PutOff(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _PutOff:
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._name else None
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec
