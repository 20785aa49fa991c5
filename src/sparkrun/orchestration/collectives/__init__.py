"""The environment in which accelerators on several hosts find each other, one library a vendor."""

from sparkrun.orchestration.collectives.base import CollectiveBackend, meeting_env, node_env
from sparkrun.orchestration.collectives.hccl import HcclBackend
from sparkrun.orchestration.collectives.nccl import NcclBackend
from sparkrun.orchestration.collectives.rccl import RcclBackend
from sparkrun.orchestration.collectives.registry import get_backend
from sparkrun.orchestration.collectives.shared_env import SharedEnv, split_shared

__all__ = [
    "CollectiveBackend",
    "HcclBackend",
    "NcclBackend",
    "RcclBackend",
    "SharedEnv",
    "get_backend",
    "meeting_env",
    "node_env",
    "split_shared",
]
