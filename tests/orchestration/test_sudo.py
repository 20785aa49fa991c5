from __future__ import annotations

from pathlib import Path

import pytest

from sparkrun.core.remote import Root, ScriptCall
from sparkrun.orchestration.ssh import SshRunner, SshSettings
from sparkrun.orchestration.sudo import SudoOutcome, SudoResult, run_with_sudo_fallback
from tests.orchestration.fake_ssh import FakeSsh

# As sudo 1.9.13 behaves: it reads a password a line at a time, up to three of them, and the command gets what is left of stdin.
SUDO = r"""#!/usr/bin/env bash
here=${0%/*}
echo "${SUDO_HOST:-} $LC_ALL $*" >>"$here/sudo-calls"
while [[ $1 == -* ]]; do
  case $1 in
    -n) never=1 ;;
    -p) shift ;;
  esac
  shift
done
[[ -n ${SUDO_PASSWORD:-} ]] || exec "$@"
if [[ -n ${never:-} ]]; then echo 'sudo: a password is required' >&2; exit 1; fi
for ((tries = 0; tries < 3; tries++)); do
  if ! IFS= read -r line; then
    echo 'sudo: no password was provided' >&2
    if ((tries)); then echo "sudo: $tries incorrect password attempt" >&2; else echo 'sudo: a password is required' >&2; fi
    exit 1
  fi
  echo "${SUDO_HOST:-} $line" >>"$here/passwords"
  if [[ $line == "$SUDO_PASSWORD" ]]; then
    if [[ -n ${SUDO_FORBIDDEN:-} ]]; then echo 'dgx is not in the sudoers file.' >&2; exit 1; fi
    exec "$@"
  fi
  if ((tries < 2)); then echo 'Sorry, try again.' >&2; fi
done
echo 'sudo: 3 incorrect password attempts' >&2
exit 1
"""
CALL = ScriptCall("local_evidence", {"NAME": "w", "LINES": "1"})


class Site:
    """Hosts behind a fake ssh, each with a sudo of its own mind."""

    def __init__(self, ssh: FakeSsh) -> None:
        self.ssh = ssh
        self.asked: list[str | None] = []
        program = ssh.folder / "sudo"
        program.write_text(SUDO)
        program.chmod(0o755)

    def host(self, name: str, password: str = "", more: str = "") -> None:
        self.ssh.host(name, f"export SUDO_HOST={name} SUDO_PASSWORD={password}; {more}")

    def run(self, *hosts: str, answers: dict[str | None, str] | None = None) -> dict[str, SudoResult]:
        def ask(host: str | None) -> str | None:
            self.asked.append(host)
            return (answers or {}).get(host)

        runner = SshRunner(SshSettings())
        found = run_with_sudo_fallback(hosts, CALL, runner, ask=None if answers is None else ask, timeout_s=20)
        assert [each.host for each in found] == list(hosts)
        return {each.host: each for each in found}

    def lines(self, name: str) -> list[str]:
        path = self.ssh.folder / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(FakeSsh(tmp_path / "bin", monkeypatch))


def outcomes(found: dict[str, SudoResult]) -> list[str]:
    return [each.outcome.value for each in found.values()]


def test_a_host_that_wants_no_password_is_never_sent_one(site: Site) -> None:
    site.host("open")
    site.host("shut", "s3cret")
    found = site.run("open", "shut", answers={None: "s3cret"})
    assert [(each.passwordless, each.result.began) for each in found.values()] == [(True, True), (False, True)]
    assert site.lines("passwords") == ["shut s3cret"]
    assert [line for line in site.lines("sudo-calls") if line.startswith("open")] == ["open C -n bash -s"]


def test_one_password_is_asked_for_all_and_then_one_for_each_that_does_not_take_it(site: Site) -> None:
    site.host("a", "shared")
    site.host("b", "own-b")
    site.host("c", "own-c")
    found = site.run("a", "b", "c", answers={None: "shared", "b": "own-b", "c": "wrong"})
    assert site.asked == [None, "b", "c"]
    assert [each.result.began for each in found.values()] == [True, True, False]
    assert found["c"].outcome is SudoOutcome.PASSWORD_REJECTED
    assert sorted(site.lines("passwords")) == ["a shared", "b own-b", "b shared", "c shared", "c wrong"]


def test_without_anybody_to_ask_the_failure_is_reported(site: Site) -> None:
    site.host("shut", "s3cret")
    found = site.run("shut")
    assert (found["shut"].outcome, found["shut"].ok) == (SudoOutcome.PASSWORD_NEEDED, False)
    assert found["shut"].message == "sudo wants a password, and there is nobody to ask"


def test_a_user_who_gives_no_password_is_not_asked_again(site: Site) -> None:
    site.host("shut", "s3cret")
    found = site.run("shut", answers={})
    assert (outcomes(found), site.asked, site.lines("passwords")) == (["password-needed"], [None], [])


def test_nobody_is_asked_when_no_host_wants_a_password(site: Site) -> None:
    site.host("open")
    site.run("open", answers={None: "s3cret"})
    assert site.asked == []


def test_a_wrong_password_is_tried_once_and_the_script_is_not_taken_for_others(site: Site) -> None:
    site.host("shut", "s3cret")
    found = site.run("shut", answers={None: "wrong"})
    assert (outcomes(found), site.lines("passwords")) == (["password-rejected"], ["shut wrong"])


def test_a_password_that_sudo_did_not_need_reaches_no_shell(site: Site) -> None:
    site.host("open")
    runner = SshRunner(SshSettings())
    result = runner.run("open", ScriptCall("local_evidence", {"NAME": "w", "LINES": "1"}, root=Root("echo leaked >&2")), timeout_s=20)
    assert result.began
    assert result.stderr == ""


def test_a_user_who_may_not_use_sudo_is_told(site: Site) -> None:
    site.host("shut", "s3cret", "export SUDO_FORBIDDEN=1")
    assert site.run("shut", answers={None: "s3cret"})["shut"].message == "this user may not use sudo there"


def test_a_host_that_is_off_is_unreachable_and_nobody_is_asked_for_it(site: Site) -> None:
    site.ssh.host("off", "echo 'ssh: connect to host off port 22: No route to host' >&2; exit 255")
    found = site.run("off", answers={None: "s3cret"})
    assert (outcomes(found), site.asked) == (["unreachable"], [])
    assert found["off"].message == "unreachable: no route to host (off port 22)"


def test_a_script_that_fails_as_root_is_not_a_failure_of_sudo(site: Site) -> None:
    site.host("open")
    found = site.run("open")  # there is no workload of that name
    assert found["open"].result.returncode != 0
    assert (found["open"].outcome, found["open"].passwordless) == (SudoOutcome.FAILED, True)


def test_a_password_is_among_no_words_and_no_dump(site: Site) -> None:
    site.host("shut", "s3cret")
    site.run("shut", answers={None: "s3cret"})
    assert not [line for line in site.lines("words") + site.lines("sudo-calls") if "s3cret" in line]
    call = ScriptCall("local_evidence", root=Root("s3cret"))
    assert "s3cret" not in repr(call)
    assert "s3cret" not in repr(call.masked())


def test_this_machine_is_asked_the_same_way(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_PASSWORD", "s3cret")
    found = site.run("localhost", answers={None: "s3cret"})
    assert (found["localhost"].result.began, site.ssh.calls) == (True, [])
