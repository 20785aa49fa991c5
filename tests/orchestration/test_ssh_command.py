from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.errors import ConfigError
from sparkrun.orchestration.primitives import build_ssh_kwargs
from sparkrun.orchestration.ssh_command import Connection, SshSettings, build_config_cmd, build_ssh_cmd, fast_first
from sparkrun.orchestration.ssh_errors import parse_ssh_config

NO_CONFIG = ("-F", "/dev/null")
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh on this machine")


def as_ssh_reads(host: str, chosen: SshSettings, connection: Connection = Connection()) -> dict[str, tuple[str, ...]]:
    """What the real ssh makes of our words."""
    words = build_ssh_cmd(host, chosen, connection)
    told = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, text=True, check=True)
    return parse_ssh_config(told.stdout)


@needs_ssh
@settings(max_examples=25, deadline=None)
@given(
    host=st.sampled_from(["spark-1", "10.0.0.2", "fd00::5", "host.example.org"]),
    user=st.none() | st.from_regex(r"[a-z][a-z0-9._-]{0,12}", fullmatch=True),
    port=st.none() | st.integers(1, 65535),
)
def test_ssh_reads_host_user_and_port_as_they_were_named(host: str, user: str | None, port: int | None) -> None:
    name = f"[{host}]" if ":" in host and port else host
    text = f"{f'{user}@' if user else ''}{name}{f':{port}' if port else ''}"
    read = as_ssh_reads(text, SshSettings(user="of-the-cluster", options=NO_CONFIG))
    assert (read["hostname"], read["user"], read["port"]) == ((host,), (user or "of-the-cluster",), (str(port or 22),))


@needs_ssh
def test_a_session_asks_nobody_forwards_nothing_and_notices_a_frozen_host() -> None:
    read = as_ssh_reads("spark-1", SshSettings(options=NO_CONFIG), Connection(connect_timeout_s=3))
    assert {key: read[key][0] for key in ("batchmode", "connecttimeout", "serveraliveinterval", "serveralivecountmax", "requesttty")} == {
        "batchmode": "yes",
        "connecttimeout": "3",
        "serveraliveinterval": "5",
        "serveralivecountmax": "3",
        "requesttty": "false",
    }
    assert (read["clearallforwardings"], read["forwardx11"], read["loglevel"]) == (("yes",), ("no",), ("INFO",))


@needs_ssh
def test_what_the_user_says_wins_over_what_we_would_choose() -> None:
    options = (*NO_CONFIG, "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=60", "-o", "StrictHostKeyChecking=accept-new")
    read = as_ssh_reads("spark-1", SshSettings(options=options))
    assert (read["connecttimeout"], read["serveraliveinterval"], read["stricthostkeychecking"]) == (("30",), ("60",), ("accept-new",))


@needs_ssh
def test_host_keys_are_judged_as_the_users_own_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host *\n  StrictHostKeyChecking accept-new\n")
    read = as_ssh_reads("spark-1", SshSettings(options=("-F", str(tmp_path / "config"))))
    assert read["stricthostkeychecking"] == ("accept-new",)


@needs_ssh
def test_large_data_takes_the_given_ciphers_and_shares_nothing(tmp_path: Path) -> None:
    ciphers = ("aes128-gcm@openssh.com", "aes256-ctr")
    read = as_ssh_reads("spark-1", SshSettings(options=NO_CONFIG), Connection(ciphers=ciphers))
    assert (read["ciphers"], read["controlmaster"], read["compression"]) == ((",".join(ciphers),), ("false",), ("no",))
    assert "controlpath" not in read


def test_a_connection_is_shared_only_where_a_socket_is_named() -> None:
    assert "ControlPath=none" in build_ssh_cmd("spark-1", SshSettings())
    assert {"ControlMaster=auto", "ControlPath=/run/s"} <= set(build_ssh_cmd("spark-1", SshSettings(), Connection(socket="/run/s")))


def test_asking_ssh_for_its_settings_differs_by_one_word() -> None:
    words = build_config_cmd("spark-1", SshSettings())
    assert [word for word in words if word != "-G"] == build_ssh_cmd("spark-1", SshSettings())


def test_a_connect_limit_is_never_nothing() -> None:
    assert "ConnectTimeout=1" in build_ssh_cmd("spark-1", SshSettings(), Connection(connect_timeout_s=0.2))


@given(st.lists(st.sampled_from(["aes256-gcm@openssh.com", "aes128-gcm@openssh.com", "aes128-ctr", "chacha20"]), unique=True))
def test_the_fastest_ciphers_come_first_and_none_is_added_or_lost(allowed: list[str]) -> None:
    chosen = fast_first(allowed)
    assert sorted(chosen) == sorted(allowed)
    gcm = [cipher for cipher in chosen if "gcm" in cipher]
    assert list(chosen[: len(gcm)]) == sorted(gcm)
    assert [cipher for cipher in chosen if "gcm" not in cipher] == [cipher for cipher in allowed if "gcm" not in cipher]


def config(env: dict[str, str], text: str) -> SparkrunConfig:
    path = Path(env["HOME"]) / ".config/sparkrun/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return SparkrunConfig.load(env)


def test_the_settings_of_a_user(env: dict[str, str]) -> None:
    found = build_ssh_kwargs(config(env, "ssh: {user: dgx, key: ~/.ssh/spark, options: ['-o', 'A=b c'], max_parallel_ssh: 5}"))
    assert found == SshSettings(user="dgx", key=f"{env['HOME']}/.ssh/spark", options=("-o", "A=b c"), max_parallel=5)


def test_options_in_one_text_are_split_as_a_shell_would(env: dict[str, str]) -> None:
    assert build_ssh_kwargs(config(env, "ssh: {options: \"-o A=b -o 'C=d e'\"}")).options == ("-o", "A=b", "-o", "C=d e")


def test_options_with_an_open_quote_are_told_with_their_file(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml: ssh\.options .* no closing quotation"):
        build_ssh_kwargs(config(env, 'ssh: {options: "-o \'A=b"}'))


def test_the_user_of_a_cluster_wins_over_the_settings(env: dict[str, str]) -> None:
    assert build_ssh_kwargs(config(env, "ssh: {user: dgx}"), user="root").user == "root"


def test_nonsense_in_the_settings_is_a_warning(env: dict[str, str]) -> None:
    loaded = config(env, "ssh: {max_parallel_ssh: many}")
    assert (build_ssh_kwargs(loaded).max_parallel, len(loaded.warnings)) == (20, 1)


def test_a_host_s_own_user_wins_over_that_of_single_hosts_and_that_over_everybody_s() -> None:
    settings = SshSettings(user="all", users={"a": "one"})
    assert [build_ssh_cmd(host, settings)[4] for host in ("me@a", "a", "b")] == ["me", "one", "all"]
