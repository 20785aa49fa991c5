"""What OpenSSH 9.2 said of a real sshd on loopback, a closed port, a name of .invalid and so on; and two texts of macOS."""

from __future__ import annotations

import pytest

from sparkrun.core.remote import Login, RemoteResult
from sparkrun.orchestration.apply import failure_hint, failure_text
from sparkrun.orchestration.ssh_errors import (
    FailureKind,
    SshFailure,
    explain_ssh_failure,
    login_of,
    needs_login,
    parse_ssh_config,
    without_ssh_words,
)

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Someone could be eavesdropping on you right now (man-in-the-middle attack)!\r
It is also possible that a host key has just been changed.\r
The fingerprint for the ED25519 key sent by the remote host is
SHA256:2blatQYjcIvBBdriMEB/YC1wRhfsSpMfIB5DoHp/hC0.\r
Please contact your system administrator.\r
Add correct host key in /home/me/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/me/.ssh/known_hosts:7\r
  remove with:\r
  ssh-keygen -f "/home/me/.ssh/known_hosts" -R "spark-2"\r
Host key for spark-2 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
BAD_PERMISSIONS = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
Permissions 0644 for '/home/me/.ssh/k' are too open.\r
It is required that your private key files are NOT accessible by others.\r
This private key will be ignored.\r
Load key "/home/me/.ssh/k": bad permissions\r
dgx@spark-2: Permission denied (publickey,keyboard-interactive).\r
"""
JUMP = """\
ssh: connect to host 127.0.0.1 port 1: Connection refused\r
kex_exchange_identification: Connection closed by remote host\r
Connection closed by UNKNOWN port 65535\r
"""


def lost(stderr: str, **facts: object) -> RemoteResult:
    return RemoteResult("spark-2", 255, stderr=stderr, unreachable=True, **facts)  # type: ignore[arg-type]


def explained(stderr: str, **facts: object) -> SshFailure:
    failure = explain_ssh_failure(lost(stderr, **facts))
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("stderr", "kind", "message"),
    [
        (
            "ssh: Could not resolve hostname spark-2: Name or service not known\r\n",
            FailureKind.UNKNOWN_NAME,
            "no host has the name spark-2",
        ),
        (
            "ssh: Could not resolve hostname spark-2: nodename nor servname provided, or not known\r\n",
            FailureKind.UNKNOWN_NAME,
            "no host has the name spark-2",
        ),
        (
            "ssh: Could not resolve hostname spark-2: Temporary failure in name resolution\r\n",
            FailureKind.UNKNOWN_NAME,
            "the name spark-2 could not be looked up: temporary failure in name resolution",
        ),
        (
            "ssh: connect to host spark-2 port 22: Connection refused\r\n",
            FailureKind.REFUSED,
            "connection refused: nothing listens on spark-2 port 22",
        ),
        (JUMP, FailureKind.REFUSED, "connection refused: nothing listens on 127.0.0.1 port 1"),
        (
            "ssh: connect to host 2001:db8::1 port 22: No route to host\r\n",
            FailureKind.UNREACHABLE,
            "unreachable: no route to host (2001:db8::1 port 22)",
        ),
        (
            "ssh: connect to host 10.0.0.9 port 22: Network is unreachable\r\n",
            FailureKind.UNREACHABLE,
            "unreachable: network is unreachable (10.0.0.9 port 22)",
        ),
        (
            "ssh: connect to host 10.0.0.9 port 22: Permission denied\r\n",
            FailureKind.UNREACHABLE,
            "this machine may not connect to 10.0.0.9 port 22",
        ),
        (
            "ssh: connect to host 10.0.0.9 port 22: Connection timed out\r\n",
            FailureKind.TIMED_OUT,
            "no answer from 10.0.0.9 port 22 in time",
        ),
        (
            "ssh: connect to host 10.0.0.9 port 22: Operation timed out\r\n",
            FailureKind.TIMED_OUT,
            "no answer from 10.0.0.9 port 22 in time",
        ),
        (
            "Connection timed out during banner exchange\r\nConnection to 10.0.0.9 port 22 timed out\r\n",
            FailureKind.FROZEN,
            "it takes the connection, but its ssh server says nothing",
        ),
        (
            CHANGED,
            FailureKind.HOST_KEY_CHANGED,
            (
                "its host key has changed (/home/me/.ssh/known_hosts:7 holds another); "
                "it now shows ED25519 SHA256:2blatQYjcIvBBdriMEB/YC1wRhfsSpMfIB5DoHp/hC0"
            ),
        ),
        ("Host key verification failed.\r\n", FailureKind.HOST_KEY_UNKNOWN, "its host key is not known here, and nobody can be asked"),
        (
            "No ED25519 host key is known for spark-2 and you have requested strict checking.\r\nHost key verification failed.\r\n",
            FailureKind.HOST_KEY_UNKNOWN,
            "its host key is not known here, and nobody can be asked",
        ),
        (
            "dgx@spark-2: Permission denied (publickey,keyboard-interactive).\r\n",
            FailureKind.PERMISSION_DENIED,
            "permission denied for user dgx",
        ),
        (
            "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\r\nDisconnected from 10.0.0.2 port 22\r\n",
            FailureKind.PERMISSION_DENIED,
            "permission denied",
        ),
        (
            BAD_PERMISSIONS,
            FailureKind.PERMISSION_DENIED,
            "permission denied for user dgx; /home/me/.ssh/k cannot be used: bad permissions",
        ),
        (
            (
                "Warning: Identity file /k not accessible: No such file or directory.\n"
                "dgx@spark-2: Permission denied (publickey,keyboard-interactive).\r\n"
            ),
            FailureKind.PERMISSION_DENIED,
            "permission denied for user dgx; /k cannot be used: no such file or directory",
        ),
        (
            "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found. Their offer: ssh-ed25519\r\n",
            FailureKind.OTHER,
            (
                "the two ssh programs have nothing in common: "
                "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found. Their offer: ssh-ed25519"
            ),
        ),
        (
            "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.2 port 22\r\n",
            FailureKind.TURNED_AWAY,
            "it closed the connection before the login: kex_exchange_identification: Connection closed by remote host",
        ),
        (
            "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.2 port 22\r\n",
            FailureKind.TURNED_AWAY,
            "it closed the connection before the login: kex_exchange_identification: read: Connection reset by peer",
        ),
        (
            "command-line: line 0: Bad configuration option: foo\r\n",
            FailureKind.BAD_CONFIG,
            "ssh cannot use its configuration: command-line: line 0: Bad configuration option: foo",
        ),
        ("cannot start ssh: No such file or directory", FailureKind.NO_SSH, "this machine has no ssh program"),
        ("something new\r\n", FailureKind.OTHER, "something new"),
        ("", FailureKind.OTHER, "ssh gave no reason"),
    ],
)
def test_the_cause_is_told(stderr: str, kind: FailureKind, message: str) -> None:
    failure = explained(stderr)
    assert (failure.kind, failure.message) == (kind, message)
    assert failure.hint


@pytest.mark.parametrize(
    ("stderr", "kind", "message"),
    [
        ("Timeout, server spark-2 not responding.\r\n", FailureKind.FROZEN, "it stopped answering while the script ran"),
        (
            "Connection to spark-2 closed by remote host.\r\n",
            FailureKind.LOST,
            "the connection broke off: Connection to spark-2 closed by remote host",
        ),
        (
            "client_loop: send disconnect: Broken pipe\r\n",
            FailureKind.LOST,
            "the connection broke off: client_loop: send disconnect: Broken pipe",
        ),
        ("", FailureKind.LOST, "the connection broke off: the host froze or restarted, or the network was cut"),
        (
            "curl: connect to host hub port 443: Connection refused\n",
            FailureKind.LOST,
            "the connection broke off: the host froze or restarted, or the network was cut",
        ),
    ],
)
def test_a_loss_while_the_script_ran_is_not_taken_for_a_failed_login(stderr: str, kind: FailureKind, message: str) -> None:
    failure = explained(stderr, connected=True)
    assert (failure.kind, failure.message) == (kind, message)


def test_silence_names_the_limit() -> None:
    result = RemoteResult("spark-2", -1, unreachable=True, timed_out=True, limit_s=3.0)
    assert explain_ssh_failure(result) == SshFailure(
        FailureKind.TIMED_OUT, "no answer within 3 s", "is it switched on, and on this network? try: ssh spark-2 true"
    )


def test_the_failure_of_a_script_is_its_own() -> None:
    result = RemoteResult("spark-2", 1, "MESSAGE=disk full\nHINT=make room\n", "ssh: connect to host x port 22: Connection refused\n")
    assert explain_ssh_failure(result) is None
    assert (failure_text(result), failure_hint(result)) == ("disk full", "make room")


def test_success_is_no_failure() -> None:
    assert explain_ssh_failure(RemoteResult("spark-2", 0)) is None


def test_every_command_tells_the_cause_and_what_to_do() -> None:
    result = lost("Host key verification failed.\r\n")
    assert failure_text(result) == "its host key is not known here, and nobody can be asked"
    assert "StrictHostKeyChecking=accept-new" in (failure_hint(result) or "")


def test_a_changed_key_is_compared_before_it_is_forgotten() -> None:
    assert explained(CHANGED).hint == (
        "was it installed anew? compare on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n"
        'then forget the old key: ssh-keygen -f "/home/me/.ssh/known_hosts" -R "spark-2"'
    )


def test_a_user_without_any_key_is_told_to_make_one() -> None:
    failure = explained("dgx@spark-2: Permission denied (publickey).\n", login=Login(user="dgx", address="10.0.0.2", port=22))
    assert failure.message == "permission denied for user dgx; there is no key to offer"
    assert failure.hint == "make a key and put it there: ssh-keygen -t ed25519 && ssh-copy-id dgx@spark-2"


def test_what_was_offered_is_named() -> None:
    login = Login(user="dgx", address="10.0.0.2", port=2222, keys=("~/.ssh/id_rsa", "~/.ssh/id_ed25519"), agent=True)
    failure = explained("dgx@spark-2: Permission denied (publickey).\n", login=login)
    assert failure.message == "permission denied for user dgx; offered: ~/.ssh/id_rsa, ~/.ssh/id_ed25519, the keys of the ssh agent"


def test_a_hint_reaches_the_host_as_it_was_named() -> None:
    result = RemoteResult("dgx@[fd00::5]:2222", -1, unreachable=True, timed_out=True)
    assert "ssh -p 2222 dgx@fd00::5 true" in (failure_hint(result) or "")


def test_only_a_denied_login_asks_who_was_tried() -> None:
    assert needs_login(lost("dgx@spark-2: Permission denied (publickey).\n"))
    assert not needs_login(lost("ssh: connect to host 10.0.0.9 port 22: Permission denied\r\n"))
    assert not needs_login(RemoteResult("spark-2", 1, stderr="x: Permission denied (publickey).\n"))


def test_the_answer_of_ssh_about_its_settings_is_read() -> None:
    config = parse_ssh_config("user dgx\nhostname 10.0.0.2\nport 22\nidentityfile ~/.ssh/a\nidentityfile ~/.ssh/b\n")
    assert config["identityfile"] == ("~/.ssh/a", "~/.ssh/b")
    assert login_of(config, keys=("~/.ssh/b",), agent=False) == Login(user="dgx", address="10.0.0.2", port=22, keys=("~/.ssh/b",))
    assert login_of({}, keys=(), agent=False) is None


def test_the_words_of_ssh_are_told_from_those_of_a_script() -> None:
    stderr = (
        "Warning: Permanently added 'x' (ED25519) to the list of known hosts.\r\nmux_client_request_session: read from master failed\nout\n"
    )
    assert without_ssh_words(stderr) == "out\n"
