"""Finds the GGUF file of a Hugging Face repository and downloads what is missing.

The rules of choice are llama.cpp's `-hf`: quant Q4_K_M unless said, else the first file; a model split into parts is loaded by its
first part; a projector file (mmproj) is never the model.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from sparkrun.embedded.errors import LauncherError

DEFAULT_QUANT = "Q4_K_M"
LIST_TIMEOUT_S = 10.0
PROJECTOR_TYPES = ("f16", "bf16", "f32", "f8")

# `name-00001-of-00003.gguf`, as `llama-gguf-split` writes it.
_PART = re.compile(r"^(?P<stem>.*)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf$")
_QUANT = re.compile(r"(?<![A-Z0-9])(I?Q\d\w*|B?F16|F32|TQ\d_\d|MXFP4\w*|NVFP4)(?=[.-])", re.IGNORECASE)


class HubRequest(NamedTuple):
    """What to fetch. `file` wins over `quant`; an empty `quant` leaves the choice to us."""

    repo: str
    quant: str = ""
    file: str = ""
    projector: bool = True


class HubModel(NamedTuple):
    """Local paths; `projector_path` is "" when there is none or none was asked for."""

    path: str
    projector_path: str


class Hub(Protocol):
    """The two things asked of a hub."""

    def list_files(self, repo: str) -> Sequence[str]: ...

    def fetch(self, repo: str, file: str) -> str: ...


def parse_hub_request(spec: str, *, file: str = "", projector: bool = True) -> HubRequest:
    """`user/repo[:quant]`, as -hf takes it."""
    repo, _, quant = spec.partition(":")
    if repo.count("/") != 1 or not all(repo.split("/")):
        raise LauncherError(f"-hf takes user/repo[:quant], got '{spec}'", hint="for a local file write -m /path/to/model.gguf")
    return HubRequest(repo, quant, file, projector)


def resolve_model(request: HubRequest, hub: Hub) -> HubModel:
    """Local paths of the model and its projector, downloaded if they were not there."""
    files = sorted(file for file in hub.list_files(request.repo) if file.lower().endswith(".gguf"))
    paths = [hub.fetch(request.repo, part) for part in parts_of(choose_model(files, request))]
    projector = choose_projector(files) if request.projector else ""
    return HubModel(paths[0], hub.fetch(request.repo, projector) if projector else "")


def choose_model(files: Sequence[str], request: HubRequest) -> str:
    """The file to load; the first part of a split model."""
    models = [file for file in files if _is_model(file)]
    if request.file:
        return _named_file(models, request)
    wanted = request.quant or DEFAULT_QUANT
    found = [file for file in models if _has_quant(file, wanted)]
    if found:
        return found[0]
    if not models:
        raise LauncherError(f"{request.repo} has no GGUF file", hint="name a repository whose files end in .gguf")
    if request.quant:
        raise LauncherError(f"{request.repo} has no quant {request.quant}", hint=f"it has {_quants_of(models)}")
    return models[0]


def choose_projector(files: Sequence[str]) -> str:
    """The projector of the repository, F16 first; "" when there is none."""
    projectors = [file for file in files if "mmproj" in file.lower()]
    ranked = [file for kind in PROJECTOR_TYPES for file in projectors if _has_quant(file, kind)]
    return next(iter((*ranked, *projectors)), "")


def parts_of(file: str) -> list[str]:
    """All files of a split model, in order; the file alone when it is not split."""
    match = _PART.match(file)
    if match is None:
        return [file]
    count = int(match["count"])
    return [f"{match['stem']}-{index:05d}-of-{count:05d}.gguf" for index in range(1, count + 1)]


def open_hub(token: str, *, offline: bool) -> Hub:
    """The hub that HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE describe. Imports huggingface_hub, which is slow and optional."""
    if offline:
        # huggingface_hub reads it once, when it is imported.
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise LauncherError("huggingface_hub is not installed", hint="pip install 'sparkrun[local]', or give a file with -m") from None
    return _HuggingFace(token or None)


class _HuggingFace:
    def __init__(self, token: str | None) -> None:
        self._token = token
        self._cache_only = False

    def list_files(self, repo: str) -> Sequence[str]:
        """The hub's list; that of the cache when the hub is off, refuses or does not answer."""
        import huggingface_hub as hf
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        try:
            # Unlike list_repo_files, model_info does not try again for half a minute.
            return [file.rfilename for file in hf.HfApi(token=self._token).model_info(repo, timeout=LIST_TIMEOUT_S).siblings or ()]
        except OfflineModeIsEnabled:
            return self._cached(repo, "HF_HUB_OFFLINE is set", hint="download it while online")
        except HfHubHTTPError as error:
            reason = f"the hub answered {error.response.status_code}"
            return self._cached(repo, reason, hint="check the name; a private or gated repository needs HF_TOKEN")
        except _network_errors() as error:
            return self._cached(repo, f"the hub does not answer ({type(error).__name__})", hint="check the network and HF_ENDPOINT")

    def fetch(self, repo: str, file: str) -> str:
        import huggingface_hub as hf

        try:
            return hf.hf_hub_download(repo, file, token=self._token, local_files_only=self._cache_only)
        except _network_errors() as error:
            first_line = str(error).strip().partition("\n")[0] or type(error).__name__
            raise LauncherError(f"cannot get {file} of {repo}: {first_line}", hint="check the network, HF_TOKEN and disk room") from None

    def _cached(self, repo: str, reason: str, *, hint: str) -> Sequence[str]:
        from huggingface_hub import constants

        files = _cached_files(repo)
        if not files:
            raise LauncherError(f"{repo} is not in the cache and {reason}", hint=hint)
        if not constants.HF_HUB_OFFLINE:
            print(f"warning: {reason}, using the files of {repo} in the cache", file=sys.stderr)
        self._cache_only = True
        return files


def _network_errors() -> tuple[type[Exception], ...]:
    """OSError, and the root of the HTTP library beneath huggingface_hub, which differs with its version (requests, httpx)."""
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, *cast(tuple[type[Exception], ...], HfHubHTTPError.__bases__))


def _cached_files(repo: str) -> list[str]:
    """Files of the cached snapshot of `main`, in the documented layout of the Hugging Face cache."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    reference = folder / "refs" / "main"
    if not reference.is_file():
        return []
    snapshot = folder / "snapshots" / reference.read_text(encoding="utf-8").strip()
    return [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()]


def _is_model(file: str) -> bool:
    """A model, and of a split one only the first part; an importance matrix is no model either."""
    name = file.lower()
    match = _PART.match(file)
    return "mmproj" not in name and "imatrix" not in name and (match is None or int(match["index"]) == 1)


def _named_file(models: Sequence[str], request: HubRequest) -> str:
    if request.file not in models:
        raise LauncherError(f"{request.repo} has no model file {request.file}", hint=f"it has {', '.join(models) or 'none'}")
    return request.file


def _has_quant(file: str, quant: str) -> bool:
    return re.search(rf"(?<![A-Z0-9]){re.escape(quant)}[.-]", file, re.IGNORECASE) is not None


def _quants_of(models: Sequence[str]) -> str:
    found = {match[1].upper() for file in models if (match := _QUANT.search(file))}
    return ", ".join(sorted(found)) or ", ".join(models)
