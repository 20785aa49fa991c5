"""``sparkrun cluster fabric``: what people read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.cli.cluster_fabric import fabric
from sparkrun.cli.fabric_text import fabric_text
from sparkrun.testing import FakeCluster
from tests.cli.conftest import Said, State
from tests.core.fabric.answers import answers_of
from tests.core.fabric.hosts import interface, network, spark

Cli = Callable[..., Said]
UP, LOW = "enp1s0f0np0", "enP2p1s0f0np0"


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    fake = FakeCluster("10.0.0.1", "10.0.0.2", root=tmp_path / "home")
    for n, host in enumerate(fake.hosts, start=1):
        fake[host].gpus = 1
        fake[host].fabric = answers_of(spark({UP: f"192.168.11.{n}/24", LOW: f"192.168.12.{n}/24"}, f"10.0.0.{n}/24"))
    return fake


def text(fake: FakeCluster, *hosts: str) -> list[str]:
    return fabric_text(api.fabric(api.HostOptions(hosts or fake.hosts), sctx=fake.sctx)).splitlines()


def test_two_hosts_with_a_cable_between_them(two: FakeCluster) -> None:
    assert text(two) == [
        "Hosts from --hosts — 2 hosts, topology direct",
        "",
        "10.0.0.1: meets the other hosts at enP7s7 10.0.0.1; NCCL",
        "  PORT            INTERFACE      STATE   SPEED  ADDRESS          GID  USE",
        "  rocep1s0f0:1    enp1s0f0np0    ACTIVE  -      192.168.11.1/24  3    reaches 10.0.0.2",
        "  rocep1s0f1:1    enp1s0f1np1    DOWN    -      -                -    not used: its link is DOWN",
        "  roceP2p1s0f0:1  enP2p1s0f0np0  ACTIVE  -      192.168.12.1/24  3    reaches 10.0.0.2",
        "  roceP2p1s0f1:1  enP2p1s0f1np1  DOWN    -      -                -    not used: its link is DOWN",
        "",
        "10.0.0.2: meets the other hosts at enP7s7 10.0.0.2; NCCL",
        "  PORT            INTERFACE      STATE   SPEED  ADDRESS          GID  USE",
        "  rocep1s0f0:1    enp1s0f0np0    ACTIVE  -      192.168.11.2/24  3    reaches 10.0.0.1",
        "  rocep1s0f1:1    enp1s0f1np1    DOWN    -      -                -    not used: its link is DOWN",
        "  roceP2p1s0f0:1  enP2p1s0f0np0  ACTIVE  -      192.168.12.2/24  3    reaches 10.0.0.1",
        "  roceP2p1s0f1:1  enP2p1s0f1np1  DOWN    -      -                -    not used: its link is DOWN",
        "",
        "Links:",
        "  HOST      PORT            INTERFACE      PEER      PORT            INTERFACE      SUBNET",
        "  10.0.0.1  rocep1s0f0:1    enp1s0f0np0    10.0.0.2  rocep1s0f0:1    enp1s0f0np0    192.168.11.0/24",
        "  10.0.0.1  roceP2p1s0f0:1  enP2p1s0f0np0  10.0.0.2  roceP2p1s0f0:1  enP2p1s0f0np0  192.168.12.0/24",
        "",
        "Environment of every host:",
        "  GLOO_SOCKET_IFNAME=enP7s7",
        "  MN_IF_NAME=enP7s7",
        "  NCCL_CROSS_NIC=1",
        "  NCCL_IB_DISABLE=0",
        "  NCCL_IB_GID_INDEX=3",
        "  NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0",
        "  NCCL_IGNORE_CPU_AFFINITY=1",
        "  NCCL_NET=IB",
        "  NCCL_SOCKET_IFNAME=enP7s7,enp1s0f0np0,enP2p1s0f0np0",
        "  OMPI_MCA_btl_tcp_if_include=enP7s7",
        "  TP_SOCKET_IFNAME=enP7s7",
        "  UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1",
        "",
        "Environment of 10.0.0.1 alone:",
        "  NODE_IP=10.0.0.1",
        "",
        "Environment of 10.0.0.2 alone:",
        "  NODE_IP=10.0.0.2",
    ]


def test_a_port_that_is_up_and_not_used_is_told_once(two: FakeCluster) -> None:
    two["10.0.0.2"].fabric = answers_of(spark({UP: "192.168.11.2/24"}, "10.0.0.2/24"))

    said = "\n".join(text(two))

    assert said.count("no other host has a port in its subnet (192.168.12.1/24)") == 1
    assert "Note:" not in said


def test_notes_warnings_and_silent_hosts_come_last(two: FakeCluster) -> None:
    two["10.0.0.2"].fabric = answers_of(network((), interface("enP7s7", "10.0.0.2/24"), route="enP7s7"))

    lines = text(two, *two.hosts, "10.0.0.9")

    ways = "10.0.0.1: enP7s7 10.0.0.1, 10.0.0.2: enP7s7 10.0.0.2"
    note, warning, unknown, hint = lines[-4:]
    assert "  no RDMA device" in lines
    assert note == f"Note: no fabric joins all hosts; their traffic goes over the management network ({ways})"
    assert warning == "warning: 10.0.0.2: no RoCE v2 (no RDMA device); traffic between nodes would use the management network"
    assert unknown.startswith("Unknown: 10.0.0.9 (unreachable: ")
    assert hint.startswith("  hint: ")


def test_a_ring_is_told_in_its_order(tmp_path: Path) -> None:
    three = FakeCluster("a", "b", "c", root=tmp_path / "home")
    for n, host in enumerate(three.hosts):
        onward, back = f"192.168.{n + 1}.1/24", f"192.168.{n or 3}.2/24"
        three[host].fabric = answers_of(spark({UP: onward, "enp1s0f1np1": back}, f"10.0.0.{n + 1}/24"))

    assert text(three)[0] == "Hosts from --hosts — 3 hosts, topology ring (a, b, c)"


def test_a_host_alone_needs_no_network(two: FakeCluster) -> None:
    lines = text(two, "10.0.0.1")

    assert lines[2] == "10.0.0.1: alone, so it needs no network; NCCL"
    assert not [line for line in lines if "Environment" in line]


def test_what_the_cluster_sets_itself_is_named_without_its_value(two: FakeCluster) -> None:
    edit = api.ClusterEdit(values={"hosts": [*two.hosts], "env": {"NCCL_IB_HCA": "s3cret"}})
    api.create_cluster("lab", edit, sctx=two.sctx)

    lines = fabric_text(api.fabric(api.HostOptions(cluster="lab"), sctx=two.sctx)).splitlines()

    assert lines[0] == "Cluster: lab — 2 hosts, topology direct"
    assert lines[-1] == "Not set, because of the cluster's env: NCCL_IB_HCA"
    assert not [line for line in lines if "s3cret" in line]


def run(fake: FakeCluster, *words: str) -> int:
    code: int = fabric.main([*words], obj=State(fake), standalone_mode=False)
    return code


def test_the_command_succeeds_when_every_host_answers(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(two, "-H", "10.0.0.1,10.0.0.2", "--json") == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert json.loads(said)["topology"] == "direct"


def test_the_command_fails_when_a_host_does_not_answer(two: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    two["10.0.0.2"].reachable = False
    assert run(two, "-H", "10.0.0.1,10.0.0.2") == 1
    assert "Unknown: 10.0.0.2" in capsys.readouterr().out


def test_this_machine_can_be_looked_at(cli: Cli) -> None:
    said = cli("cluster", "fabric", "-H", "localhost")
    assert (said.code, said.out.splitlines()[0]) == (0, "Hosts from --hosts — 1 host, topology none")
