"""How a model of the Hugging Face hub comes to a host's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from sparkrun.core.model_source import ModelSource
from sparkrun.core.plan import HostAction
from sparkrun.core.remote import Params, ScriptCall

UNFINISHED = ".incomplete"
"""How the name of a file ends that the hub's client has not fetched to its end."""
LEFT_OUT = (f"*{UNFINISHED}", ".no_exist", ".sparkrun-incoming")


def repo_folder(repo: str) -> str:
    """The folder of a repository in a hub's cache."""
    return f"models--{repo.replace('/', '--')}"


def repo_bytes(hub: str, repo: str) -> int | None:
    """How much a copy of a repository is, read from this machine's own cache; ``None`` when that cannot be read."""
    try:
        return sum(_file_sizes(f"{hub}/{repo_folder(repo)}"))
    except OSError:
        return None


def receive_action(host: str, hub: str, source_hub: str, repo: str, size_bytes: int | None) -> HostAction:
    """The whole folder of a repository, links and all, comes from the control machine's cache at ``source_hub``; aside at first."""
    feed = ("tar", "-C", source_hub, *(f"--exclude={pattern}" for pattern in LEFT_OUT), "-cf", "-", "--", repo_folder(repo))
    params = {"HUB": hub, "REPO": repo, "SIZE_BYTES": str(size_bytes or "")}
    return HostAction(host, f"copy model {repo} to {host}", ScriptCall("hub_receive", params, feed=feed))


def keep_action(host: str, hub: str, repo: str) -> HostAction:
    """What was received becomes a model of the cache."""
    return HostAction(host, f"put model {repo} in place on {host}", ScriptCall("hub_keep", {"HUB": hub, "REPO": repo}))


class Fetch(NamedTuple):
    """What to ask the hub for: with a host's own ``hf``, else with that of ``image``."""

    model: ModelSource
    revision: str = ""
    image: str = ""
    token: str = ""


def download_action(host: str, hub: str, fetch: Fetch) -> HostAction:
    """The host fetches it from the hub."""
    model = fetch.model
    params: Params = {
        "HUB": hub,
        "REPO": model.repo or model.text,
        "REVISION": fetch.revision,
        "PATTERNS": patterns_of(model),
        "IMAGE": fetch.image,
        "LIFELINE": "1",
    }
    call = ScriptCall("hub_download", params, {"TOKEN": fetch.token} if fetch.token else {})
    return HostAction(host, f"fetch model {model.text} on {host}", call)


def patterns_of(model: ModelSource) -> tuple[str, ...]:
    """The files of a quantisation, its projectors and its settings; every file where none is named."""
    if model.quant is None:
        return ()
    quants = dict.fromkeys((model.quant, model.quant.upper(), model.quant.lower()))
    return (*(f"*{quant}*" for quant in quants), "*mmproj*", "*.json")


def _file_sizes(folder: str) -> Iterator[int]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _file_sizes(entry.path)
            elif not entry.is_symlink() and not entry.name.endswith(UNFINISHED):
                yield entry.stat().st_size
