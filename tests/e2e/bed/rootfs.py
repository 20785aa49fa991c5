"""Parts of this machine's file system, as parts of an image's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.e2e.bed.archive import Layer
from tests.e2e.bed.machine import program, require
from tests.e2e.bed.plan import BedError

PYTHON = Path("/usr/bin/python3")
HOME = "opt/engine"
"""Where an image has its Python, which is on no PATH."""
INTERPRETER = f"/{HOME}/bin/python3"
NOT_COPIED = frozenset(
    """
    asyncio curses dbm dist-packages distutils ensurepip idlelib lib2to3 multiprocessing pydoc_data site-packages sqlite3 test tests tkinter
    turtledemo unittest venv wsgiref xmlrpc
    """.split()
)
"""Folders of the library that nothing here imports."""
NOT_LOADED = (
    "_asyncio",
    "_codecs_",
    "_curses",
    "_dbm",
    "_sqlite3",
    "_test",
    "_tkinter",
    "_xx",
    "nis",
    "ossaudiodev",
    "readline",
    "xxlimited",
)
"""How the names of its binary modules begin that nothing here imports."""


def programs(names: Iterable[str]) -> Layer:
    """Programs of this machine with the libraries that they load. Raises ``BedError`` for one that is not here."""
    found: dict[str, Path] = {}
    for name in names:
        path = program(name)
        if path is None:
            raise BedError(f"no {name} on this machine to put into an image")
        found[f"usr/bin/{name}"] = Path(path).resolve()
    return {**found, **libraries(found.values())}


def libraries(binaries: Iterable[Path]) -> Layer:
    """What the loader finds for them. Nothing for a script."""
    ended = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)
    return {_library_place(Path(path)): Path(path).resolve() for path in re.findall(r"(/\S+) \(0x", ended.stdout)}


def python_files() -> Layer:
    """The system's Python and its library, below a folder of its own: it finds the one from the other."""
    source = _source_library()
    files = {f"{HOME}/lib/{source.name}/{file.relative_to(source)}": file for file in _library_files(source)}
    binaries = [PYTHON.resolve(), *(file for file in files.values() if file.suffix == ".so")]
    return {INTERPRETER.lstrip("/"): PYTHON.resolve(), **files, **libraries(binaries)}


def python_library() -> str:
    """Where an image's Python looks for modules."""
    return f"{HOME}/lib/{_source_library().name}"


def _source_library() -> Path:
    return Path(require(PYTHON, "-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))").strip())


def _library_files(source: Path) -> Iterator[Path]:
    for file in source.rglob("*"):
        folders = file.relative_to(source).parts[:-1]
        left_out = not NOT_COPIED.isdisjoint(folders) or any(name.startswith("config-") for name in folders)
        if not left_out and file.is_file() and not (file.suffix == ".so" and file.name.startswith(NOT_LOADED)):
            yield file


def _library_place(path: Path) -> str:
    """Images have /lib as a link to /usr/lib, as this machine may or may not."""
    folder = path.parent.resolve()
    return f"{folder if folder.is_relative_to('/usr') else Path('/usr') / folder.relative_to('/')}/{path.name}".lstrip("/")
