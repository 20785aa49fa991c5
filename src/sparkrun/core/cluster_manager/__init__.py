"""Saved clusters: what one is, its files, how it is changed, and how hosts are named."""

from sparkrun.core.cluster_manager.addresses import HostAddress, machine_key, parse_host, parse_hosts
from sparkrun.core.cluster_manager.edit import ClusterEdit
from sparkrun.core.cluster_manager.env_file import cluster_env
from sparkrun.core.cluster_manager.errors import ClusterError
from sparkrun.core.cluster_manager.importing import ClusterImport, plan_import
from sparkrun.core.cluster_manager.manager import BrokenCluster, ClusterManager, SavedCluster
from sparkrun.core.cluster_manager.model import NEW_CLUSTER_SCHEDULER, UNNAMED_SCHEDULER, Cluster, TransferMode
from sparkrun.core.cluster_manager.shape import cluster_json, detailed_json, shown_env
from sparkrun.core.cluster_manager.transfer import ControlMachine, TransferChoice, choose_transfer_interface, choose_transfer_mode

__all__ = [
    "NEW_CLUSTER_SCHEDULER",
    "UNNAMED_SCHEDULER",
    "BrokenCluster",
    "Cluster",
    "ClusterEdit",
    "ClusterError",
    "ClusterImport",
    "ClusterManager",
    "ControlMachine",
    "HostAddress",
    "SavedCluster",
    "TransferChoice",
    "TransferMode",
    "choose_transfer_interface",
    "choose_transfer_mode",
    "cluster_env",
    "cluster_json",
    "detailed_json",
    "machine_key",
    "parse_host",
    "parse_hosts",
    "plan_import",
    "shown_env",
]
