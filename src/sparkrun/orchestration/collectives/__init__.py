"""The environment in which accelerators on several hosts find each other, one library a vendor."""

from sparkrun.orchestration.collectives.base import CollectiveBackend, meeting_env, node_env
from sparkrun.orchestration.collectives.cluster_env import SharedEnv, cluster_env, split_shared
from sparkrun.orchestration.collectives.hccl import HcclBackend
from sparkrun.orchestration.collectives.nccl import NcclBackend
from sparkrun.orchestration.collectives.rccl import RcclBackend
from sparkrun.orchestration.collectives.registry import get_backend

__all__ = [
    "CollectiveBackend",
    "HcclBackend",
    "NcclBackend",
    "RcclBackend",
    "SharedEnv",
    "cluster_env",
    "get_backend",
    "meeting_env",
    "node_env",
    "split_shared",
]
