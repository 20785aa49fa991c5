"""The network between hosts, as programs see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkrun import api
from sparkrun.core.errors import ConfigError, HostsError
from sparkrun.core.fabric import parse_fabric
from sparkrun.core.values import ConfigValue
from sparkrun.testing import FakeCluster
from sparkrun.utils.shell import Section
from tests.core.fabric.answers import answers_of
from tests.core.fabric.hosts import interface, network, spark

UP, LOW = "enp1s0f0np0", "enP2p1s0f0np0"


def sparks(root: Path, count: int) -> FakeCluster:
    """Sparks on a switch, by the addresses of their management network."""
    fake = FakeCluster(*(f"10.0.0.{n}" for n in range(1, count + 1)), root=root)
    for n, host in enumerate(fake.hosts, start=1):
        fake[host].gpus = 1
        fake[host].fabric = answers_of(spark({UP: f"192.168.11.{n}/24", LOW: f"192.168.12.{n}/24"}, f"10.0.0.{n}/24"))
    return fake


@pytest.fixture
def two(tmp_path: Path) -> FakeCluster:
    return sparks(tmp_path / "home", 2)


def seen(fake: FakeCluster) -> api.FabricReport:
    return api.fabric(api.HostOptions(fake.hosts), sctx=fake.sctx)


def test_what_a_host_answers_is_what_is_read() -> None:
    facts = spark({UP: "192.168.11.1/24", LOW: ""})

    assert parse_fabric(Section("FABRIC", tuple(answers_of(facts).items()), complete=True)) == facts


def test_the_wiring_of_two_hosts_is_told_port_by_port(two: FakeCluster) -> None:
    report = seen(two)

    assert (report.topology, report.cluster, report.origin) == ("direct", None, "--hosts")
    first = report.hosts[0]
    assert (first.host, first.collective, first.bootstrap_interface, first.bootstrap_address) == ("10.0.0.1", "nccl", "enP7s7", "10.0.0.1")
    assert [(port.hca, port.used, port.address, port.gid_index, port.reaches, port.reason) for port in first.ports] == [
        ("rocep1s0f0", True, "192.168.11.1", 3, ("10.0.0.2",), None),
        ("rocep1s0f1", False, None, None, (), "its link is DOWN"),
        ("roceP2p1s0f0", True, "192.168.12.1", 3, ("10.0.0.2",), None),
        ("roceP2p1s0f1", False, None, None, (), "its link is DOWN"),
    ]
    assert [(link.port, link.peer_port, link.subnet) for link in report.links] == [
        ("rocep1s0f0:1", "rocep1s0f0:1", "192.168.11.0/24"),
        ("roceP2p1s0f0:1", "roceP2p1s0f0:1", "192.168.12.0/24"),
    ]
    assert (report.notes, report.unreachable) == ((), ())


def test_each_host_gets_the_environment_that_a_launch_would_give_it(two: FakeCluster) -> None:
    first, second = seen(two).hosts

    assert first.env["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert (first.env["NODE_IP"], second.env["NODE_IP"]) == ("10.0.0.1", "10.0.0.2")
    assert list(first.env) == sorted(first.env)


def test_looking_takes_one_round_trip_a_host(two: FakeCluster) -> None:
    seen(two)

    assert two.round_trips == 2
    assert {call.name for host in two.hosts for call in two[host].ran} == {"observe"}


def test_a_host_that_does_not_answer_is_named_and_the_others_are_told_without_it(tmp_path: Path) -> None:
    three = sparks(tmp_path / "home", 3)
    three["10.0.0.3"].reachable = False

    report = seen(three)

    assert [host.host for host in report.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert report.topology == "direct"
    assert [(silent.host, "no route to host" in silent.reason) for silent in report.unreachable] == [("10.0.0.3", True)]


def test_a_cluster_gives_its_wiring_and_what_it_sets_is_left_to_it(two: FakeCluster) -> None:
    values: dict[str, ConfigValue] = {
        "hosts": [*two.hosts],
        "topology": "ring",
        "fabric_interfaces": ["enp*np0"],
        "env": {"NCCL_IB_HCA": "mine", "FOO": "1"},
    }
    api.create_cluster("lab", api.ClusterEdit(values=values), sctx=two.sctx)

    report = api.fabric(api.HostOptions(cluster="lab"), sctx=two.sctx)

    assert report.cluster == "lab"
    first = report.hosts[0]
    assert [port.name for port in first.ports if port.used] == ["rocep1s0f0:1"]
    assert first.ports[2].reason == "fabric_interfaces (enp*np0) leaves it out"
    assert (first.left_out, "NCCL_IB_HCA" in first.env, "FOO" in first.env) == (("NCCL_IB_HCA",), False, False)
    assert "the cluster says topology ring, the addresses say direct; the addresses are followed" in report.notes


def test_a_cluster_that_turns_rdma_off_has_nothing_set_that_names_it(two: FakeCluster) -> None:
    values: dict[str, ConfigValue] = {"hosts": [*two.hosts], "env": {"NCCL_IB_DISABLE": "1"}}
    api.create_cluster("lab", api.ClusterEdit(values=values), sctx=two.sctx)

    first = api.fabric(api.HostOptions(cluster="lab"), sctx=two.sctx).hosts[0]

    assert {"NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET"} <= set(first.left_out)
    assert not set(first.left_out) & set(first.env)


def test_an_env_of_the_cluster_that_cannot_be_put_in_full_is_an_error(two: FakeCluster) -> None:
    values: dict[str, ConfigValue] = {"hosts": [*two.hosts], "env": {"T": "${MISSING}"}}
    api.create_cluster("lab", api.ClusterEdit(values=values), sctx=two.sctx)

    with pytest.raises(ConfigError, match="MISSING"):
        api.fabric(api.HostOptions(cluster="lab"), sctx=two.sctx)


def test_what_is_odd_about_a_machine_is_told(two: FakeCluster) -> None:
    two["10.0.0.2"].fabric = answers_of(network((), interface("enP7s7", "10.0.0.2/24"), route="enP7s7"))

    report = seen(two)

    assert report.hosts[1].warnings == ("10.0.0.2: no RoCE v2 (no RDMA device); traffic between nodes would use the management network",)
    assert report.topology == "none"
    assert report.hosts[0].env["NCCL_IB_DISABLE"] == "1"


def test_a_host_alone_uses_nothing(two: FakeCluster) -> None:
    report = api.fabric(api.HostOptions(("10.0.0.1",)), sctx=two.sctx)

    assert (report.topology, report.links, report.hosts[0].env) == ("none", (), {})
    assert {port.reason for port in report.hosts[0].ports} == {"one host needs no fabric"}


def test_without_hosts_there_is_nothing_to_look_at(two: FakeCluster) -> None:
    with pytest.raises(HostsError, match="no hosts specified"):
        api.fabric(sctx=two.sctx)


def test_the_json_is_versioned_and_plain(two: FakeCluster) -> None:
    data = json.loads(json.dumps(seen(two).to_json()))

    assert data["schema"] == "sparkrun.fabric/1"
    assert data["links"][0] == {
        "host": "10.0.0.1",
        "port": "rocep1s0f0:1",
        "netdev": UP,
        "peer": "10.0.0.2",
        "peer_port": "rocep1s0f0:1",
        "peer_netdev": UP,
        "subnet": "192.168.11.0/24",
    }
    assert data["hosts"][0]["ports"][1]["reason"] == "its link is DOWN"
    assert data["unreachable"] == []
