"""Real OpenSSH on both sides of loopback: shared connections, what they survive, and what is said when nothing helps."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkrun.core.remote import RemoteResult, ScriptCall
from sparkrun.orchestration.ssh import FailureKind, SshRunner, SshSettings, bulk_connection, explain_ssh_failure
from sparkrun.orchestration.ssh_command import build_ssh_cmd
from sparkrun.orchestration.ssh_mux import find_socket
from sparkrun.orchestration.ssh_sessions import Session, run_sessions
from tests.e2e.conftest import Sparkrun, connects, free_port, press_ctrl_c, wait_for
from tests.pace import slowness

pytestmark = pytest.mark.e2e

FOLLOW = """
import sys
from sparkrun.core.remote import ScriptCall
from sparkrun.orchestration.ssh import SshRunner, SshSettings

host, key, known_hosts, control_dir, cache = sys.argv[1:]
options = ("-F", "/dev/null", "-o", f"UserKnownHostsFile={known_hosts}")
runner = SshRunner(SshSettings(key=key, options=options, control_dir=control_dir or None))
call = ScriptCall("local_logs", {"NAME": "w", "FOLLOW": "1", "LIFELINE": "1", "CACHE": cache})
try:
    print(runner.stream(host, call, lambda line: print(line, flush=True), timeout_s=None))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture(autouse=True)
def _needs_a_model() -> None:
    """No engine runs here."""


class Sshd:
    """An ssh server on loopback whose users get an empty home, and a client side that knows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        (folder / "home").mkdir()
        self.know(*(f"127.0.0.{n}" for n in range(1, 40)))
        self._config()
        self.daemon: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """Its first address."""
        return self.at(1)

    def at(self, number: int) -> str:
        """One of its many addresses: each counts as a host."""
        return f"{getpass.getuser()}@127.0.0.{number}:{self.port}"

    @property
    def logins(self) -> int:
        """How often somebody logged in."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    @property
    def settings(self) -> SshSettings:
        """How a user of it is set up."""
        return SshSettings(key=str(self.folder / "user"), options=self.options(), control_dir=str(self.folder / "c"))

    def options(self, *more: str) -> tuple[str, ...]:
        """Options that keep this machine's own ssh configuration out."""
        return ("-F", "/dev/null", "-o", f"UserKnownHostsFile={self.folder}/known", "-o", "GlobalKnownHostsFile=/dev/null", *more)

    def know(self, *names: str, key: str = "host") -> None:
        """Make these names known by a key."""
        public = " ".join((self.folder / f"{key}.pub").read_text().split()[:2])
        (self.folder / "known").write_text("".join(f"[{name}]:{self.port} {public}\n" for name in names))

    def start(self) -> None:
        """Listen."""
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        assert sshd is not None
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.daemon = subprocess.Popen([sshd, "-D", "-E", self.folder / "log", "-f", self.folder / "config"])
        wait_for(lambda: connects(self.port))

    def processes(self) -> list[int]:
        """The daemon and every process of its sessions that is an sshd."""
        assert self.daemon is not None
        found, at = [self.daemon.pid], 0
        while at < len(found):
            with contextlib.suppress(FileNotFoundError):
                found += [int(word) for word in Path(f"/proc/{found[at]}/task/{found[at]}/children").read_text().split()]
            at += 1
        return [pid for pid in found if name_of(pid) == "sshd"]

    def freeze(self) -> list[int]:
        """Stop it and its sessions, as a host does that hangs; returns what to wake."""
        stopped = self.processes()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        return stopped

    def end(self) -> None:
        """Leave nothing."""
        for path in (self.folder / "c").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={path}", "any"], capture_output=True, timeout=10, check=False)
        if self.daemon:
            for pid in reversed(self.processes()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                    os.kill(pid, signal.SIGKILL)
            self.daemon.wait()

    def _config(self) -> None:
        (self.folder / "config").write_text(
            f"Port {self.port}\nListenAddress 0.0.0.0\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/authorized\n"
            f"StrictModes no\nPidFile none\nUsePAM no\nPasswordAuthentication no\nMaxStartups 200\nSetEnv HOME={self.folder}/home\n"
        )


@pytest.fixture
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if not shutil.which("sshd", path="/usr/sbin:/usr/bin") or not shutil.which("ssh"):
        pytest.skip("OpenSSH's server and client are not both installed")
    server = Sshd(tmp_path_factory.mktemp("s"))
    server.start()
    yield server
    server.end()


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def run(host: str, text: str, settings: SshSettings, *, timeout_s: float = 30, connect_timeout_s: float = 10) -> RemoteResult:
    return run_sessions([Session(host, text, timeout_s, connect_timeout_s)], settings)[0]


def master_of(host: str, settings: SshSettings) -> int:
    """The process that holds the shared connection to a host."""
    found = find_socket(host, settings)
    assert found is not None
    told = subprocess.run(["ssh", "-O", "check", "-o", f"ControlPath={found.path}", "any"], capture_output=True, text=True, check=True)
    return int(told.stderr.partition("pid=")[2].partition(")")[0])


def kind_of(result: RemoteResult) -> FailureKind | None:
    failure = explain_ssh_failure(result)
    return failure.kind if failure else None


def replaced(settings: SshSettings, *options: str) -> SshSettings:
    return SshSettings(key=settings.key, options=(*settings.options, *options), control_dir=settings.control_dir)


# --- shared connections ---


def test_many_scripts_for_one_host_log_in_once(sshd: Sshd) -> None:
    for _ in range(3):
        results = run_sessions([Session(sshd.host, f"echo {n}", 30) for n in range(6)], sshd.settings)
        assert [each.stdout for each in results] == [f"{n}\n" for n in range(6)]
    assert sshd.logins == 1


def test_twenty_hosts_at_once_log_in_once_each(sshd: Sshd) -> None:
    hosts = [sshd.at(n) for n in range(1, 21)]
    for _ in range(2):
        results = run_sessions([Session(host, f"echo {host}", 60, 60) for host in hosts], sshd.settings)
        assert [each.stdout for each in results] == [f"{host}\n" for host in hosts]
    assert sshd.logins == 20


def test_more_scripts_than_the_server_takes_over_one_connection_all_run(sshd: Sshd) -> None:
    assert run(sshd.host, "true", sshd.settings).ok
    results = run_sessions([Session(sshd.host, f"read -t 1 -r _ <> <(:); echo {n}", 60, 60) for n in range(14)], sshd.settings)
    assert [each.stdout for each in results] == [f"{n}\n" for n in range(14)]


def test_a_socket_left_by_a_killed_connection_is_passed_by(sshd: Sshd) -> None:
    run(sshd.host, "true", sshd.settings)
    os.kill(master_of(sshd.host, sshd.settings), signal.SIGKILL)
    assert run(sshd.host, "echo again", sshd.settings).stdout == "again\n"
    assert run(sshd.host, "echo shared", sshd.settings).stdout == "shared\n"
    assert sshd.logins == 2


def test_a_connection_whose_process_hangs_is_given_up_in_time_and_the_script_runs_once(sshd: Sshd, tmp_path: Path) -> None:
    run(sshd.host, "true", sshd.settings)
    master = master_of(sshd.host, sshd.settings)
    os.kill(master, signal.SIGSTOP)
    started = time.monotonic()
    result = run(sshd.host, f"echo ran >>{tmp_path}/runs; echo ok", sshd.settings, connect_timeout_s=6)
    os.kill(master, signal.SIGCONT)
    assert (result.stdout, (tmp_path / "runs").read_text()) == ("ok\n", "ran\n")
    assert time.monotonic() - started < 10 * slowness()
    assert run(sshd.host, f"cat {tmp_path}/runs", sshd.settings).stdout == "ran\n"


def test_without_a_folder_for_sockets_every_script_logs_in(sshd: Sshd) -> None:
    settings = SshSettings(key=sshd.settings.key, options=sshd.options(), control_dir="/proc/nowhere")
    assert [run(sshd.host, "echo ok", settings).stdout for _ in range(2)] == ["ok\n", "ok\n"]
    assert sshd.logins == 2


def test_large_data_goes_with_the_fastest_cipher(sshd: Sshd) -> None:
    words = build_ssh_cmd(sshd.host, sshd.settings, bulk_connection(sshd.host, sshd.settings))
    ended = subprocess.run([words[0], "-v", *words[1:], "true"], capture_output=True, text=True, timeout=30, check=True)
    assert "cipher: aes128-gcm@openssh.com" in ended.stderr
    assert "Compression" not in ended.stderr.replace("compression: none", "")


# --- what hangs ---


def test_a_host_that_froze_before_the_login_is_unknown_in_time(sshd: Sshd) -> None:
    sshd.freeze()
    started = time.monotonic()
    results = run_sessions([Session(sshd.host, "true", 20, 2), Session("localhost", "echo here", 20)], sshd.settings)
    assert time.monotonic() - started < 5 * slowness()
    assert (kind_of(results[0]), results[1].stdout) == (FailureKind.FROZEN, "here\n")


@pytest.mark.parametrize("warm", [False, True])
def test_a_host_that_freezes_while_a_script_runs_is_noticed(sshd: Sshd, warm: bool) -> None:
    settings = replaced(sshd.settings, "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2")
    if warm:
        assert run(sshd.host, "true", settings).ok
    else:
        settings = SshSettings(key=settings.key, options=settings.options)
    started = time.monotonic()
    (result,) = run_sessions([Session(sshd.host, "echo up; sleep 300", None, on_line=lambda _line: sshd.freeze())], settings)
    assert time.monotonic() - started < 15 * slowness()
    assert (result.unreachable, result.connected) == (True, True)
    assert kind_of(result) is (FailureKind.LOST if warm else FailureKind.FROZEN)


def test_a_host_that_froze_behind_an_open_connection_is_unknown_in_time(sshd: Sshd) -> None:
    assert run(sshd.host, "true", sshd.settings).ok
    sshd.freeze()
    started = time.monotonic()
    result = run(sshd.host, "true", sshd.settings, timeout_s=10, connect_timeout_s=3)
    assert time.monotonic() - started < 5 * slowness()
    assert (result.unreachable, result.connected) == (True, False)
    assert kind_of(result) in {FailureKind.FROZEN, FailureKind.TIMED_OUT}


def test_status_shows_a_frozen_host_as_unknown_in_time_and_the_others_as_they_are(sshd: Sshd, sparkrun: Sparkrun) -> None:
    config = sparkrun.home / ".config/sparkrun/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"ssh": {"key": sshd.settings.key, "options": sshd.options()}}))
    sshd.freeze()
    started = time.monotonic()
    ended = sparkrun("status", "-H", f"{sshd.host},localhost", XDG_RUNTIME_DIR=str(sshd.folder))
    assert time.monotonic() - started < 8 * slowness()
    assert ended.code == 1
    assert f"Unknown: {sshd.host} (it takes the connection, but its ssh server says nothing)\n  hint: " in ended.out
    assert ended.out.count("ssh server says nothing") == 1


def test_a_script_that_hangs_ends_at_its_deadline_and_the_connection_stays(sshd: Sshd) -> None:
    result = run(sshd.host, "sleep 300", sshd.settings, timeout_s=1.5)
    assert (result.timed_out, result.connected) == (True, True)
    assert run(sshd.host, "echo ok", sshd.settings).stdout == "ok\n"
    assert sshd.logins == 1


# --- what ends with the session ---


@pytest.mark.parametrize("shared", [True, False])
def test_ctrl_c_ends_what_follows_a_log_on_the_host(sshd: Sshd, tmp_path: Path, shared: bool) -> None:
    cache = tmp_path / "cache"
    launch = {"NAME": "w", "CLUSTER_ID": "c", "LAUNCH": "1", "COMMAND": "echo serving; exec sleep 300", "CACHE": str(cache), "LABELS": "{}"}
    runner = SshRunner(sshd.settings)
    assert runner.run(sshd.host, ScriptCall("local_start", launch), timeout_s=30).ok
    words = [sshd.host, str(sshd.folder / "user"), str(sshd.folder / "known"), str(sshd.folder / "c") if shared else "", str(cache)]
    process = subprocess.Popen([sys.executable, "-c", FOLLOW, *words], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    wait_for(lambda: followers(cache))
    assert press_ctrl_c(process).code == 130
    wait_for(lambda: not followers(cache))
    assert runner.run(sshd.host, ScriptCall("local_stop", {"NAMES": ("w",), "CACHE": str(cache)}), timeout_s=30).ok


def followers(cache: Path) -> list[str]:
    """Command lines of this machine that read a log below ``cache``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            found += [" ".join(words)] if words[0] == "tail" and any(str(cache) in word for word in words) else []
    return found


# --- what is said ---


def test_a_login_that_is_denied_names_the_key_that_was_offered(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    result = run(sshd.host, "true", SshSettings(key=str(sshd.folder / "stranger"), options=sshd.options()))
    failure = explain_ssh_failure(result)
    assert failure is not None
    assert failure.message == f"permission denied for user {getpass.getuser()}; offered: {sshd.folder}/stranger"


def test_a_host_key_that_changed(sshd: Sshd) -> None:
    sshd.know("127.0.0.1", key="stranger")
    failure = explain_ssh_failure(run(sshd.host, "true", sshd.settings))
    assert failure is not None
    assert failure.kind is FailureKind.HOST_KEY_CHANGED
    assert f"({sshd.folder}/known:1 holds another); it now shows ED25519 SHA256:" in failure.message


def test_a_host_key_that_nobody_knows(sshd: Sshd) -> None:
    sshd.know()
    assert kind_of(run(sshd.host, "true", sshd.settings)) is FailureKind.HOST_KEY_UNKNOWN
    accepting = SshSettings(key=sshd.settings.key, options=sshd.options("-o", "StrictHostKeyChecking=accept-new"))
    assert run(sshd.host, "echo ok", accepting).stdout == "ok\n"


def test_a_port_that_nobody_listens_on_and_a_name_that_nobody_has(sshd: Sshd) -> None:
    assert kind_of(run(f"127.0.0.1:{free_port()}", "true", sshd.settings)) is FailureKind.REFUSED
    assert kind_of(run("no-such-host.invalid", "true", sshd.settings)) is FailureKind.UNKNOWN_NAME
