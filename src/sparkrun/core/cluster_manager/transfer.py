"""Which way images and models take to the hosts, as far as that can be told without asking a host."""

from __future__ import annotations

from typing import NamedTuple

from sparkrun.core.cluster_manager.model import Cluster, TransferInterface, TransferMode


class ControlMachine(NamedTuple):
    """This machine in relation to a cluster."""

    is_host: bool
    """It is one of the hosts."""
    cross_user: bool
    """Hosts are reached as another user than the one we are."""
    has_fabric: bool
    """It has an InfiniBand or RoCE device."""


class TransferChoice(NamedTuple):
    """A transfer mode and why."""

    mode: TransferMode
    reason: str


def choose_transfer_mode(cluster: Cluster, control: ControlMachine) -> TransferChoice:
    """The mode the cluster names; for ``auto`` what follows from this machine, or ``auto`` where the hosts' fabric decides."""
    if cluster.transfer_mode != "auto":
        return TransferChoice(cluster.transfer_mode, "set for the cluster")
    if control.cross_user:
        return TransferChoice("delegated", "the hosts are reached as another user")
    if control.is_host:
        return TransferChoice("local", "this machine is one of the hosts")
    if not control.has_fabric:
        return TransferChoice("delegated", "this machine is not on the fabric")
    return TransferChoice("auto", "decided at launch: local when every host answers on the fabric, else delegated")


def choose_transfer_interface(cluster: Cluster) -> TransferInterface:
    """The network that transfers use."""
    return "cx7" if cluster.transfer_interface == "auto" else cluster.transfer_interface
