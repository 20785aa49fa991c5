"""Which hosts share a cache."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.shared_caches import groups_of

NAS = "net:nfs4:nas:/hf:128"
ONE, TWO = "1" * 32, "2" * 32


def local(host: str, inode: int = 7) -> str:
    return f"local:boot-of-{host}:259:2:{inode}"


def test_hosts_that_mount_the_same_folder_share_it() -> None:
    assert groups_of({"a": NAS, "b": local("b"), "c": NAS}) == (("a", "c"), ("b",))


def test_local_disks_are_never_shared_between_kernels_whatever_their_markers_say() -> None:
    assert groups_of({"a": f"{local('a')} {ONE}", "b": f"{local('b')} {ONE}"}) == (("a",), ("b",))


def test_what_runs_under_one_kernel_shares_a_folder() -> None:
    assert groups_of({"a": local("x"), "b": local("x"), "c": local("x", 8)}) == (("a", "b"), ("c",))


def test_the_server_of_a_share_is_known_by_the_marker() -> None:
    assert groups_of({"server": f"{local('server')} {ONE}", "client": f"{NAS} {ONE}"}) == (("server", "client"),)


def test_two_names_of_one_server_are_joined_by_the_marker() -> None:
    assert groups_of({"a": f"net:nfs4:nas:/hf:128 {ONE}", "b": f"net:nfs4:10.0.0.9:/:128 {ONE}", "c": f"net:nfs4:other:/hf:1 {TWO}"}) == (
        ("a", "b"),
        ("c",),
    )


def test_a_copy_of_the_servers_disk_leaves_it_open_who_the_server_is() -> None:
    ids = {"server": f"{local('server')} {ONE}", "copy": f"{local('copy')} {ONE}", "client": f"{NAS} {ONE}"}

    assert groups_of(ids) == (("server",), ("copy",), ("client",))


def test_a_share_of_the_hosts_own_is_told_by_its_marker_alone() -> None:
    own = "net:nfs4:localhost:/export:5"

    assert groups_of({"a": own, "b": own}) == (("a",), ("b",))
    assert groups_of({"a": f"{own} {ONE}", "b": f"{own} {ONE}"}) == (("a", "b"),)


def test_a_cache_that_nobody_could_tell_is_alone() -> None:
    assert groups_of({"a": "", "b": ""}) == (("a",), ("b",))


def test_a_blank_in_a_source_is_no_marker() -> None:
    assert groups_of({"a": "net:cifs://nas/my models:9", "b": "net:cifs://nas/my models:9"}) == (("a", "b"),)


IDS = st.builds(
    lambda place, marker: f"{place} {marker}".strip(),
    st.sampled_from([NAS, "net:nfs4:10.0.0.9:/:128", local("a"), local("b"), "net:nfs:localhost:/x:1", ""]),
    st.sampled_from(["", ONE, TWO]),
)


@given(st.dictionaries(st.sampled_from("abcdefgh"), IDS))
def test_every_host_is_in_one_group_and_the_order_of_hosts_does_not_matter(ids: dict[str, str]) -> None:
    groups = groups_of(ids)

    assert sorted(host for group in groups for host in group) == sorted(ids)
    assert {frozenset(group) for group in groups_of(dict(reversed(ids.items())))} == {frozenset(group) for group in groups}
