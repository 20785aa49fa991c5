"""The exact environment of clusters as people build them."""

from __future__ import annotations

from collections.abc import Mapping

from sparkrun.core.backend_select import select_backends
from sparkrun.core.fabric import FabricFacts, FabricOptions, select_fabric
from sparkrun.core.hardware import ASSUMED_DGX_SPARK
from sparkrun.orchestration.collectives import split_shared
from sparkrun.runtimes._cluster_ops import resolve_comm_env
from tests.core.fabric.hosts import SPARK_PORTS, interface, network, port, spark


def env_of(facts: Mapping[str, FabricFacts], options: FabricOptions | None = None) -> dict[str, dict[str, str]]:
    return resolve_comm_env(select_fabric(facts, options), {}, {host: select_backends(ASSUMED_DGX_SPARK) for host in facts})


def env(text: str) -> dict[str, str]:
    """Words of the form NAME=value."""
    return dict(word.split("=", 1) for word in text.split())


def test_one_cable_between_two_sparks() -> None:
    facts = {
        f"10.0.0.{n}": spark({"enp1s0f0np0": f"192.168.11.{n}/24", "enP2p1s0f0np0": f"192.168.12.{n}/24"}, f"10.0.0.{n}/24") for n in (1, 2)
    }
    assert env_of(facts)["10.0.0.1"] == env(
        "GLOO_SOCKET_IFNAME=enP7s7 MN_IF_NAME=enP7s7 NCCL_CROSS_NIC=1 NCCL_IB_DISABLE=0 NCCL_IB_GID_INDEX=3"
        " NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0 NCCL_IGNORE_CPU_AFFINITY=1 NCCL_NET=IB NCCL_SOCKET_IFNAME=enP7s7,enp1s0f0np0,enP2p1s0f0np0"
        " NODE_IP=10.0.0.1 OMPI_MCA_btl_tcp_if_include=enP7s7 TP_SOCKET_IFNAME=enP7s7 UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1"
    )
    shared, per_host = split_shared(env_of(facts))
    assert per_host == {"10.0.0.1": {"NODE_IP": "10.0.0.1"}, "10.0.0.2": {"NODE_IP": "10.0.0.2"}}
    assert shared["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"


def test_two_sparks_with_the_cable_in_different_ports() -> None:
    facts = {
        "spark-1": spark({"enp1s0f0np0": "192.168.11.1/24", "enP2p1s0f0np0": "192.168.12.1/24"}, "10.0.0.1/24", gid=3),
        "spark-2": spark({"enp1s0f1np1": "192.168.11.2/24", "enP2p1s0f1np1": "192.168.12.2/24"}, "10.0.0.2/24", gid=5),
    }
    common = (
        " GLOO_SOCKET_IFNAME=enP7s7 MN_IF_NAME=enP7s7 OMPI_MCA_btl_tcp_if_include=enP7s7 TP_SOCKET_IFNAME=enP7s7"
        " NCCL_NET=IB NCCL_IB_DISABLE=0 NCCL_CROSS_NIC=1 NCCL_IGNORE_CPU_AFFINITY=1"
    )
    assert env_of(facts) == {
        "spark-1": env(
            "NODE_IP=10.0.0.1 NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0 UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1 NCCL_IB_GID_INDEX=3"
            " NCCL_SOCKET_IFNAME=enP7s7,enp1s0f0np0,enP2p1s0f0np0" + common
        ),
        "spark-2": env(
            "NODE_IP=10.0.0.2 NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1 UCX_NET_DEVICES=rocep1s0f1:1,roceP2p1s0f1:1 NCCL_IB_GID_INDEX=5"
            " NCCL_SOCKET_IFNAME=enP7s7,enp1s0f1np1,enP2p1s0f1np1" + common
        ),
    }


def test_three_sparks_in_a_ring() -> None:
    """Link i joins host i and the next one by two subnets, one for each PCIe function; a host's port np0 leads on, np1 back."""
    facts = {
        f"spark-{n + 1}": spark(
            {
                "enp1s0f0np0": f"192.168.{10 + n}.1/24",
                "enP2p1s0f0np0": f"192.168.{20 + n}.1/24",
                "enp1s0f1np1": f"192.168.{10 + (n - 1) % 3}.2/24",
                "enP2p1s0f1np1": f"192.168.{20 + (n - 1) % 3}.2/24",
            },
            f"10.0.0.{n + 1}/24",
        )
        for n in range(3)
    }
    assert env_of(facts) == {
        f"spark-{n}": env(
            f"GLOO_SOCKET_IFNAME=enP7s7 MN_IF_NAME=enP7s7 OMPI_MCA_btl_tcp_if_include=enP7s7 TP_SOCKET_IFNAME=enP7s7 NODE_IP=10.0.0.{n}"
            " NCCL_NET=IB NCCL_IB_DISABLE=0 NCCL_CROSS_NIC=1 NCCL_IGNORE_CPU_AFFINITY=1 NCCL_SOCKET_IFNAME=enP7s7"
            " NCCL_IB_HCA=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1"
            " UCX_NET_DEVICES=rocep1s0f0:1,rocep1s0f1:1,roceP2p1s0f0:1,roceP2p1s0f1:1"
            " NCCL_NET_PLUGIN=none NCCL_IB_SUBNET_AWARE_ROUTING=1 NCCL_IB_MERGE_NICS=0"
        )
        for n in (1, 2, 3)
    }


def test_four_sparks_on_a_switch() -> None:
    facts = {
        f"spark-{n}": spark({"enp1s0f1np1": f"192.168.11.{n}/24", "enP2p1s0f1np1": f"192.168.12.{n}/24"}, f"10.0.0.{n}/24")
        for n in (1, 2, 3, 4)
    }
    assert env_of(facts) == {
        f"spark-{n}": env(
            f"GLOO_SOCKET_IFNAME=enP7s7 MN_IF_NAME=enP7s7 OMPI_MCA_btl_tcp_if_include=enP7s7 TP_SOCKET_IFNAME=enP7s7 NODE_IP=10.0.0.{n}"
            " NCCL_NET=IB NCCL_IB_DISABLE=0 NCCL_CROSS_NIC=1 NCCL_IGNORE_CPU_AFFINITY=1 NCCL_IB_GID_INDEX=3"
            " NCCL_SOCKET_IFNAME=enP7s7,enp1s0f1np1,enP2p1s0f1np1 NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1"
            " UCX_NET_DEVICES=rocep1s0f1:1,roceP2p1s0f1:1"
        )
        for n in (1, 2, 3, 4)
    }


def test_sparks_on_wifi_given_by_fabric_address() -> None:
    def wifi_spark(n: int) -> FabricFacts:
        (low, low_dev, low_pci), _, (high, high_dev, high_pci), _ = SPARK_PORTS
        ports = (port(low, low_dev, f"192.168.11.{n}/24", pci=low_pci), port(high, high_dev, f"192.168.12.{n}/24", pci=high_pci))
        return network(ports, interface("wlP9s9", f"10.8.0.{n}/24", wireless=True), route="wlP9s9", ssh=f"192.168.11.{n}")

    assert env_of({f"192.168.11.{n}": wifi_spark(n) for n in (1, 2)}) == {
        f"192.168.11.{n}": env(
            "GLOO_SOCKET_IFNAME=enp1s0f0np0 MN_IF_NAME=enp1s0f0np0 OMPI_MCA_btl_tcp_if_include=enp1s0f0np0 TP_SOCKET_IFNAME=enp1s0f0np0"
            f" NODE_IP=192.168.11.{n} NCCL_NET=IB NCCL_IB_DISABLE=0 NCCL_CROSS_NIC=1 NCCL_IGNORE_CPU_AFFINITY=1 NCCL_IB_GID_INDEX=3"
            " NCCL_SOCKET_IFNAME=enp1s0f0np0,enP2p1s0f0np0 NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0"
            " UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1"
        )
        for n in (1, 2)
    }


def test_sparks_without_a_fabric_cable() -> None:
    facts = {f"10.0.0.{n}": spark({}, f"10.0.0.{n}/24") for n in (1, 2)}
    assert env_of(facts) == {
        f"10.0.0.{n}": env(
            "GLOO_SOCKET_IFNAME=enP7s7 MN_IF_NAME=enP7s7 OMPI_MCA_btl_tcp_if_include=enP7s7 TP_SOCKET_IFNAME=enP7s7"
            f" NCCL_SOCKET_IFNAME=enP7s7 NODE_IP=10.0.0.{n}"
        )
        for n in (1, 2)
    }


def test_one_spark_on_its_own_needs_none_of_it() -> None:
    assert env_of({"10.0.0.1": spark({"enp1s0f0np0": "192.168.11.1/24"})}) == {"10.0.0.1": {}}
