"""What the hub tells of a model: its files and their sizes, ``config.json``, and the heads of its weight files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from sparkrun.core.hub_reader import HubReader
from sparkrun.core.model_source import ModelSource
from sparkrun.embedded.errors import LauncherError
from sparkrun.embedded.gguf_hub import HubRequest, choose_model, choose_projector, parts_of
from sparkrun.models.vram.config_keys import ConfigKeys, parse_json
from sparkrun.models.vram.details import CONFIG, INDEX, QUANT_CONFIG, ModelDetails, details_of_config, details_of_gguf, weight_files
from sparkrun.models.vram.gguf import HEAD_BYTES
from sparkrun.models.vram.safetensors import LENGTH_BYTES, count_by_type, header_bytes
from sparkrun.utils.jsonio import read_json

LISTING_BYTES = 16 * 1024**2
CONFIG_BYTES = 4 * 1024**2
FIRST_BYTES = 128 * 1024
"""Holds most headers of safetensors files whole."""
MOST_HEADERS = 64
"""Of a model in more files the headers are not read."""
HUB = "the hub"


class HubLook(NamedTuple):
    """What was found out; ``problem`` says why not all of it was."""

    details: ModelDetails = ModelDetails()
    problem: str | None = None


class HubRefusedError(Exception):
    """The hub answered, and not with what was asked for. The text is for people."""


class _Sibling(msgspec.Struct):
    rfilename: str = ""
    size: int | None = None


class _Safetensors(msgspec.Struct):
    parameters: dict[str, int] | None = None


class _Info(msgspec.Struct):
    """The part of the hub's answer about a repository that is read."""

    siblings: list[_Sibling] | None = None
    safetensors: _Safetensors | None = None
    gated: bool | str | None = None


def ask_hub(model: ModelSource, revision: str | None, hub: HubReader) -> HubLook:
    """What the hub knows of a model. Never raises: a hub that is silent, refuses or talks nonsense is a ``problem``."""
    repository = _Repository(model.repo or model.text, revision or "main", hub)
    try:
        info = repository.info()
    except (OSError, HubRefusedError) as error:
        return HubLook(problem=_words(error))
    sizes = {each.rfilename: each.size for each in info.siblings or ()}
    details = _counted(info)
    try:
        found = _gguf(model, sizes, repository) if _is_gguf(model, sizes) else _safetensors(details, sizes, repository)
    except (OSError, HubRefusedError) as error:
        weights = None if _is_gguf(model, sizes) else _sum(sizes, weight_files(sizes))
        return HubLook(msgspec.structs.replace(details, weight_bytes=weights), _words(error))
    return HubLook(found)


class _Repository:
    """One revision of a repository."""

    def __init__(self, repo: str, revision: str, hub: HubReader) -> None:
        self._repo, self._revision, self._hub = repo, quote(revision, safe=""), hub

    def info(self) -> _Info:
        body = self._get(f"/api/models/{self._repo}/revision/{self._revision}?blobs=true", LISTING_BYTES)
        try:
            return read_json(body, _Info)
        except msgspec.DecodeError as error:
            raise HubRefusedError(f"the hub's answer about {self._repo} cannot be read: {error}") from None

    def read(self, file: str, size_bytes: int, start: int = 0) -> bytes:
        return self._get(f"/{self._repo}/resolve/{self._revision}/{quote(file)}", size_bytes, start)

    def _get(self, path: str, size_bytes: int, start: int = 0) -> bytes:
        answer = self._hub.get(path, start=start, size_bytes=size_bytes)
        if answer.status == 200 and start:
            raise HubRefusedError("the hub does not hand out parts of files")
        if answer.ok:
            return answer.body
        raise HubRefusedError(_refusal(answer.status, self._repo))


def _refusal(status: int, repo: str) -> str:
    if status == 401:
        return f"the hub has no {repo}, or only for those who may read it (HTTP 401): correct the name, or set HF_TOKEN"
    if status == 403:
        return f"{repo} is gated (HTTP 403): ask for access on its page, and set HF_TOKEN"
    if status == 404:
        return f"the hub has no such model or revision, or a file is missing in {repo} (HTTP 404)"
    return f"the hub answers HTTP {status} for {repo}"


def _words(error: OSError | HubRefusedError) -> str:
    """The reason as a part of a sentence; the network's own in the words of the system."""
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return text if isinstance(error, HubRefusedError) else f"the hub does not answer ({text})"


def _counted(info: _Info) -> ModelDetails:
    counts = (info.safetensors.parameters if info.safetensors else None) or {}
    return ModelDetails(type_counts=counts, gated=bool(info.gated), source=HUB)


def _is_gguf(model: ModelSource, sizes: Mapping[str, int | None]) -> bool:
    has = any(name.lower().endswith(".gguf") for name in sizes)
    return has and (model.quant is not None or not weight_files(sizes))


def _safetensors(details: ModelDetails, sizes: Mapping[str, int | None], repository: _Repository) -> ModelDetails:
    config = repository.read(CONFIG, CONFIG_BYTES) if CONFIG in sizes else b""
    quant = repository.read(QUANT_CONFIG, CONFIG_BYTES) if QUANT_CONFIG in sizes else b""
    told = details_of_config(config, quant, source=HUB)
    files = weight_files(sizes)
    stored = _sum(sizes, files) or _indexed(sizes, repository)
    counts = details.type_counts or _headers(files, repository)
    return msgspec.structs.replace(told, weight_bytes=stored, type_counts=counts, gated=details.gated)


def _sum(sizes: Mapping[str, int | None], files: Iterable[str]) -> int | None:
    found = [sizes.get(name) for name in files]
    known = [size for size in found if size is not None]
    return sum(known) if known and len(known) == len(found) else None


def _indexed(sizes: Mapping[str, int | None], repository: _Repository) -> int | None:
    """What the index of a split model says of its size."""
    if INDEX not in sizes:
        return None
    index = parse_json(repository.read(INDEX, LISTING_BYTES)) or {}
    metadata = ConfigKeys(index).part("metadata")
    return metadata.whole("total_size") if metadata else None


def _headers(files: tuple[str, ...], repository: _Repository) -> Mapping[str, int]:
    """Elements by type, from the header of every file; nothing when one cannot be read, since a part of them says nothing."""
    if len(files) > MOST_HEADERS:
        return {}
    counted: Counter[str] = Counter()
    for name in files:
        try:
            counts = count_by_type(_header(name, repository))
        except (OSError, HubRefusedError):
            return {}
        if counts is None:
            return {}
        counted.update(counts)
    return counted


def _header(name: str, repository: _Repository) -> bytes:
    first = repository.read(name, FIRST_BYTES)
    length = header_bytes(first)
    if length is None:
        return b""
    header, missing = first[LENGTH_BYTES : LENGTH_BYTES + length], LENGTH_BYTES + length - len(first)
    return header + repository.read(name, missing, len(first)) if missing > 0 else header


def _gguf(model: ModelSource, sizes: Mapping[str, int | None], repository: _Repository) -> ModelDetails:
    files = sorted(name for name in sizes if name.lower().endswith(".gguf"))
    try:
        chosen = choose_model(files, HubRequest(model.repo or model.text, model.quant or ""))
    except LauncherError as error:
        raise HubRefusedError(f"{error} ({error.hint})" if error.hint else str(error)) from None
    stored, projector = _sum(sizes, parts_of(chosen)), choose_projector(files)
    if stored is not None and projector:
        stored += sizes.get(projector) or 0
    try:
        told = details_of_gguf(repository.read(chosen, HEAD_BYTES), source=HUB)
    except (OSError, HubRefusedError):
        told = ModelDetails(gguf=True, quant_method="gguf", source=HUB)
    return msgspec.structs.replace(told, weight_bytes=stored, source=HUB)
