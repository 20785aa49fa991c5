"""Scripts on many hosts at once: which way each goes, what is tried when a way fails, and what came of it.

A script is begun at most once. Over a connection that was open before, its text is sent only after the host has answered; a connection
that is silent is given up for a fresh one. After a host has begun, nothing is tried again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from sparkrun.core.paths import expand
from sparkrun.core.remote import RemoteResult, Root
from sparkrun.orchestration.local_host import is_local
from sparkrun.orchestration.ssh_command import CONNECT_TIMEOUT_S, Connection, SshSettings, build_config_cmd, build_ssh_cmd
from sparkrun.orchestration.ssh_errors import login_of, needs_login, parse_ssh_config, without_ssh_words
from sparkrun.orchestration.ssh_mux import LOST, REFUSED, ControlSocket, SharedSession, find_socket
from sparkrun.utils.fanout import KILLED, NOT_RUN, Batch, Finished, Opening, Running, Task, run_batch
from sparkrun.utils.proc import ChildProcess

if TYPE_CHECKING:
    from threading import Event

MARK = "SPARKRUN_SESSION_OPEN"
"""The line by which a host says that its bash listens. What login files print comes before it and is dropped."""
SCRIPT_MARK = "SPARKRUN_SCRIPT"
GRACE_S = 0.5
"""What ssh may take longer than its own limit, so that its words are heard before it is killed."""
ASK_TIMEOUT_S = 3
BASH = "bash -s"
# Where root itself logs in, sudo may not be installed.
SUDO = "bash -c 'if ((EUID)) || type -P sudo >/dev/null; then LC_ALL=C exec sudo -n bash -s; fi; exec bash -s'"
# sudo takes the first line of stdin for the password; where it needs none after all, that line must not reach bash.
SUDO_WITH_PASSWORD = (
    f"LC_ALL=C sudo -k -S -p '' bash -c 'printf \"{MARK}\\n\"; "
    f'while IFS= read -r line; do if [ "$line" = {SCRIPT_MARK} ]; then exec bash -s; fi; done; exit 70\''
)
WRONG_PASSWORD = "try again"
"""What sudo, and sudo-rs, say on stderr when they take another password."""


class Session(msgspec.Struct, frozen=True):
    """One script text for one host, and the patience with it. With ``on_line`` its output is handed on, and its stdin stays open."""

    host: str
    text: str
    timeout_s: float | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    root: Root | None = None
    on_line: Callable[[str], None] | None = None


class Way(Enum):
    """How a session gets to its host."""

    LOCAL = "on this machine"
    SHARED = "over a connection that is open"
    SHARING = "by ssh, which leaves the connection open for others"
    ALONE = "by ssh, for itself"


def run_sessions(sessions: Sequence[Session], settings: SshSettings, stop: Event | None = None) -> tuple[RemoteResult, ...]:
    """Run all at once, at most ``settings.max_parallel`` of them; results in the given order, nothing is raised for what hosts do."""
    failed: dict[str, Finished] = {}
    tries = [_Try(session, settings, failed) for session in sessions]
    batch = Batch(
        size=len(tries),
        plan=lambda number, before: tries[number].first() if before is None else tries[number].after(before),
        limit=settings.max_parallel,
        lane=lambda number: tries[number].lane(),
        stop=stop,
    )
    ended = run_batch(batch)
    return _with_logins([each.result(finished) for each, finished in zip(tries, ended, strict=True)], settings)


def way_after(way: Way, finished: Finished) -> Way | None:
    """What to try after an attempt that never reached the host's bash; ``None`` when that is the answer."""
    if finished.opened:
        return None
    if way is Way.SHARED and (finished.timed_out or finished.error or finished.returncode in {LOST, REFUSED}):
        return Way.ALONE if finished.returncode == REFUSED else Way.SHARING
    if way is Way.SHARING and finished.returncode == LOST and _sharing_failed(finished.stderr):
        return Way.ALONE
    return None


def _sharing_failed(stderr: str) -> bool:
    """Whether ssh could not make its control socket: it gives up then, though the host was reached."""
    return any(word in stderr for word in ("unix_listener:", "ControlPath too long", "muxserver_listen", "mux listener"))


class _Try:
    """A session on its way: which way it goes now, and how much of its time is left."""

    def __init__(self, session: Session, settings: SshSettings, failed: dict[str, Finished]) -> None:
        self._session, self._settings = session, settings
        self._failed = failed
        self._local = is_local(session.host, settings.user_of(session.host))
        self._way = Way.LOCAL if self._local else Way.ALONE
        self._socket: ControlSocket | None = None
        self._begun = 0.0

    def lane(self) -> str | None:
        """Of several scripts for a host without a connection, the first makes it and the others share it."""
        if self._local:
            return None
        self._socket = find_socket(self._session.host, self._settings)
        return None if self._socket is None or self._socket.exists else self._socket.path

    def first(self) -> Task | None:
        """The first attempt; none where another script of this batch could not get to the host either."""
        self._begun = time.monotonic()
        if self._socket is not None:
            self._way = Way.SHARED if self._socket.exists else Way.SHARING
            if self._socket.path in self._failed:
                return None
        return self._task()

    def after(self, finished: Finished) -> Task | None:
        """The next attempt, if this one does not count and there is time for another."""
        way = way_after(self._way, finished)
        if way is None:
            if self._way is Way.SHARING and not _connected(finished) and self._socket is not None:
                self._failed[self._socket.path] = finished
            return None
        if self._way is Way.SHARED and way is Way.SHARING and self._socket is not None:
            self._socket.discard()
        self._way = way
        return self._task() if self._connect_left_s() > 0 else None

    def result(self, finished: Finished) -> RemoteResult:
        """What came of it."""
        session = self._session
        if finished is NOT_RUN and self._socket is not None:
            finished = self._failed.get(self._socket.path, finished)
        if finished.error is not None:
            return RemoteResult(session.host, LOST, stderr=self._why_not_started(finished.error), unreachable=True)
        lost = not self._local and finished.returncode in {LOST, REFUSED}
        connected = self._local or _connected(finished)
        return RemoteResult(
            session.host,
            -1 if finished.timed_out else LOST if lost else finished.returncode,
            finished.stdout,
            without_ssh_words(finished.stderr) if connected and not lost else finished.stderr,
            unreachable=lost or not connected,
            timed_out=finished.timed_out,
            connected=connected,
            began=finished.opened,
            limit_s=session.timeout_s if connected else session.connect_timeout_s,
        )

    def _why_not_started(self, error: OSError) -> str:
        return f"cannot start {'bash' if self._local else 'ssh'}: {error.strerror}"

    def _task(self) -> Task:
        session = self._session
        first, rest = _stdin(session, way=self._way)
        return Task(
            self._start,
            stdin=first,
            rest=rest,
            timeout_s=None if session.timeout_s is None else max(0.0, session.timeout_s - self._spent_s()),
            opening=self._opening(),
            on_line=session.on_line,
            keep_stdin=session.on_line is not None,
        )

    def _opening(self) -> Opening | None:
        refusal = WRONG_PASSWORD if _password(self._session) is not None else ""
        if self._way is Way.LOCAL:
            return Opening(MARK, self._session.connect_timeout_s, refusal) if self._session.root else None
        left_s = self._connect_left_s()
        return Opening(MARK, left_s / 2 if self._way is Way.SHARED else left_s + GRACE_S, refusal)

    def _start(self) -> Running:
        command = _command(self._session)
        if self._way is Way.LOCAL:
            return ChildProcess(["bash", "-s"] if command == BASH else ["bash", "-c", command])
        if self._way is Way.SHARED:
            assert self._socket is not None
            return SharedSession(self._socket.path, command)
        shared = self._socket.path if self._way is Way.SHARING and self._socket else None
        words = build_ssh_cmd(self._session.host, self._settings, Connection(self._connect_left_s(), shared))
        return ChildProcess([*words, *(command.split() if command == BASH else [command])])

    def _spent_s(self) -> float:
        return time.monotonic() - self._begun

    def _connect_left_s(self) -> float:
        return self._session.connect_timeout_s - self._spent_s()


def _connected(finished: Finished) -> bool:
    """Whether the host's shell was reached: it says so itself, or gave an exit code that ssh does not use for itself."""
    return finished.opened or not (finished.timed_out or finished.error or finished.returncode in {LOST, REFUSED, KILLED})


def _password(session: Session) -> str | None:
    return session.root.password if session.root else None


def _command(session: Session) -> str:
    if session.root is None:
        return BASH
    return SUDO if session.root.password is None else SUDO_WITH_PASSWORD


def _stdin(session: Session, *, way: Way) -> tuple[bytes, bytes]:
    """What is sent at once, and what only after the host has answered."""
    # Nothing may follow the last line: a script takes more input for the end of its lifeline.
    text = (session.text if session.text.endswith("\n") else f"{session.text}\n").encode("utf-8", "surrogateescape")
    if (password := _password(session)) is not None:
        return f"{password}\n".encode(), f"{SCRIPT_MARK}\n".encode() + text
    if way is Way.LOCAL and session.root is None:
        return text, b""
    greeting = f"printf '{MARK}\\n'\n".encode()
    return (greeting, text) if way is Way.SHARED else (greeting + text, b"")


def _with_logins(results: Sequence[RemoteResult], settings: SshSettings) -> tuple[RemoteResult, ...]:
    """The results, with what was offered where it was denied; ssh itself is asked, which contacts nobody."""
    denied = [result for result in results if needs_login(result)]
    if not denied:
        return tuple(results)
    told = ask_ssh([result.host for result in denied], settings)
    logins = {
        result.host: login_of(config, keys=_existing(config.get("identityfile", ())), agent=_has_agent())
        for result, config in zip(denied, told, strict=True)
    }
    return tuple(msgspec.structs.replace(each, login=logins[each.host]) if each in denied else each for each in results)


def ask_ssh(hosts: Sequence[str], settings: SshSettings) -> list[dict[str, tuple[str, ...]]]:
    """What ssh would use for each host (``ssh -G``); empty for one where it does not tell. Contacts nobody."""

    def ask(number: int, before: Finished | None) -> Task | None:
        words = build_config_cmd(hosts[number], settings)
        return None if before else Task(lambda: ChildProcess(words), timeout_s=ASK_TIMEOUT_S)

    return [parse_ssh_config(ended.stdout) for ended in run_batch(Batch(len(hosts), ask, settings.max_parallel))]


def _existing(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(key for key in keys if expand(key, os.environ).is_file())


def _has_agent() -> bool:
    return bool(os.environ.get("SSH_AUTH_SOCK"))
