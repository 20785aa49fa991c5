"""Which collective library goes with which vendor."""

from __future__ import annotations

from sparkrun.orchestration.collectives.base import CollectiveBackend
from sparkrun.orchestration.collectives.hccl import HcclBackend
from sparkrun.orchestration.collectives.nccl import NcclBackend
from sparkrun.orchestration.collectives.rccl import RcclBackend

_BACKENDS: dict[str, CollectiveBackend] = {backend.vendor: backend for backend in (NcclBackend(), RcclBackend(), HcclBackend())}


def get_backend(vendor: str | None) -> CollectiveBackend:
    """The library of a vendor (``nvidia``, ``amd``, ``intel``); NCCL's for one that is unknown."""
    return _BACKENDS.get(vendor or "", _BACKENDS["nvidia"])
