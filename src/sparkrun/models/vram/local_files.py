"""What the files of a model on this machine tell: a snapshot of the hub's cache, a folder, a GGUF file, a file of a package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.model_source import ModelSource
from sparkrun.core.paths import expand, home_dir
from sparkrun.embedded.errors import LauncherError
from sparkrun.embedded.gguf_hub import HubRequest, choose_model, choose_projector, parts_of
from sparkrun.models.files import repo_folder
from sparkrun.models.vram.config_keys import ConfigKeys, parse_json
from sparkrun.models.vram.details import CONFIG, INDEX, QUANT_CONFIG, ModelDetails, details_of_config, details_of_gguf, weight_files
from sparkrun.models.vram.gguf import HEAD_BYTES
from sparkrun.models.vram.safetensors import LENGTH_BYTES, count_by_type, header_bytes

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.")
_GIVEN_UP_BYTES = 64 * 1024**2
"""Of a model with longer headers the weights are not counted: its files' sizes are enough."""


def local_details(model: ModelSource, revision: str | None, config: SparkrunConfig, *, headers: bool) -> ModelDetails:
    """What this machine's own files tell; nothing where there are none. ``headers``: also count the weights by type, which takes longer.

    Never raises: a file that cannot be read is one that is not there.
    """
    try:
        path = _path(model, revision, config)
        if path is None:
            return ModelDetails()
        return _folder(path, model, headers=headers) if path.is_dir() else _file(path)
    except OSError:
        return ModelDetails()


def hub_folder(config: SparkrunConfig) -> Path:
    """Where this machine keeps models of the hub."""
    env = config.env
    if said := env.get("HF_HUB_CACHE"):
        return Path(said)
    home = config.text("hf_cache_dir")
    return (expand(home, env) if home else Path(env.get("HF_HOME") or home_dir(env) / ".cache" / "huggingface")) / "hub"


def _path(model: ModelSource, revision: str | None, config: SparkrunConfig) -> Path | None:
    if model.kind == "hub":
        return _snapshot(hub_folder(config) / repo_folder(model.repo or model.text), revision or "main")
    if model.kind == "pkg":
        return _in_package(model)
    return path if model.path and (path := Path(model.path)).exists() else None


def _snapshot(repository: Path, revision: str) -> Path | None:
    reference = repository / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = repository / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def _in_package(model: ModelSource) -> Path | None:
    import importlib.util  # only models inside packages need it

    package = model.text.removeprefix("pkg://").partition("/")[0]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return path if folders and model.path and (path := Path(folders[0], model.path)).is_file() else None


def _file(path: Path) -> ModelDetails:
    return _gguf(path.parent, path.name) if path.suffix.lower() == ".gguf" else ModelDetails()


def _folder(folder: Path, model: ModelSource, *, headers: bool) -> ModelDetails:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]
    ggufs = sorted(name for name in names if name.lower().endswith(".gguf"))
    files = weight_files(names)
    if ggufs and (model.quant or not files):
        return _chosen_gguf(folder, ggufs, model)
    told = details_of_config(_read(folder / CONFIG), _read(folder / QUANT_CONFIG), source=_source(folder))
    stored = _sizes(folder, files)
    counts = _headers(folder, files) if headers and stored is not None else {}
    return msgspec.structs.replace(told, weight_bytes=stored or _indexed(folder), type_counts=counts)


def _chosen_gguf(folder: Path, names: list[str], model: ModelSource) -> ModelDetails:
    try:
        chosen = choose_model(names, HubRequest(model.repo or model.text, model.quant or ""))
    except LauncherError:
        return ModelDetails()
    return _gguf(folder, chosen, choose_projector(names))


def _gguf(folder: Path, name: str, projector: str = "") -> ModelDetails:
    files = parts_of(name)
    with (folder / files[0]).open("rb") as file:
        told = details_of_gguf(file.read(HEAD_BYTES), source=_source(folder))
    stored = _sizes(folder, tuple(files))
    if stored is not None and projector:
        stored += (folder / projector).stat().st_size
    return msgspec.structs.replace(told, weight_bytes=stored, source=_source(folder))


def _source(folder: Path) -> str:
    return "the hub's cache here" if folder.parent.name == "snapshots" else f"the files in {folder}"


def _sizes(folder: Path, files: tuple[str, ...]) -> int | None:
    """All of them together; ``None`` when one is not there, or not to its end."""
    counted = {found[2] for name in files if (found := _PART.search(name))}
    if counted and len(files) != int(next(iter(counted))):
        return None
    paths = [folder / name for name in files]
    return sum(path.stat().st_size for path in paths) or None if all(path.exists() for path in paths) else None


def _indexed(folder: Path) -> int | None:
    metadata = ConfigKeys(parse_json(_read(folder / INDEX)) or {}).part("metadata")
    return metadata.whole("total_size") if metadata else None


def _headers(folder: Path, files: tuple[str, ...]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    read = 0
    for name in files:
        with (folder / name).open("rb") as file:
            length = header_bytes(file.read(LENGTH_BYTES))
            read += length or 0
            counts = count_by_type(file.read(length)) if length and read <= _GIVEN_UP_BYTES else None
        if counts is None:
            return {}
        counted.update(counts)
    return counted


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
