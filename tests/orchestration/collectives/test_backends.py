"""The variables of each vendor's library."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkrun.core.backend_select import BackendBundle
from sparkrun.core.fabric import FabricFacts, FabricPort, HostFabric, select_fabric
from sparkrun.core.hardware import DEVICE_ACCESS
from sparkrun.orchestration.collectives import (
    HcclBackend,
    NcclBackend,
    RcclBackend,
    get_backend,
    node_env,
    split_shared,
)
from sparkrun.runtimes._cluster_ops import resolve_comm_env
from tests.core.fabric.hosts import interface, network, port, spark


def pair(*fabric: str, gid: int = 3, low_gid: int | None = None) -> dict[str, FabricFacts]:
    """Two servers with a port for each subnet (``192.168.1``) and a management interface."""
    made = {}
    for n in "12":
        ports = tuple(
            port(f"mlx5_{at}", f"fab{at}", f"{subnet}.{n}/24", pci=f"0{at}", gid=low_gid if at and low_gid else gid)
            for at, subnet in enumerate(fabric)
        )
        made[f"10.0.0.{n}"] = network(ports, interface("eth0", f"10.0.0.{n}/24"), route="eth0")
    return made


def first(facts: Mapping[str, FabricFacts]) -> HostFabric:
    return next(iter(select_fabric(facts).hosts.values()))


def test_gid_indices_that_differ_are_not_pinned() -> None:
    agreeing = NcclBackend().env(first(pair("192.168.1", "192.168.2")))
    differing = NcclBackend().env(first(pair("192.168.1", "192.168.2", gid=3, low_gid=5)))
    assert agreeing["NCCL_IB_GID_INDEX"] == "3"
    assert "NCCL_IB_GID_INDEX" not in differing
    assert differing["NCCL_IB_HCA"] == "mlx5_0,mlx5_1"


def test_a_port_whose_gid_is_unknown_pins_nothing() -> None:
    blind = FabricPort(hca="mlx5_0", netdev="fab0", state="ACTIVE", addresses=port("x", "y", "192.168.1.1/24").addresses)
    facts = {"a": network((blind,)), "b": network((port("mlx5_0", "fab0", "192.168.1.2/24"),))}
    assert "NCCL_IB_GID_INDEX" not in NcclBackend().env(first(facts))


def test_each_host_pins_its_own_index() -> None:
    facts = {**pair("192.168.1")}
    facts["10.0.0.2"] = pair("192.168.1", gid=7)["10.0.0.2"]
    hosts = select_fabric(facts).hosts.values()
    assert [NcclBackend().env(host)["NCCL_IB_GID_INDEX"] for host in hosts] == ["3", "7"]


def test_a_third_port_that_leads_nowhere_is_in_no_list() -> None:
    facts = {
        "a": network(
            (*pair("192.168.1", "192.168.2")["10.0.0.1"].ports, port("mlx5_2", "fab2", pci="02")), interface("eth0", "10.0.0.1/24")
        ),
        "b": network((*pair("192.168.1", "192.168.2")["10.0.0.2"].ports, port("mlx5_2", "fab2", "192.168.9.2/24", pci="02"))),
    }
    for host in select_fabric(facts).hosts.values():
        env = NcclBackend().env(host)
        assert env["NCCL_IB_HCA"] == "mlx5_0,mlx5_1"
        assert env["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
        assert "fab2" not in env.get("NCCL_SOCKET_IFNAME", "")
        assert any("mlx5_2 port 1 (fab2) is not used" in note for note in host.notes)


def test_a_name_that_begins_another_is_matched_exactly() -> None:
    facts = {
        n: network(
            (port("mlx5_1", "fab1", f"192.168.1.{n}/24"), port("mlx5_10", "fab10")), interface("eth0", f"10.0.0.{n}/24"), route="eth0"
        )
        for n in "12"
    }
    env = NcclBackend().env(first(facts))
    assert env["NCCL_IB_HCA"] == "=mlx5_1"
    assert env["NCCL_SOCKET_IFNAME"] == "=eth0,fab1"


def test_a_device_with_several_ports_is_named_with_the_port() -> None:
    facts = {
        n: network(
            (port("mlx4_0", "fab0", f"192.168.1.{n}/24"), port("mlx4_0", "fab1", f"192.168.2.{n}/24", number=2), port("mlx4_1", "fab2")),
        )
        for n in "12"
    }
    env = NcclBackend().env(first(facts))
    assert env["NCCL_IB_HCA"] == env["UCX_NET_DEVICES"] == "mlx4_0:1,mlx4_0:2"


def test_one_port_of_two_is_named_with_its_number() -> None:
    facts = {n: network((port("mlx4_0", "fab0", f"192.168.1.{n}/24", number=2), port("mlx4_0", "fab1"))) for n in "12"}
    assert NcclBackend().env(first(facts))["NCCL_IB_HCA"] == "mlx4_0:2"


def test_rdma_ports_that_do_not_lead_to_all_peers_are_switched_off() -> None:
    facts = {"a": spark({"enp1s0f0np0": "192.168.11.1/24"}, "10.0.0.1/24"), "b": spark({}, "10.0.0.2/24")}
    envs = resolve_comm_env(select_fabric(facts), {}, {})
    assert envs["a"]["NCCL_IB_DISABLE"] == "1"
    assert "NCCL_IB_DISABLE" not in envs["b"]
    assert all(env["NCCL_SOCKET_IFNAME"] == "enP7s7" and "NCCL_NET" not in env for env in envs.values())


def links(count: int, prefix: int) -> dict[str, FabricFacts]:
    """A ring whose link i is the i-th /``prefix`` of 192.168.0.0."""
    size = 1 << (32 - prefix)

    def at(number: int) -> str:
        return f"192.168.{number // 256}.{number % 256}/{prefix}"

    return {
        f"h{n}": network(
            (port("m0", "f0", at(n * size + 1), pci="0"), port("m1", "f1", at((n - 1) % count * size + 2), pci="1")),
            interface("eth0", f"10.0.0.{n + 1}/24"),
            route="eth0",
        )
        for n in range(count)
    }


def test_links_smaller_than_24_bits_are_told_apart() -> None:
    assert NcclBackend().env(first(links(3, 30)))["NCCL_IB_SUBNET_PREFIX_LEN"] == "30"
    assert "NCCL_IB_SUBNET_PREFIX_LEN" not in NcclBackend().env(first(links(3, 24)))


def test_only_a_ring_with_hosts_that_are_no_neighbours_is_kept_to_the_ring_algorithm() -> None:
    assert NcclBackend().env(first(links(4, 24)))["NCCL_ALGO"] == "Ring"
    assert "NCCL_ALGO" not in NcclBackend().env(first(links(3, 24)))


def test_no_index_is_pinned_in_a_ring() -> None:
    assert "NCCL_IB_GID_INDEX" not in NcclBackend().env(first(links(3, 24)))


def test_crossed_rails_choose_ports_by_subnet() -> None:
    facts = pair("192.168.1", "192.168.2")
    facts["10.0.0.2"] = pair("192.168.2", "192.168.1")["10.0.0.2"]
    env = NcclBackend().env(first(facts))
    assert env["NCCL_IB_SUBNET_AWARE_ROUTING"] == "1"
    assert "NCCL_NET_PLUGIN" not in env
    assert "NCCL_IB_SUBNET_AWARE_ROUTING" not in NcclBackend().env(first(pair("192.168.1", "192.168.2")))


def test_rccl_reads_nccls_names_and_adds_the_hsa_runtimes() -> None:
    host = first(pair("192.168.1"))
    added = {"HSA_FORCE_FINE_GRAIN_PCIE": "1", "HSA_NO_SCRATCH_RECLAIM": "1"}
    assert RcclBackend().env(host) == {**NcclBackend().env(host), **added}


def test_hccl_prepares_gaudi_direct_where_host_nics_join_all_hosts() -> None:
    env = HcclBackend().env(first(pair("192.168.1")))
    assert env == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0,fab0",
        "MLX5_SCATTER_TO_CQE": "0",
        "MN_IF_NAME": "eth0",
        "NODE_IP": "10.0.0.1",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "RDMAV_FORK_SAFE": "1",
        "TP_SOCKET_IFNAME": "eth0",
    }


def test_hccl_goes_over_tcp_without_a_fabric() -> None:
    env = HcclBackend().env(first(pair()))
    assert (env["HCCL_SOCKET_IFNAME"], env["HCCL_OVER_OFI"], env["FI_PROVIDER"]) == ("eth0", "1", "tcp")


def test_hccl_leaves_the_mode_to_gaudis_own_ports() -> None:
    gaudi = interface("acc0", driver="habanalabs")
    facts = {n: network((), interface("eth0", f"10.0.0.{n}/24"), gaudi, route="eth0") for n in "12"}
    env = HcclBackend().env(first(facts))
    assert env["HCCL_SOCKET_IFNAME"] == "eth0"
    assert not {"HCCL_OVER_OFI", "FI_PROVIDER"} & set(env)


@pytest.mark.parametrize(
    ("vendor", "name", "variable"),
    [("nvidia", "nccl", "CUDA_VISIBLE_DEVICES"), ("amd", "rccl", "ROCR_VISIBLE_DEVICES"), ("intel", "hccl", "HABANA_VISIBLE_MODULES")],
)
def test_every_vendor_has_its_library_and_its_devices(vendor: str, name: str, variable: str) -> None:
    assert get_backend(vendor).name == name
    assert DEVICE_ACCESS[vendor].visible((0, 2)) == {variable: "0,2"}
    assert DEVICE_ACCESS[vendor].visible(()) == {}


@pytest.mark.parametrize("vendor", [None, "", "apple"])
def test_a_vendor_without_a_library_gets_nccls(vendor: str | None) -> None:
    assert get_backend(vendor).name == "nccl"


def test_hosts_of_several_vendors_each_get_their_own() -> None:
    envs = resolve_comm_env(
        select_fabric(pair("192.168.1")), {}, {"10.0.0.1": BackendBundle("nvidia"), "10.0.0.2": BackendBundle("intel", "hccl")}
    )
    assert "NCCL_IB_HCA" in envs["10.0.0.1"]
    assert "HCCL_SOCKET_IFNAME" not in envs["10.0.0.1"]
    assert "HCCL_SOCKET_IFNAME" in envs["10.0.0.2"]
    assert not any(name.startswith("NCCL") for name in envs["10.0.0.2"])


def test_what_the_user_sets_is_left_to_the_user() -> None:
    fabric = select_fabric(pair("192.168.1"))
    said = {"NCCL_SOCKET_IFNAME": "bond0", "NCCL_DEBUG": "INFO"}
    for env in resolve_comm_env(fabric, said, {}).values():
        assert not said.keys() & env.keys()
        assert env["NCCL_NET"] == "IB"


@pytest.mark.parametrize("said", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_a_user_who_turns_rdma_off_gets_none_of_it(said: dict[str, str]) -> None:
    for env in resolve_comm_env(select_fabric(pair("192.168.1")), said, {}).values():
        assert not {name for name in env if name.startswith(("NCCL_IB", "NCCL_NET", "NCCL_CROSS", "UCX"))}
        assert env["NCCL_SOCKET_IFNAME"] == "eth0,fab0"


def test_every_node_tells_engines_its_own_address() -> None:
    hosts = select_fabric(pair()).hosts
    assert node_env(hosts["10.0.0.2"]) == {"NODE_IP": "10.0.0.2", "VLLM_HOST_IP": "10.0.0.2", "SGLANG_HOST_IP": "10.0.0.2"}
    assert node_env(select_fabric({"a": network(())}).hosts["a"]) == {}


def test_a_loopback_host_leaks_into_no_nodes_environment() -> None:
    facts = {
        "127.0.0.1": network((), interface("eth0", "10.1.1.1/24"), route="eth0"),
        "10.1.1.2": network((), interface("eth0", "10.1.1.2/24"), route="eth0"),
    }
    fabric = select_fabric(facts)
    envs = resolve_comm_env(fabric, {}, {})
    told = [
        *(value for env in envs.values() for value in env.values()),
        *(v for host in fabric.hosts.values() for v in node_env(host).values()),
    ]
    assert not [value for value in told if value.startswith("127.") or value in ("localhost", "::1", "lo")]
    assert node_env(fabric.hosts["127.0.0.1"])["VLLM_HOST_IP"] == "10.1.1.1"


def test_shared_variables_are_those_that_are_equal_everywhere() -> None:
    shared, per_host = split_shared({"a": {"X": "1", "Y": "1", "Z": "1"}, "b": {"X": "1", "Y": "2"}})
    assert shared == {"X": "1"}
    assert per_host == {"a": {"Y": "1", "Z": "1"}, "b": {"Y": "2"}}
    assert split_shared({}) == ({}, {})


def test_variables_are_sorted() -> None:
    env = NcclBackend().env(first(pair("192.168.1")))
    assert list(env) == sorted(env)
