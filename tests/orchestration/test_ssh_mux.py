from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.orchestration.control_dir import choose_control_dir, fits_a_socket
from sparkrun.orchestration.ssh import FailureKind, SshSettings, explain_ssh_failure
from sparkrun.orchestration.ssh_mux import ControlSocket, find_socket
from sparkrun.orchestration.ssh_sessions import Session, run_sessions
from tests.orchestration.fake_master import FakeMaster
from tests.orchestration.fake_ssh import FakeSsh

Masters = Callable[..., FakeMaster]


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    return FakeSsh(tmp_path / "bin", monkeypatch)


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> SshSettings:
    folder = tmp_path_factory.mktemp("c")
    folder.chmod(0o700)
    return SshSettings(control_dir=str(folder))


@pytest.fixture
def connect(settings: SshSettings) -> Iterator[Masters]:
    """Open a shared connection to a host."""
    masters: list[FakeMaster] = []

    def open_one(host: str = "spark-1", does: str = "run") -> FakeMaster:
        masters.append(FakeMaster(path_of(host, settings), does))
        return masters[-1]

    yield open_one
    for master in masters:
        master.close()


def path_of(host: str, settings: SshSettings) -> str:
    found = find_socket(host, settings)
    assert found is not None
    return found.path


def test_an_open_connection_carries_scripts_without_another_ssh(ssh: FakeSsh, settings: SshSettings, connect: Masters) -> None:
    master = connect()
    results = run_sessions([Session("spark-1", f"echo {n}; echo e{n} >&2; exit {n}", 20) for n in range(5)], settings)
    assert [(each.returncode, each.stdout, each.stderr, each.began) for each in results] == [
        (n, f"{n}\n", f"e{n}\n", True) for n in range(5)
    ]
    assert (ssh.calls, master.commands) == ([], ["bash -s"] * 5)


def test_large_scripts_and_answers_pass_through(ssh: FakeSsh, settings: SshSettings, connect: Masters) -> None:
    connect()
    words = "x" * 500_000
    (result,) = run_sessions([Session("spark-1", f"echo {words}", 20)], settings)
    assert result.stdout == f"{words}\n"


def test_a_silent_connection_is_given_up_for_a_fresh_one_and_the_script_runs_once(
    ssh: FakeSsh, settings: SshSettings, connect: Masters, tmp_path: Path
) -> None:
    master = connect(does="freeze")
    (result,) = run_sessions([Session("spark-1", f"echo ran >>{tmp_path}/runs; echo ok", 20, connect_timeout_s=0.6)], settings)
    assert (result.stdout, (tmp_path / "runs").read_text()) == ("ok\n", "ran\n")
    assert (len(master.commands), len(ssh.calls)) == (1, 1)
    assert not os.path.lexists(path_of("spark-1", settings))


@pytest.mark.parametrize("does", ["vanish", "refuse", "other version"])
def test_a_connection_that_will_not_carry_a_session_is_passed_by(ssh: FakeSsh, settings: SshSettings, connect: Masters, does: str) -> None:
    connect(does=does)
    (result,) = run_sessions([Session("spark-1", "echo once", 20)], settings)
    assert (result.stdout, len(ssh.calls)) == ("once\n", 1)


def test_a_connection_with_too_many_sessions_stays_for_those_it_has(ssh: FakeSsh, settings: SshSettings, connect: Masters) -> None:
    connect(does="refuse")
    run_sessions([Session("spark-1", "true", 20)], settings)
    assert os.path.lexists(path_of("spark-1", settings))
    assert "ControlPath=none" in ssh.calls[0]


def test_a_host_that_froze_behind_its_connection_is_unknown_at_the_connect_deadline(
    ssh: FakeSsh, settings: SshSettings, connect: Masters
) -> None:
    connect(does="freeze")
    ssh.host("spark-1", "exec sleep 300")
    (result,) = run_sessions([Session("spark-1", "true", 20, connect_timeout_s=0.4)], settings)
    failure = explain_ssh_failure(result)
    assert failure is not None
    assert (failure.kind, result.unreachable, result.limit_s) == (FailureKind.TIMED_OUT, True, 0.4)


def test_leaving_a_stream_closes_the_session_on_the_host(ssh: FakeSsh, settings: SshSettings, connect: Masters, tmp_path: Path) -> None:
    connect()
    os.mkfifo(tmp_path / "ended")

    def leave(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sessions([Session("spark-1", f"echo up; read -r _; echo gone >{tmp_path}/ended; exit", 20, on_line=leave)], settings)
    assert (tmp_path / "ended").read_text() == "gone\n"


def test_two_hosts_users_or_settings_never_share_a_socket(settings: SshSettings) -> None:
    other_key = SshSettings(control_dir=settings.control_dir, key="/k")
    other_user = SshSettings(control_dir=settings.control_dir, user="u")
    paths = [path_of(host, settings) for host in ("a", "b", "x@a", "a:23")] + [path_of("a", other_key), path_of("a", other_user)]
    assert len(set(paths)) == len(paths)
    assert path_of("a", settings) == paths[0]


def test_a_socket_that_another_replaced_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.touch()
    found = ControlSocket(str(path))
    (tmp_path / "new").touch()
    (tmp_path / "new").rename(path)
    found.discard()
    assert path.exists()


def test_the_folder_for_sockets_is_made_private(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("r") / "sparkrun-1"
    assert find_socket("a", SshSettings(control_dir=str(folder))) is not None
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_first_place_with_a_short_path_is_chosen(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    assert choose_control_dir({"XDG_RUNTIME_DIR": str(long)}) == f"/tmp/sparkrun-{os.getuid()}"
    assert choose_control_dir({"XDG_RUNTIME_DIR": "/no/such/folder", "TMPDIR": "/dev/shm"}) == f"/dev/shm/sparkrun-{os.getuid()}"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=90))
def test_a_folder_that_fits_leaves_room_for_the_name_ssh_binds_first(name: str) -> None:
    folder = f"/{name}"
    longest = len(f"{folder}/".encode()) + 16 + len(".0123456789abcdef")
    assert fits_a_socket(folder) == (longest < 104)  # sizeof sun_path on macOS, with the byte that ends it
