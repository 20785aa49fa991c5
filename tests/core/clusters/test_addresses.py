"""How hosts are named."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.core.cluster_manager import HostAddress, machine_key, parse_host, parse_hosts
from sparkrun.core.errors import UsageError

NAMES = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=12).filter(
    lambda text: text[0] in string.ascii_letters + "_" and not text.replace(".", "").isdigit()
)
USERS = st.text(string.ascii_lowercase + string.digits + "_-", min_size=1, max_size=8).filter(lambda text: text[0] != "-")
HOSTS = st.one_of(NAMES, st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str))
ADDRESSES = st.builds(HostAddress, HOSTS, st.none() | USERS, st.none() | st.integers(1, 65535))


@pytest.mark.parametrize("texts", [["a,b"], ["a, b"], ["a,b,"], ["a", "b"], [" a\tb\n"], [",a,,b"]])
def test_every_spelling_of_two_hosts_is_two_hosts(texts: list[str]) -> None:
    assert parse_hosts(texts) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("spark-1", HostAddress("spark-1")),
        ("dgx@spark-1:2222", HostAddress("spark-1", "dgx", 2222)),
        ("[fe80::1%eth0]:22", HostAddress("fe80::1%eth0", None, 22)),
        ("[::1]", HostAddress("::1")),
        ("dgx@fd00::5", HostAddress("fd00::5", "dgx")),
        ("10.0.0.1:22", HostAddress("10.0.0.1", None, 22)),
        ("spark_1.lan.", HostAddress("spark_1.lan.")),
        ("höst", HostAddress("höst")),
    ],
)
def test_a_host_is_taken_apart(text: str, address: HostAddress) -> None:
    assert parse_host(text) == address


@given(ADDRESSES)
def test_an_address_written_out_is_read_back(address: HostAddress) -> None:
    assert parse_host(str(address)) == address


@given(st.lists(ADDRESSES, max_size=6, unique_by=lambda address: machine_key(str(address))), st.sampled_from([",", ", ", " ", "\n", ",\t"]))
def test_a_list_written_out_is_read_back(addresses: list[HostAddress], between: str) -> None:
    texts = tuple(map(str, addresses))

    assert parse_hosts([between.join(texts)]) == texts


@pytest.mark.parametrize(
    "text",
    [
        "-oProxyCommand=x",
        "user@-x",
        "a;reboot",
        "$(id)",
        "a b",
        "a:b",
        "a:",
        "@a",
        "a@",
        "[a]:22",
        "[::1",
        "1::2::3",
        "10.0.0.300",
        "10.0.0",
        "a/b",
        "",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        parse_host(text)


def test_a_leading_dash_is_named_as_the_reason() -> None:
    with pytest.raises(UsageError, match="cannot begin with '-'"):
        parse_hosts(["a,-b"])


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_out_of_range_is_refused(port: str) -> None:
    with pytest.raises(UsageError, match=f"port {port} is not between 1 and 65535"):
        parse_host(f"a:{port}")


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["a,b,a"], "host given twice: a"),
        (["a", "A"], "a and A"),
        (["a,dgx@a"], "a and dgx@a"),
        (["a,a:22"], "a and a:22"),
        (["a,a."], "a and a."),
        (["localhost,127.0.0.1"], "localhost and 127.0.0.1"),
        (["fd00::1,[fd00:0::1]:22"], "fd00::1 and "),
    ],
)
def test_a_machine_named_twice_is_refused(texts: list[str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_hosts(texts)

    assert told in refused.value.message


def test_one_address_with_several_ssh_ports_is_several_machines() -> None:
    assert len(parse_hosts(["127.0.0.1:2201,127.0.0.1:2202"])) == 2
