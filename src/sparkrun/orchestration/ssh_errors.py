"""Why a host could not be reached, told from what OpenSSH says. Touches nothing.

OpenSSH writes its messages in English whatever the locale; the texts looked for are those of its sources, 7.x to 10.x, on Linux and macOS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from sparkrun.core.hosts import parse_host
from sparkrun.core.remote import Login, RemoteResult

CANNOT_START = "cannot start ssh"


class FailureKind(StrEnum):
    """What kept a script from its end, other than the script itself."""

    UNKNOWN_NAME = "unknown-name"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    FROZEN = "frozen"
    HOST_KEY_CHANGED = "host-key-changed"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    PERMISSION_DENIED = "permission-denied"
    TURNED_AWAY = "turned-away"
    LOST = "lost"
    BAD_CONFIG = "bad-config"
    NO_SSH = "no-ssh"
    OTHER = "other"


class SshFailure(msgspec.Struct, frozen=True):
    """One sentence on what went wrong, without the host's name in front, and what to do about it."""

    kind: FailureKind
    message: str
    hint: str | None = None


def explain_ssh_failure(result: RemoteResult) -> SshFailure | None:
    """Why the host did not answer, or not to the end; ``None`` when the script itself succeeded or failed."""
    if result.timed_out and result.connected:
        return _too_slow(result)
    if not (result.unreachable or result.timed_out):
        return None
    text = result.stderr.replace("\r", "")
    for pattern, explain in _WHILE_IT_RAN if result.connected else _BEFORE_IT_RAN:
        if found := re.search(pattern, text, re.MULTILINE):
            return explain(found, result)
    return _without_words(result, text)


def needs_login(result: RemoteResult) -> bool:
    """Whether the explanation would say as whom and with which keys it was tried."""
    return result.unreachable and re.search(_DENIED, result.stderr, re.MULTILINE) is not None


def parse_ssh_config(text: str) -> dict[str, tuple[str, ...]]:
    """The answer of ``ssh -G``: every option in lower case with its values, in order."""
    values: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        values[key] = (*values.get(key, ()), value)
    return values


def login_of(config: Mapping[str, Sequence[str]], *, keys: Sequence[str], agent: bool) -> Login | None:
    """Who ssh would log in as, of what ``ssh -G`` told. ``keys`` are those of its identity files that exist."""
    try:
        return Login(user=config["user"][0], address=config["hostname"][0], port=int(config["port"][0]), keys=tuple(keys), agent=agent)
    except (KeyError, ValueError):
        return None


def without_ssh_words(stderr: str) -> str:
    """What a script wrote to stderr, without what ssh itself says there about its connection."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not re.match(_SSH_WORDS, line))


_DENIED = r"Permission denied \(|Too many authentication failures|No more authentication methods"
# Patterns are compiled when something went wrong: a command that goes well pays nothing for them.
_SSH_WORDS = (
    r"ControlSocket .* already exists, disabling multiplexing|mux_client_\w+: |Warning: Permanently added |"
    r"Pseudo-terminal will not be allocated|Shared connection to "
)
_KEY_FILE = r"(?:Load key \"|Warning: Identity file )?(.+?)(?:\"?: | not accessible: )"


def _unknown_name(found: re.Match[str], _result: RemoteResult) -> SshFailure:
    name, why = found[1], found[2].strip()
    if "temporary" in why.lower():
        return SshFailure(
            FailureKind.UNKNOWN_NAME, f"the name {name} could not be looked up: {why.lower()}", "is the network up, and its name server?"
        )
    hint = "check the spelling, or give its address; names come from DNS, /etc/hosts and ~/.ssh/config"
    return SshFailure(FailureKind.UNKNOWN_NAME, f"no host has the name {name}", hint)


def _refused(found: re.Match[str], _result: RemoteResult) -> SshFailure:
    hint = "start an ssh server there (sudo systemctl enable --now ssh), or give its port: HOST:PORT"
    return SshFailure(FailureKind.REFUSED, f"connection refused: nothing listens on {found[1]} port {found[2]}", hint)


def _unreachable(found: re.Match[str], result: RemoteResult) -> SshFailure:
    why = found[3].strip()
    if "timed out" in why:
        return _silent(result, f"{found[1]} port {found[2]}")
    if why in {"Permission denied", "Operation not permitted"}:
        hint = "a firewall of this machine, or the kind of sandbox it runs in, forbids it"
        return SshFailure(FailureKind.UNREACHABLE, f"this machine may not connect to {found[1]} port {found[2]}", hint)
    return SshFailure(FailureKind.UNREACHABLE, f"unreachable: {why.lower()} ({found[1]} port {found[2]})", _is_it_on(result))


def _silent(result: RemoteResult, where: str = "") -> SshFailure:
    limit = f" within {result.limit_s:g} s" if result.limit_s else " in time"
    return SshFailure(FailureKind.TIMED_OUT, f"no answer{f' from {where}' if where else ''}{limit}", _is_it_on(result))


def _no_banner(_found: re.Match[str], _result: RemoteResult) -> SshFailure:
    hint = "it is frozen, starting up or out of memory, or something else listens there: look at its console"
    return SshFailure(FailureKind.FROZEN, "it takes the connection, but its ssh server says nothing", hint)


def _key_changed(_found: re.Match[str], result: RemoteResult) -> SshFailure:
    text = result.stderr.replace("\r", "")
    place = re.search(r"^Offending \S+ key in (\S+:\d+)", text, re.MULTILINE)
    print_now = re.search(r"^The fingerprint for the (\S+) key sent by the remote host is\n(\S+?)\.?$", text, re.MULTILINE)
    remove = re.search(r"^\s*(ssh-keygen .*-R .*)$", text, re.MULTILINE)
    now = f"; it now shows {print_now[1]} {print_now[2]}" if print_now else ""
    known = f" ({place[1]} holds another)" if place else ""
    command = remove[1] if remove else f"ssh-keygen -R {_known_hosts_name(result.host)}"
    hint = (
        "was it installed anew? compare on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n"
        f"then forget the old key: {command}"
    )
    return SshFailure(FailureKind.HOST_KEY_CHANGED, f"its host key has changed{known}{now}", hint)


def _key_unknown(_found: re.Match[str], result: RemoteResult) -> SshFailure:
    hint = (
        f"look at its key and accept it once: {_by_hand(result.host)}\n"
        "or accept every host that is new, in config.yaml: ssh: {options: [-o, StrictHostKeyChecking=accept-new]}"
    )
    return SshFailure(FailureKind.HOST_KEY_UNKNOWN, "its host key is not known here, and nobody can be asked", hint)


def _denied(_found: re.Match[str], result: RemoteResult) -> SshFailure:
    text, login = result.stderr.replace("\r", ""), result.login
    who = re.search(r"^(\S+)@\S+: Permission denied", text, re.MULTILINE)
    user = login.user if login else who[1] if who else ""
    trouble = _key_trouble(text)
    message = f"permission denied{f' for user {user}' if user else ''}{_offered(login)}{f'; {trouble}' if trouble else ''}"
    return SshFailure(FailureKind.PERMISSION_DENIED, message, _let_us_in(login, result, trouble))


def _offered(login: Login | None) -> str:
    if login is None:
        return ""
    offers = [*login.keys, *(["the keys of the ssh agent"] if login.agent else [])]
    return f"; offered: {', '.join(offers)}" if offers else "; there is no key to offer"


def _key_trouble(text: str) -> str:
    """A key file that ssh could not use."""
    for line in text.splitlines():
        if line.startswith(("Load key ", "Warning: Identity file ")) and (found := re.match(_KEY_FILE, line)):
            return f"{found[1]} cannot be used: {line[found.end() :].strip().rstrip('.').lower()}"
    return ""


def _let_us_in(login: Login | None, result: RemoteResult, trouble: str) -> str:
    if "bad permissions" in trouble:
        return "make the key private: chmod 600 KEY"
    key = f"-i {login.keys[0]} " if login and login.keys else ""
    target = " ".join(_target(result.host, login))
    if login and not login.keys and not login.agent:
        return f"make a key and put it there: ssh-keygen -t ed25519 && ssh-copy-id {target}"
    others = "or name another user (USER@HOST), or another key (ssh: {key: FILE} in config.yaml)"
    return f"put the key there: ssh-copy-id {key}{target}\n{others}"


def _turned_away(found: re.Match[str], _result: RemoteResult) -> SshFailure:
    hint = "its ssh server turns us away: too many connections at once (MaxStartups), a ban (fail2ban), or it is shutting down"
    return SshFailure(FailureKind.TURNED_AWAY, f"it closed the connection before the login: {_clean(found[0])}", hint)


def _no_common(found: re.Match[str], _result: RemoteResult) -> SshFailure:
    return SshFailure(FailureKind.OTHER, f"the two ssh programs have nothing in common: {_clean(found[1])}", "update the older of the two")


def _bad_config(found: re.Match[str], _result: RemoteResult) -> SshFailure:
    hint = "correct the line in ~/.ssh/config, or ssh.options in config.yaml"
    return SshFailure(FailureKind.BAD_CONFIG, f"ssh cannot use its configuration: {_clean(found[0])}", hint)


def _no_ssh(_found: re.Match[str], _result: RemoteResult) -> SshFailure:
    return SshFailure(FailureKind.NO_SSH, "this machine has no ssh program", "install OpenSSH's client: sudo apt install openssh-client")


def _went_silent(_found: re.Match[str], result: RemoteResult) -> SshFailure:
    return SshFailure(FailureKind.FROZEN, "it stopped answering while the script ran", _is_it_on(result))


def _broke_off(found: re.Match[str], result: RemoteResult) -> SshFailure:
    return SshFailure(FailureKind.LOST, f"the connection broke off: {_clean(found[0])}", _is_it_on(result))


_Rule = tuple[str, Callable[[re.Match[str], RemoteResult], SshFailure]]

# In order: the first that fits tells the cause, what comes after it in the text are its consequences.
_BEFORE_IT_RAN: tuple[_Rule, ...] = (
    (rf"^{CANNOT_START}: (.*)", _no_ssh),
    (r"^.*: Bad configuration option.*|^.*: line \d+: .*|^Bad owner or permissions on .*|^ControlPath too long.*", _bad_config),
    (r"Could not resolve hostname (\S+): (.*)", _unknown_name),
    (r"connect to host (\S+) port (\d+): Connection refused", _refused),
    (r"connect to host (\S+) port (\d+): (.*)", _unreachable),
    (r"timed out during banner exchange", _no_banner),
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed", _key_changed),
    (r"Host key verification failed|host key is known for", _key_unknown),
    (_DENIED, _denied),
    (r"^(Unable to negotiate .*)", _no_common),
    (r"^(?:kex_exchange_identification|ssh_exchange_identification|banner exchange): .*|^Connection (?:closed|reset) by .*", _turned_away),
)
_WHILE_IT_RAN: tuple[_Rule, ...] = (
    (r"^Timeout, server \S+ not responding", _went_silent),
    (
        r"^(?:client_loop: |packet_write_wait: |Read from remote host |Connection to \S+ closed by |Connection (?:closed|reset) by ).*",
        _broke_off,
    ),
)


def _without_words(result: RemoteResult, text: str) -> SshFailure:
    if result.timed_out:
        return _silent(result)
    if result.connected:
        message = "the connection broke off: the host froze or restarted, or the network was cut"
        return SshFailure(FailureKind.LOST, message, _is_it_on(result))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return SshFailure(FailureKind.OTHER, lines[-1] if lines else "ssh gave no reason", f"try: {_by_hand(result.host)}")


def _too_slow(result: RemoteResult) -> SshFailure:
    limit = f" within {result.limit_s:g} s" if result.limit_s else " in time"
    return SshFailure(FailureKind.TIMED_OUT, f"the script did not finish{limit}", "is the host busy, or out of memory?")


def _is_it_on(result: RemoteResult) -> str:
    return f"is it switched on, and on this network? try: {_by_hand(result.host)}"


def _by_hand(host: str) -> str:
    """What a user types to reach it."""
    return " ".join(["ssh", *_target(host, None), "true"])


def _target(host: str, login: Login | None) -> list[str]:
    address = parse_host(host)
    user = address.user or (login.user if login else None)
    port = ["-p", str(address.port)] if address.port else []
    return [*port, f"{user}@{address.name}" if user else address.name]


def _known_hosts_name(host: str) -> str:
    address = parse_host(host)
    return f"'[{address.name}]:{address.port}'" if address.port else address.name


def _clean(text: str) -> str:
    return text.strip().rstrip(".")
