from __future__ import annotations

import itertools
import shlex
import socket
import threading
from pathlib import Path

import pytest

from sparkrun.core.events import Event, Script
from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.ssh import FailureKind, SshRunner, SshSettings, bulk_connection, explain_ssh_failure, run_remote_script
from sparkrun.orchestration.ssh_mux import find_socket
from sparkrun.orchestration.ssh_sessions import Session, Way, run_sessions, way_after
from sparkrun.utils.fanout import Finished
from sparkrun.utils.shell import parse_answers
from tests.orchestration.fake_ssh import FakeSsh

PLAIN = SshSettings()


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    return FakeSsh(tmp_path / "bin", monkeypatch)


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> SshSettings:
    folder = tmp_path_factory.mktemp("c")
    folder.chmod(0o700)
    return SshSettings(control_dir=str(folder))


def run(host: str, text: str, settings: SshSettings = PLAIN, *, timeout_s: float = 20) -> RemoteResult:
    return run_remote_script(host, text, settings, timeout_s=timeout_s)


def kind_of(result: RemoteResult) -> FailureKind | None:
    failure = explain_ssh_failure(result)
    return failure.kind if failure else None


def options_of(words: list[str]) -> list[str]:
    return [value for flag, value in itertools.pairwise(words) if flag == "-o"]


# --- one host ---


def test_a_script_runs_on_the_host_and_its_end_is_told(ssh: FakeSsh) -> None:
    result = run("spark-1", "echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert (result.connected, result.began, result.unreachable, result.timed_out, result.ok) == (True, True, False, False, False)
    assert ssh.calls[0][-4:] == ["--", "spark-1", "bash", "-s"]


def test_the_text_of_a_script_is_never_among_the_words_of_a_command(ssh: FakeSsh) -> None:
    assert run("spark-1", "echo hf_secret").stdout == "hf_secret\n"
    assert "hf_secret" not in (ssh.folder / "words").read_text()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", socket.gethostname()])
def test_this_machine_is_reached_without_ssh(ssh: FakeSsh, host: str) -> None:
    assert run(host, "echo here").stdout == "here\n"
    assert ssh.calls == []


@pytest.mark.parametrize("host", ["localhost:2222", "somebody-else@localhost"])
def test_another_port_or_user_of_this_machine_is_reached_by_ssh(ssh: FakeSsh, host: str) -> None:
    assert run(host, "echo there").stdout == "there\n"
    assert len(ssh.calls) == 1


def test_another_user_in_the_settings_goes_for_this_machine_too(ssh: FakeSsh) -> None:
    run("localhost", "true", SshSettings(user="somebody-else"))
    assert ssh.calls[0][2:5] == ["-l", "somebody-else", "-o"]


def test_this_machine_itself_is_reached_as_nobody_else_whoever_its_name_stands_for_among_hosts(ssh: FakeSsh) -> None:
    runner = SshRunner(SshSettings(user="dgx")).with_users({"localhost": "somebody"})
    lines: list[str] = []

    ended = (runner.run_here(ScriptCall("reach"), timeout_s=20), runner.stream_here(ScriptCall("reach"), lines.append, timeout_s=20))

    assert (all(result.ok for result in ended), lines, ssh.calls) == (True, ["SPARKRUN_REACH_START", "SPARKRUN_REACH_END"], [])


def test_what_login_files_print_is_not_in_the_answer(ssh: FakeSsh) -> None:
    ssh.host("spark-1", "echo 'Welcome to DGX'; echo KEY=value")
    assert run("spark-1", "echo KEY=true").stdout == "KEY=true\n"


def test_what_ssh_says_of_its_connection_is_not_the_error_of_a_script(ssh: FakeSsh) -> None:
    ssh.host("spark-1", "echo 'ControlSocket /tmp/x already exists, disabling multiplexing' >&2")
    result = run("spark-1", "echo 'no space left on device' >&2; exit 1")
    assert result.stderr == "no space left on device\n"


def test_a_host_whose_answer_is_canned_is_heard(ssh: FakeSsh) -> None:
    ssh.host("spark-1", "cat >/dev/null; echo KEY=canned; exit 0")
    result = run("spark-1", "echo KEY=real")
    assert (result.stdout, result.connected, result.began, result.ok) == ("KEY=canned\n", True, False, True)


# --- what goes wrong ---


def test_a_host_that_hangs_before_the_login_is_given_up_at_the_connect_deadline(ssh: FakeSsh) -> None:
    ssh.host("spark-1", "exec sleep 300")
    (result,) = run_sessions([Session("spark-1", "true", timeout_s=20, connect_timeout_s=0.2)], PLAIN)
    assert (result.unreachable, result.timed_out, result.connected, result.limit_s) == (True, True, False, 0.2)
    assert kind_of(result) is FailureKind.TIMED_OUT


def test_a_script_that_does_not_end_is_killed_at_its_deadline(ssh: FakeSsh) -> None:
    result = run("spark-1", "echo begun; exec sleep 300", timeout_s=0.5)
    assert (result.returncode, result.stdout, result.timed_out, result.unreachable, result.connected) == (-1, "begun\n", True, False, True)
    failure = explain_ssh_failure(result)
    assert failure is not None
    assert failure.message == "the script did not finish within 0.5 s"


def test_a_machine_without_ssh_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("spark-1", "true")
    assert (result.unreachable, kind_of(result)) == (True, FailureKind.NO_SSH)


def test_a_connection_that_breaks_off_is_not_the_failure_of_the_script(ssh: FakeSsh) -> None:
    ssh.host("spark-1", """bash -c "$*"; echo 'Connection to spark-1 closed by remote host.' >&2; exit 255""")
    result = run("spark-1", "echo begun")
    assert (result.unreachable, result.connected, kind_of(result)) == (True, True, FailureKind.LOST)


def test_a_denied_login_tells_who_was_refused_and_what_was_offered(ssh: FakeSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = tmp_path / "id_ed25519"
    key.touch()
    ssh.host("spark-1", "echo 'dgx@spark-1: Permission denied (publickey).' >&2; exit 255")
    ssh.config_of("spark-1", f"user dgx\nhostname 10.0.0.5\nport 22\nidentityfile {key}\nidentityfile {tmp_path}/missing\n")
    failure = explain_ssh_failure(run("spark-1", "true"))
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.PERMISSION_DENIED, f"permission denied for user dgx; offered: {key}")
    assert failure.hint is not None
    assert failure.hint.startswith(f"put the key there: ssh-copy-id -i {key} dgx@spark-1\n")


# --- many hosts ---


def test_results_come_in_the_order_of_the_hosts_and_one_that_hangs_delays_none(ssh: FakeSsh) -> None:
    ssh.host("off", "exec sleep 300")
    done: list[str] = []
    sessions = [
        Session(host, f"echo {host}; exit", timeout_s=20, connect_timeout_s=0.5, on_line=done.append)
        for host in ("off", "spark-1", "spark-2")
    ]
    results = run_sessions(sessions, SshSettings(max_parallel=2))
    assert [(each.host, each.ok) for each in results] == [("off", False), ("spark-1", True), ("spark-2", True)]
    assert sorted(done) == ["spark-1", "spark-2"]


def test_no_more_connections_at_once_than_configured(ssh: FakeSsh) -> None:
    ssh.host("spark-1", 'mkdir "$here/busy" || exit 9; bash -c "$*"; code=$?; rmdir "$here/busy"; exit $code')
    results = run_sessions([Session("spark-1", "echo ok", 20) for _ in range(6)], SshSettings(max_parallel=1))
    assert [each.returncode for each in results] == [0] * 6


def test_every_script_of_a_batch_that_asks_the_same_is_put_together_once_and_shown_for_each_host(ssh: FakeSsh) -> None:
    events: list[Event] = []
    call = ScriptCall("local_evidence", {"NAME": "w", "LINES": "1"}, {})
    results = SshRunner(PLAIN, events.append).run_all([("spark-1", call), ("spark-2", call)], timeout_s=20)
    assert [parse_answers(each.stdout).section("EVIDENCE").text("NAME") or each.ok for each in results]
    assert events == [Script("spark-1", call), Script("spark-2", call)]


def test_a_script_is_shown_without_its_secrets(ssh: FakeSsh) -> None:
    events: list[Event] = []
    call = ScriptCall("ready", {"HOST": "127.0.0.1"}, {"API_KEY": "s3cret"})
    SshRunner(PLAIN, events.append).run("spark-1", call, timeout_s=20)
    assert "s3cret" not in repr(events)
    assert "s3cret" not in (ssh.folder / "words").read_text()


# --- streams ---


def test_lines_are_handed_on_while_the_script_runs(ssh: FakeSsh, tmp_path: Path) -> None:
    seen: list[str] = []

    def take(line: str) -> None:
        seen.append(line)
        (tmp_path / "go").touch()

    text = f"echo one; until test -e {tmp_path}/go; do read -r -t 0.01 <><(:) || :; done; echo two; exit"
    (result,) = run_sessions([Session("spark-1", text, 20, on_line=take)], PLAIN)
    assert (seen, result.stdout, result.ok) == (["one", "two"], "", True)


def test_a_stream_keeps_its_standard_input_open_for_as_long_as_somebody_listens(ssh: FakeSsh) -> None:
    seen: list[str] = []
    (result,) = run_sessions([Session("spark-1", "read -t 0.2 -r _; echo $?; exit", 20, on_line=seen.append)], PLAIN)
    assert result.ok
    assert int(seen[0]) > 128  # bash: the read timed out; the end of input would be 1


def test_a_stream_is_stopped_from_outside(ssh: FakeSsh, tmp_path: Path) -> None:
    stop = threading.Event()
    session = Session("spark-1", "echo up; exec sleep 300", on_line=lambda _line: stop.set())
    (result,) = run_sessions([session], PLAIN, stop)
    assert (result.ok, result.timed_out) == (False, False)


# --- shared connections ---


def test_the_first_script_leaves_a_connection_for_others(ssh: FakeSsh, shared: SshSettings) -> None:
    run("spark-1", "true", shared)
    found = find_socket("spark-1", shared)
    assert found is not None
    assert {"ControlMaster=auto", f"ControlPath={found.path}", "ControlPersist=300"} <= set(options_of(ssh.calls[0]))


def test_where_sharing_fails_the_script_runs_over_a_connection_of_its_own(ssh: FakeSsh, shared: SshSettings) -> None:
    ssh.host("spark-1", 'if [[ -n ${sharing:-} ]]; then echo "unix_listener: cannot bind to path /x: Permission denied" >&2; exit 255; fi')
    assert run("spark-1", "echo once", shared).stdout == "once\n"
    assert [("ControlMaster=no" in options_of(words)) for words in ssh.calls] == [False, True]


@pytest.mark.parametrize("stale", ["file", "socket"])
def test_a_socket_that_nobody_listens_on_is_passed_by(ssh: FakeSsh, shared: SshSettings, stale: str) -> None:
    found = find_socket("spark-1", shared)
    assert found is not None
    if stale == "file":
        Path(found.path).touch()
    else:
        socket.socket(socket.AF_UNIX).bind(found.path)
    assert run("spark-1", "echo once", shared).stdout == "once\n"
    assert not Path(found.path).exists()


def test_a_folder_that_others_can_enter_is_not_used(ssh: FakeSsh, shared: SshSettings) -> None:
    folder = f"{shared.control_dir}/open"
    Path(folder).mkdir(mode=0o755)
    assert run("spark-1", "echo plain", SshSettings(control_dir=folder)).stdout == "plain\n"
    assert "ControlPath=none" in options_of(ssh.calls[0])


def test_a_folder_that_is_a_link_is_not_used(ssh: FakeSsh, shared: SshSettings, tmp_path: Path) -> None:
    link = tmp_path / "l"
    link.symlink_to(shared.control_dir or "")
    run("spark-1", "true", SshSettings(control_dir=str(link)))
    assert "ControlPath=none" in options_of(ssh.calls[0])


def test_a_host_that_cannot_be_reached_is_tried_once_for_all_its_scripts(ssh: FakeSsh, shared: SshSettings) -> None:
    ssh.host("spark-1", "echo 'ssh: connect to host spark-1 port 22: Connection refused' >&2; exit 255")
    results = run_sessions([Session("spark-1", f"echo {number}", 20) for number in range(3)], shared)
    assert [kind_of(each) for each in results] == [FailureKind.REFUSED] * 3
    assert len(ssh.calls) == 1


def test_scripts_for_one_host_run_all_the_same_when_sharing_is_impossible(ssh: FakeSsh, shared: SshSettings) -> None:
    results = run_sessions([Session("spark-1", f"echo {number}", 20) for number in range(3)], shared)
    assert [each.stdout for each in results] == ["0\n", "1\n", "2\n"]


@pytest.mark.parametrize(
    ("way", "finished", "then"),
    [
        (Way.SHARED, Finished(255, "", "", opened=False), Way.SHARING),
        (Way.SHARED, Finished(-9, "", "", timed_out=True, opened=False), Way.SHARING),
        (Way.SHARED, Finished(-1, "", "", opened=False, error=ConnectionRefusedError()), Way.SHARING),
        (Way.SHARED, Finished(-2, "", "", opened=False), Way.ALONE),
        (Way.SHARED, Finished(127, "", "bash: not found", opened=False), None),
        (Way.SHARED, Finished(255, "", ""), None),
        (Way.SHARED, Finished(-9, "", "", timed_out=True), None),
        (Way.SHARING, Finished(255, "", "unix_listener: cannot bind to path /x: No such file or directory", opened=False), Way.ALONE),
        (Way.SHARING, Finished(255, "", "Permission denied (publickey).", opened=False), None),
        (Way.SHARING, Finished(-9, "", "", timed_out=True, opened=False), None),
        (Way.ALONE, Finished(255, "", "unix_listener: cannot bind", opened=False), None),
        (Way.LOCAL, Finished(1, "", "", opened=False), None),
    ],
)
def test_another_way_is_tried_only_when_the_script_was_not_begun(way: Way, finished: Finished, then: Way | None) -> None:
    assert way_after(way, finished) is then


# --- large data ---


def test_large_data_goes_alone_uncompressed_and_with_the_fastest_cipher_the_user_allows(ssh: FakeSsh) -> None:
    ssh.config_of("spark-1", "ciphers chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com\n")
    connection = bulk_connection("spark-1", PLAIN)
    assert connection.ciphers == ("aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr")


def test_an_ssh_that_does_not_tell_its_ciphers_keeps_its_own(ssh: FakeSsh) -> None:
    ssh.config_of("spark-1", "")
    assert bulk_connection("spark-1", PLAIN).ciphers == ()


def test_words_of_a_call_survive_a_shell(ssh: FakeSsh) -> None:
    run("dgx@spark-1:2222", "true", SshSettings(key="/home/me/my key", options=("-o", "ProxyCommand=nc -x p %h %p")))
    assert shlex.split(shlex.join(ssh.calls[0])) == ssh.calls[0]
    assert ssh.calls[0][:10] == [
        "-o", "BatchMode=yes", "-l", "dgx", "-p", "2222", "-i", "/home/me/my key", "-o", "ProxyCommand=nc -x p %h %p",
    ]  # fmt: skip
