"""Scripts that need root on several hosts, where some know us without a password and the others do not share one.

Passwords live in memory only and go to a host as the first line of the standard input of ``sudo -S``, never on a command line. A host that
lets us in without a password is never sent one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from sparkrun.core.remote import HostRunner, RemoteResult, Root, ScriptCall
from sparkrun.orchestration.apply import failure_text


class SudoOutcome(StrEnum):
    """How a script that needs root ended on one host."""

    DONE = "done"
    FAILED = "failed"
    """It ran as root and failed by itself."""
    PASSWORD_NEEDED = "password-needed"
    """sudo wants a password and none was given."""
    PASSWORD_REJECTED = "password-rejected"
    NOT_ALLOWED = "not-allowed"
    NO_SUDO = "no-sudo"
    UNREACHABLE = "unreachable"


class SudoResult(msgspec.Struct, frozen=True):
    """What came of it on one host. ``passwordless``: it let us in without one, also when the script then failed."""

    host: str
    outcome: SudoOutcome
    result: RemoteResult
    passwordless: bool = False

    @property
    def ok(self) -> bool:
        """Whether the script ran as root, to its end, without an error."""
        return self.outcome is SudoOutcome.DONE

    @property
    def message(self) -> str:
        """Why not, in one line without the host's name; empty when all is well."""
        if self.ok:
            return ""
        return {
            SudoOutcome.PASSWORD_NEEDED: "sudo wants a password, and there is nobody to ask",
            SudoOutcome.PASSWORD_REJECTED: "sudo does not take the password",
            SudoOutcome.NOT_ALLOWED: "this user may not use sudo there",
            SudoOutcome.NO_SUDO: "sudo is not installed, and this user is not root",
        }.get(self.outcome) or failure_text(self.result)


Ask = Callable[[str | None], str | None]
"""Asks the user for a password: the one that all hosts share (``None``), or that of one host. ``None`` as the answer: there is none."""


def run_with_sudo_fallback(
    hosts: Sequence[str], script: ScriptCall, runner: HostRunner, *, ask: Ask | None = None, timeout_s: float
) -> tuple[SudoResult, ...]:
    """Run a script as root on every host, all at once; results in the order of ``hosts``.

    First without a password. For the hosts that want one, ``ask`` is called once for all of them, then once for each that does not take it;
    without ``ask``, or with ``None`` as its answer, those hosts are reported as failed. ``functools.cache`` around ``ask`` makes one answer
    do for several scripts. Nothing is raised for what a host does.
    """
    found = {each.host: each for each in _attempt(script, runner, dict.fromkeys(hosts), timeout_s)}
    if ask is not None:
        for answers in (_shared, _own):
            found |= {each.host: each for each in _attempt(script, runner, answers(found.values(), ask), timeout_s)}
    return tuple(found[host] for host in hosts)


def sudo_outcome(result: RemoteResult) -> SudoOutcome:
    """How it ended, told from its exit code and from what sudo says in English (``LC_ALL=C``). Touches nothing."""
    if result.ok:
        return SudoOutcome.DONE
    if result.unreachable:
        return SudoOutcome.UNREACHABLE
    if result.began:
        return SudoOutcome.FAILED
    return next((outcome for pattern, outcome in _REFUSALS if re.search(pattern, result.stderr, re.MULTILINE)), SudoOutcome.FAILED)


# What sudo 1.8 to 1.9 and sudo-rs say, in order: a password that was tried and not taken is told before the wish for one.
_REFUSALS = (
    (
        r"is not in the sudoers file|may not run sudo|is not allowed to (?:execute|run)|I'm sorry .*\. I'm afraid I can't do that",
        SudoOutcome.NOT_ALLOWED,
    ),
    (r"try again|incorrect password attempt|[Aa]uthentication fail", SudoOutcome.PASSWORD_REJECTED),
    (r"password is required|terminal is required|authentication is required|no password was provided", SudoOutcome.PASSWORD_NEEDED),
    (r"sudo: (?:command )?not found", SudoOutcome.NO_SUDO),
)


def _attempt(script: ScriptCall, runner: HostRunner, passwords: Mapping[str, str | None], timeout_s: float) -> tuple[SudoResult, ...]:
    calls = [(host, msgspec.structs.replace(script, root=Root(password))) for host, password in passwords.items()]
    return tuple(_judged(result, passwords[result.host] is None) for result in runner.run_all(calls, timeout_s=timeout_s))


def _judged(result: RemoteResult, without_password: bool) -> SudoResult:
    outcome = sudo_outcome(result)
    return SudoResult(result.host, outcome, result, without_password and outcome in {SudoOutcome.DONE, SudoOutcome.FAILED})


def _shared(found: Iterable[SudoResult], ask: Ask) -> dict[str, str]:
    hosts = _with(found, SudoOutcome.PASSWORD_NEEDED)
    password = ask(None) if hosts else None
    return {} if password is None else dict.fromkeys(hosts, password)


def _own(found: Iterable[SudoResult], ask: Ask) -> dict[str, str]:
    answers = {host: ask(host) for host in _with(found, SudoOutcome.PASSWORD_REJECTED)}
    return {host: password for host, password in answers.items() if password is not None}


def _with(found: Iterable[SudoResult], outcome: SudoOutcome) -> list[str]:
    return [each.host for each in found if each.outcome is outcome]
