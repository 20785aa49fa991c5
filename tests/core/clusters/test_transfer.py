"""Which way transfers take, told without asking a host."""

from __future__ import annotations

import pytest

from sparkrun.core.cluster_manager import Cluster, ControlMachine, choose_transfer_interface, choose_transfer_mode


@pytest.mark.parametrize(
    ("control", "mode"),
    [
        (ControlMachine(is_host=True, cross_user=False, has_fabric=False), "local"),
        (ControlMachine(is_host=True, cross_user=True, has_fabric=True), "delegated"),
        (ControlMachine(is_host=False, cross_user=False, has_fabric=False), "delegated"),
        (ControlMachine(is_host=False, cross_user=False, has_fabric=True), "auto"),
    ],
)
def test_auto_follows_from_this_machine(control: ControlMachine, mode: str) -> None:
    assert choose_transfer_mode(Cluster("lab"), control).mode == mode


def test_a_mode_that_is_set_holds() -> None:
    choice = choose_transfer_mode(Cluster("lab", transfer_mode="push"), ControlMachine(is_host=True, cross_user=False, has_fabric=True))

    assert choice == ("push", "set for the cluster")


def test_transfers_use_the_fabric_unless_told_otherwise() -> None:
    assert choose_transfer_interface(Cluster("lab")) == "cx7"
    assert choose_transfer_interface(Cluster("lab", transfer_interface="mgmt")) == "mgmt"
