"""Clusters from another tool's .env file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.cluster_manager import ClusterError, plan_import

FILE = Path("/opt/tool/.env")
FULL = """
CLUSTER_NODES=10.0.0.1,10.0.0.2
ETH_IF=enp1s0f1np1
IB_IF=rocep1s0f1,roceP2p1s0f1
CONTAINER_NAME=vllm_node
CONTAINER_HF_TOKEN="hf_secret"
CONTAINER_NCCL_IB_HCA=rocep1s0f1
CONTAINER_NCCL_DEBUG=INFO
LOCAL_IP=10.0.0.1
"""


def test_hosts_port_and_variables_are_taken_over() -> None:
    found = plan_import(FULL, FILE)

    assert found.edit.values == {
        "hosts": ["10.0.0.1", "10.0.0.2"],
        "description": "imported from /opt/tool/.env",
        "scheduler": "occupancy-sparse",
        "sync_source": "eugr-env",
        "fabric_interfaces": ["*np1"],
        "env": {"HF_TOKEN": "${CONTAINER_HF_TOKEN}", "NCCL_DEBUG": "${CONTAINER_NCCL_DEBUG}"},
        "env_file": "/opt/tool/.env",
    }


def test_what_is_left_out_is_told_and_no_value_is_shown() -> None:
    notes = plan_import(FULL, FILE).notes

    assert notes == (
        "left out, because a launch finds it out for each host: CONTAINER_NCCL_IB_HCA",
        "without a meaning here: LOCAL_IP",
    )


def test_ports_that_disagree_are_told() -> None:
    found = plan_import("CLUSTER_NODES=a\nETH_IF=enp1s0f0np0\nIB_IF=rocep1s0f1\n", FILE)

    assert found.edit.values["fabric_interfaces"] == ["*np0"]
    assert found.notes == ("ETH_IF is port 0, IB_IF is port 1: *np0 is used",)


def test_an_interface_without_a_port_is_told() -> None:
    found = plan_import("CLUSTER_NODES=a\nETH_IF=eth0\n", FILE)

    assert "fabric_interfaces" not in found.edit.values
    assert "names no port" in found.notes[0]


def test_without_container_variables_no_env_file_is_named() -> None:
    assert "env_file" not in plan_import("CLUSTER_NODES=a\n", FILE).edit.values


@pytest.mark.parametrize("text", ["", "CLUSTER_NODES=\n", "ETH_IF=x\n"])
def test_a_file_without_hosts_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="CLUSTER_NODES names no host"):
        plan_import(text, FILE)
