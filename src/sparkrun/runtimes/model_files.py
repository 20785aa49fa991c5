"""Where a model's files are, seen from inside the container, and which commit they are."""

from __future__ import annotations

import re

import msgspec

from sparkrun.core.facts import HostFacts, ModelFacts

CONTAINER_HF_HOME = "/cache/huggingface"
"""Where the host's Hugging Face cache is mounted in every container."""
CONTAINER_HUB = f"{CONTAINER_HF_HOME}/hub"

_SNAPSHOT = re.compile(r"/models--[^/]+/snapshots/([0-9a-f]{40})(?:/|$)")


def snapshot_revision(path: str | None) -> str | None:
    """The commit in the path of a snapshot; ``None`` for any other path."""
    found = _SNAPSHOT.search(path or "")
    return found[1] if found else None


def container_path(path: str, hf_home: str) -> str:
    """A path of the host as the container sees it: below the mounted cache, or the same, since a model elsewhere is mounted in place."""
    home = hf_home.rstrip("/")
    return f"{CONTAINER_HF_HOME}{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


def container_facts(facts: HostFacts) -> HostFacts:
    """The facts of a host with the paths of the model as its containers see them."""
    model = facts.model
    if model.path is None:
        return facts
    projector = container_path(model.mmproj, facts.hf_cache) if model.mmproj else None
    seen: ModelFacts = msgspec.structs.replace(model, path=container_path(model.path, facts.hf_cache), mmproj=projector)
    return msgspec.structs.replace(facts, model=seen)
