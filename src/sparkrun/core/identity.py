"""The ids of workloads: what is wanted (intent), where it lies (placement), and both together (cluster id)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

import msgspec

CLUSTER_ID = re.compile(r"[a-z][a-z0-9-]{0,47}_[0-9a-f]{16}_[0-9a-f]{12}")
NAMESPACE = "sparkrun"
PARALLELISM = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "data_parallel": "dp",
    "expert_parallel": "ep",
    "context_parallel": "cp",
}


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two launches the same workload, wherever they run."""

    runtime: str
    model: str
    image: str | None = None
    host_images: Mapping[str, str] = {}
    port: int | None = None
    served_model_name: str | None = None
    parallelism: Mapping[str, int] = {}

    @property
    def id(self) -> str:
        """The first 16 hex digits of SHA-256 over the parts, joined by NUL."""
        return _digest(self._parts(), 16)

    def _parts(self) -> Iterable[str]:
        yield self.runtime
        yield self.model
        if self.image:
            yield f"image={self.image}"
        yield from (f"image@{host}={image}" for host, image in sorted(self.host_images.items()))
        if self.port is not None:
            yield f"port={self.port}"
        if self.served_model_name:
            yield f"name={self.served_model_name}"
        yield from (f"{short}={self.parallelism[key]}" for key, short in PARALLELISM.items() if self.parallelism.get(key, 1) != 1)


def placement_token(hosts: Iterable[str]) -> str:
    """The first 12 hex digits of SHA-256 over the sorted hosts, joined by NUL."""
    return _digest(sorted(hosts), 12)


def cluster_id(intent: Intent, hosts: Iterable[str]) -> str:
    """The id of a workload on given hosts."""
    return f"{NAMESPACE}_{intent.id}_{placement_token(hosts)}"


def matches_id(text: str, workload: str) -> bool:
    """Whether ``text`` begins the id of ``workload``: with the namespace, or 4 hex digits or more without, which could be a name."""
    wanted = text.removeprefix(f"{NAMESPACE}_").lower()
    least = 4 if wanted == text.lower() else 1
    if not re.fullmatch(rf"[0-9a-f]{{{least},16}}(?:_[0-9a-f]{{0,12}})?", wanted):
        return False
    return workload.partition("_")[2].startswith(wanted)


def _digest(parts: Iterable[str], length: int) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]
