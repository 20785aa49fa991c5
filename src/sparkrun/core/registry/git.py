"""The one place that runs git: no prompt, no hooks, a deadline on everything, and git's own reason when it fails."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkrun.core.registry.errors import GitError
from sparkrun.core.registry.rules import ROOT, mask_url
from sparkrun.utils.proc import kill_group

_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}
_SSH = "ssh -oBatchMode=yes -oConnectTimeout=10"
# A git hook or alias that runs sparkrun hands these on, and they would point git at the wrong repository.
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_PREFIX")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.sparseCheckoutCone=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "protocol.ext.allow=never",
    "advice.detachedHead=false",
)
_NOISE = (
    "Cloning into",
    "warning:",
    "hint:",
    "Please make sure",
    "and the repository exists",
    "fatal: Could not read from remote repository",
)
_LABELS = ("fatal: ", "error: ", "remote: ", "ERROR: ")


class Deadline:
    """A point in time after which nothing more is waited for."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left_s(self) -> float:
        """Seconds that remain, never below zero."""
        return max(0.0, self._end - self._clock())


class Git:
    """Git with a fixed behaviour. Every method raises ``GitError``; several threads may share one."""

    def __init__(self, env: Mapping[str, str]) -> None:
        inherited = {key: value for key, value in env.items() if key not in _INHERITED}
        self._env = {"GIT_SSH_COMMAND": _SSH, **inherited, **_FIXED}
        self._running: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._cancelled = False

    def clone(self, url: str, target: Path, deadline: Deadline, *, sparse: bool = True) -> None:
        """A shallow clone without file contents into an empty folder; ``sparse`` holds the files of the top folder only."""
        options = ["--depth=1", "--filter=blob:none", "--no-tags", *(["--sparse"] if sparse else [])]
        self._run(["clone", "--quiet", *options, "--", url, str(target)], f"clone of {mask_url(url)}", deadline)

    def remote_head(self, url: str, deadline: Deadline) -> str:
        """The commit that a repository shows now."""
        what = f"look at {mask_url(url)}"
        commit = self._run(["ls-remote", "--quiet", "--", url, "HEAD"], what, deadline).partition("\t")[0].strip()
        if not commit:
            raise _failed(what, "the repository is empty")
        return commit

    def fetch(self, tree: Path, deadline: Deadline) -> None:
        """Get the newest commit, without file contents, and show it."""
        options = ["--quiet", "--depth=1", "--filter=blob:none", "--no-tags"]
        self._run(["fetch", *options, "origin", "HEAD"], "fetch", deadline, tree)
        self._run(["reset", "--quiet", "--hard", "FETCH_HEAD"], "reset", deadline, tree)

    def hold(self, tree: Path, paths: tuple[str, ...], deadline: Deadline) -> None:
        """Hold exactly these folders; ``/`` alone is everything."""
        words = ["disable"] if paths == (ROOT,) else ["set", *paths]
        self._run(["sparse-checkout", *words], "sparse checkout", deadline, tree)

    def files(self, tree: Path, deadline: Deadline) -> tuple[str, ...]:
        """The paths of all files of the commit, also of those that the clone does not hold."""
        listing = self._run(["ls-tree", "-r", "-z", "--name-only", "HEAD"], "ls-tree", deadline, tree)
        return tuple(filter(None, listing.split("\0")))

    def cancel(self) -> None:
        """End every running git, and start no more. For Ctrl-C while other threads wait for git."""
        with self._guard:
            self._cancelled = True
            running = tuple(self._running)
        for process in running:
            kill_group(process)

    def _run(self, words: list[str], what: str, deadline: Deadline, tree: Path | None = None) -> str:
        process = self._start(words, what, tree)
        try:
            stdout, stderr = process.communicate(timeout=deadline.left_s())
        except subprocess.TimeoutExpired:
            raise _failed(what, f"no end after {deadline.seconds:g} s") from None
        finally:
            if process.poll() is None:
                kill_group(process)
            with self._guard:
                self._running.discard(process)
        if process.returncode:
            raise _failed(what, git_reason(stderr) or f"exit code {process.returncode}")
        return stdout

    def _start(self, words: list[str], what: str, tree: Path | None) -> subprocess.Popen[str]:
        options = [word for setting in _SETTINGS for word in ("-c", setting)] + (["-C", str(tree)] if tree else [])
        # Where the clone is damaged, git would take the repository around it, which may be the user's own.
        bounds = {"GIT_CEILING_DIRECTORIES": str(tree.resolve().parent)} if tree else {}
        with self._guard:
            if self._cancelled:
                raise _failed(what, "cancelled")
            try:
                process = subprocess.Popen(
                    ["git", *options, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**self._env, **bounds},
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                raise _failed(what, "git is not installed" if missing else str(error), hint="install git" if missing else None) from error
            self._running.add(process)
        return process


def git_reason(stderr: str) -> str:
    """Git's own reason in its error output: the first line that says something, without labels, passwords and control characters."""
    lines = [line.strip() for line in stderr.replace("\r", "\n").splitlines() if line.strip()]
    telling = next((line for line in lines if not line.startswith(_NOISE)), lines[0] if lines else "")
    for label in _LABELS:
        telling = telling.removeprefix(label)
    return mask_url(telling)


def _failed(what: str, reason: str, hint: str | None = None) -> GitError:
    return GitError(f"git {what} failed: {reason}", reason, hint=hint)
