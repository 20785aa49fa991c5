"""Every room of the source tree stands on a floor of the layers contract, and import-linter can see it."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "sparkrun"


def test_every_room_of_the_package_is_on_a_floor() -> None:
    assert without_floor(PACKAGE, floors()) == []


def test_every_folder_with_modules_is_a_package() -> None:
    """import-linter passes over a folder without ``__init__.py`` and everything below it."""
    assert folders_without_init(PACKAGE) == []


def test_a_forgotten_module_of_core_is_named(tmp_path: Path) -> None:
    make_tree(
        tmp_path, "__init__.py", "core/__init__.py", "core/known.py", "core/forgotten.py", "core/recipe/__init__.py", "cli/__init__.py"
    )

    missing = without_floor(tmp_path, {"sparkrun.core.known", "sparkrun.core.recipe"})

    assert missing == ["sparkrun.cli", "sparkrun.core.forgotten"]


def test_a_folder_that_is_no_package_is_named(tmp_path: Path) -> None:
    make_tree(tmp_path, "__init__.py", "core/__init__.py", "core/recipe/load.py", "scripts/probe.sh", "__pycache__/old.py")

    assert folders_without_init(tmp_path) == ["core/recipe"]


def floors() -> set[str]:
    """The modules that the layers contract names."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(contract["layers"] for contract in config["tool"]["importlinter"]["contracts"] if contract["type"] == "layers")
    return {name for layer in layers for name in layer.replace("|", " ").replace(":", " ").replace("(", " ").replace(")", " ").split()}


def without_floor(package: Path, on_a_floor: set[str]) -> list[str]:
    """The rooms of ``package``, and the modules of its ``core`` in place of ``core`` itself, that are on no floor."""
    rooms = [room for room in rooms_in(package) if room != "core"] + [f"core.{module}" for module in rooms_in(package / "core")]
    return sorted(f"sparkrun.{room}" for room in rooms if f"sparkrun.{room}" not in on_a_floor)


def rooms_in(folder: Path) -> list[str]:
    modules = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
    return modules + [path.name for path in folder.iterdir() if path.is_dir() and any(path.rglob("*.py"))]


def folders_without_init(package: Path) -> list[str]:
    folders = {path.parent for path in package.rglob("*.py") if "__pycache__" not in path.parts}
    return sorted(str(folder.relative_to(package)) for folder in folders if not (folder / "__init__.py").exists())


def make_tree(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
