"""How a model of the Hugging Face hub comes to a host's cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparkrun.core.model_source import ModelSource
from sparkrun.core.plan import HostAction
from sparkrun.core.remote import Params, ScriptCall
from sparkrun.models.files import ALTERNATIVE_WEIGHTS, Entry, HubFile, Selection, link_lines, patterns_of


def receive_action(host: str, hub: str, repo: str, entries: Iterable[Entry]) -> HostAction:
    """Files of a repository come in a stream, one after the other; aside at first."""
    lines = tuple(f"{entry.file.key} {entry.file.size} {entry.start} {int(host in entry.takers)}" for entry in entries)
    return HostAction(host, f"copy model {repo} to {host}", ScriptCall("hub_receive", {"HUB": hub, "REPO": repo, "ENTRIES": lines}))


class Snapshot(NamedTuple):
    """What a copy of a model is to become: the files of a commit, and the branches and tags that stand for it."""

    repo: str
    commit: str
    files: Sequence[HubFile]
    refs: tuple[str, ...] = ()


def keep_action(host: str, hub: str, snapshot: Snapshot) -> HostAction:
    """What was received becomes a model of the cache."""
    repo, commit, files, refs = snapshot
    params: Params = {"HUB": hub, "REPO": repo, "SNAPSHOT": commit, "LINKS": tuple(link_lines(files)), "REFS": refs}
    return HostAction(host, f"put model {repo} in place on {host}", ScriptCall("hub_keep", params))


class Fetch(NamedTuple):
    """What to ask the hub for: with a host's own ``hf``, else with that of ``image``."""

    model: ModelSource
    revision: str = ""
    image: str = ""
    token: str = ""
    python: str = ""
    """A python there that has the hub's client."""
    selection: Selection = "auto"
    endpoint: str = ""
    """Address of the hub, where it is another than the usual one."""
    idle_s: float = 120
    """When nothing has come for so long it is given up."""
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def download_action(host: str, hub: str, fetch: Fetch) -> HostAction:
    """The host fetches it from the hub."""
    model = fetch.model
    params: Params = {
        "HUB": hub,
        "REPO": model.repo or model.text,
        "REVISION": fetch.revision,
        "PATTERNS": (*patterns_of(model), *fetch.allow),
        "EXCLUDED": fetch.ignore,
        "IGNORED": ALTERNATIVE_WEIGHTS if fetch.selection != "all" else (),
        "IMAGE": fetch.image,
        "PYTHON": fetch.python,
        "ENDPOINT": fetch.endpoint,
        "IDLE_S": str(round(fetch.idle_s)),
        "LIFELINE": "1",
    }
    call = ScriptCall("hub_download", params, {"TOKEN": fetch.token} if fetch.token else {})
    return HostAction(host, f"fetch model {model.text} on {host}", call)
