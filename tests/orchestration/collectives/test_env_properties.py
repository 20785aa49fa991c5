"""What holds for the environments of any wiring."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkrun.core.backend_select import BackendBundle
from sparkrun.core.fabric import FabricFacts, FabricOptions, UsedPort, select_fabric
from sparkrun.orchestration.collectives import get_backend, node_env
from sparkrun.runtimes._cluster_ops import resolve_comm_env
from tests.core.fabric.topologies import Networks, any_networks

MANY = settings(max_examples=50, deadline=None)
ADDRESS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
NAME = re.compile(r"\bh[0-9]+[xfm][0-9]*\b")


def owned(facts: FabricFacts) -> set[str]:
    """Every name and address that is this host's."""
    names = {port.hca for port in facts.ports} | {each.name for each in facts.interfaces}
    return names | {own.address for each in facts.interfaces for own in each.addresses}


def mentioned(env: dict[str, str]) -> Iterator[str]:
    for value in env.values():
        yield from ADDRESS.findall(value)
        yield from NAME.findall(value)


def index_of(used: UsedPort) -> int | None:
    """Where the RoCE v2 entry of the port's address is; written without a look at the code."""
    digits = "".join(f"{int(part):02x}" for part in used.address.split("."))
    found = [
        index for index, gid in used.port.gids.items() if gid.type == "RoCE v2" and gid.address.replace(":", "").endswith(f"ffff{digits}")
    ]
    return found[0] if found else None


@MANY
@given(any_networks(), st.sampled_from(["nvidia", "amd", "intel"]), st.booleans())
def test_nothing_of_one_host_is_in_anothers_environment(facts: Networks, vendor: str, over_fabric: bool) -> None:
    fabric = select_fabric(facts, FabricOptions(bootstrap_over_fabric=over_fabric))
    envs = resolve_comm_env(fabric, {}, {host: BackendBundle(vendor) for host in facts})
    for host, env in envs.items():
        said = set(mentioned({**env, **node_env(fabric.hosts[host])}))
        assert said
        assert said <= owned(facts[host])


@MANY
@given(any_networks())
def test_every_device_that_nccl_is_given_reaches_its_peers(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for host, env in resolve_comm_env(fabric, {}, {}).items():
        used = {each.port.hca: each for each in fabric.hosts[host].used}
        names = [name.partition(":")[0] for name in env.get("NCCL_IB_HCA", "").removeprefix("=").split(",") if name]
        assert set(names) == set(used)
        assert all(used[name].reaches for name in names)
        assert ("NCCL_IB_HCA" in env) == (env.get("NCCL_NET") == "IB")


@MANY
@given(any_networks())
def test_the_gid_index_is_pinned_only_where_all_devices_agree(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for host, env in resolve_comm_env(fabric, {}, {}).items():
        indices = {index_of(each) for each in fabric.hosts[host].used}
        agreed = indices.pop() if len(indices) == 1 and fabric.topology in ("direct", "switch") else None
        assert env.get("NCCL_IB_GID_INDEX") == (None if agreed is None else str(agreed))


@MANY
@given(any_networks())
def test_sockets_never_leave_by_an_interface_that_is_not_up_to_it(facts: Networks) -> None:
    fabric = select_fabric(facts)
    for host, env in resolve_comm_env(fabric, {}, {}).items():
        names = env["NCCL_SOCKET_IFNAME"].removeprefix("=").split(",")
        allowed = {each.port.netdev for each in fabric.hosts[host].used} if fabric.topology in ("direct", "switch") else set()
        assert names[0] == env["GLOO_SOCKET_IFNAME"]
        assert set(names[1:]) == allowed - {names[0]}
        assert "lo" not in names


@MANY
@given(any_networks())
def test_every_value_is_one_word(facts: Networks) -> None:
    for env in resolve_comm_env(select_fabric(facts), {}, {}).values():
        assert all(value and not re.search(r"\s", value) for value in env.values())


@MANY
@given(any_networks(), st.dictionaries(st.sampled_from(["NCCL_NET", "NCCL_IB_HCA", "NODE_IP", "GLOO_SOCKET_IFNAME"]), st.just("mine")))
def test_no_variable_of_the_users_is_set(facts: Networks, said: dict[str, str]) -> None:
    assert not any(said.keys() & env.keys() for env in resolve_comm_env(select_fabric(facts), said, {}).values())


def test_a_host_without_a_known_vendor_is_served_like_nvidias() -> None:
    assert get_backend(None) is get_backend("nvidia")
