"""Real git repositories in a folder of the test, a git that writes down what it is asked, and a network that is not there."""

from __future__ import annotations

import os
import select
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkrun.core.config import SparkrunConfig
from sparkrun.core.events import Event
from sparkrun.core.registry import FALLBACK_DEFAULT_REGISTRIES, RegistryManager
from sparkrun.core.resolve import ResolveContext

GIT = shutil.which("git") or "/usr/bin/git"
RECIPE = "recipe_version: '2'\nmodel: org/m\nruntime: vllm\ncontainer: e/v:1\ndefaults: {port: 8000, tensor_parallel: 2}\n"

_IDENTITY = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "test")


class Repo:
    """A repository that others fetch from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "uploadpack.allowFilter", "true")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def commit(self, files: dict[str, str | None]) -> str:
        """Write the files (``None`` removes one) and commit; the commit's id."""
        for name, text in files.items():
            path = self.path / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self.commit_all()

    def commit_all(self) -> str:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "-m", "x")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.path), **_IDENTITY}
        return subprocess.run([GIT, *words], cwd=self.path, env=env, check=True, capture_output=True, text=True).stdout


class GitRecorder:
    """A ``git`` before the real one on PATH. It notes its subcommands and can be told to fail or to hang in one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        os.mkfifo(folder / "started")
        os.mkfifo(folder / "never")
        script = folder / "git"
        script.write_text(
            f"""#!/bin/bash
here={folder}
for word in "$@"; do case "$word" in clone|fetch|ls-remote|reset|sparse-checkout|ls-tree) verb=$word; break;; esac; done
printf '%s\\n' "$verb $*" >> "$here/log"
if [ -e "$here/fail-$verb" ]; then echo "fatal: the disk is on fire" >&2; exit 128; fi
if [ -e "$here/hang-$verb" ]; then echo $$ > "$here/started"; read -r _ < "$here/never"; fi
exec {GIT} "$@"
""",
            encoding="utf-8",
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    @property
    def verbs(self) -> list[str]:
        """The subcommands so far, in order."""
        return [line.partition(" ")[0] for line in self.lines]

    @property
    def lines(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def forget(self) -> None:
        (self.folder / "log").unlink(missing_ok=True)

    def fail(self, verb: str) -> None:
        (self.folder / f"fail-{verb}").touch()

    def hang(self, verb: str) -> None:
        (self.folder / f"hang-{verb}").touch()

    def heal(self) -> None:
        for mark in (*self.folder.glob("fail-*"), *self.folder.glob("hang-*")):
            mark.unlink()

    def wait_until_hanging(self) -> int:
        """Block until git hangs; its process id."""
        return self.wait_until_all_hang(1)[0]

    def wait_until_all_hang(self, count: int) -> list[int]:
        """Block until so many gits hang at the same time; their process ids. Fails after ten seconds."""
        handle = os.open(self.folder / "started", os.O_RDWR | os.O_NONBLOCK)
        text = ""
        try:
            while text.count("\n") < count:
                ready, _, _ = select.select([handle], [], [], 10)
                assert ready, f"only {text.count(chr(10))} of {count} started"
                text += os.read(handle, 4096).decode()
        finally:
            os.close(handle)
        return [int(line) for line in text.split()]


@pytest.fixture
def new_repo(tmp_path: Path) -> Callable[[str], Repo]:
    """Makes repositories by name."""
    return lambda name: Repo(tmp_path / "origin" / name)


@pytest.fixture
def repo(new_repo: Callable[[str], Repo]) -> Repo:
    """A repository with a manifest of one registry, ``myreg``, and a recipe ``good``."""
    made = new_repo("myrepo")
    made.commit({".sparkrun/registry.yaml": manifest("myreg"), "recipes/good.yaml": RECIPE, "README.md": "x", "other/big.bin": "x"})
    return made


@pytest.fixture
def git(tmp_path: Path, env: dict[str, str]) -> GitRecorder:
    """The git that ``manager`` finds on PATH. It can reach this machine's files only; GitHub is the folder ``origin/github``."""
    recorder = GitRecorder(tmp_path / "bin")
    env["PATH"] = f"{recorder.folder}:{env['PATH']}"
    env |= {"GIT_ALLOW_PROTOCOL": "file", "GIT_CONFIG_COUNT": "1"}
    env |= {"GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/origin/github/.insteadOf", "GIT_CONFIG_VALUE_0": "https://github.com/"}
    return recorder


@pytest.fixture
def events() -> list[Event]:
    """What was told on the way."""
    return []


@pytest.fixture
def new_manager(git: GitRecorder, config: SparkrunConfig, events: list[Event]) -> Callable[..., RegistryManager]:
    """Managers that know nothing of each other, as in one command after another."""
    return lambda **options: RegistryManager(config, emit=events.append, **options)


@pytest.fixture
def manager(no_defaults: None, new_manager: Callable[..., RegistryManager]) -> RegistryManager:
    """The manager of a user who has no registries but the built-in one."""
    return new_manager()


@pytest.fixture
def no_defaults(config: SparkrunConfig) -> None:
    """A ``registries.yaml`` of a user who removed every shipped registry."""
    removed = ", ".join(entry.name for entry in FALLBACK_DEFAULT_REGISTRIES)
    save_registries(config, f"config_version: 1\nregistries: []\nsuppressed_plugin_registries: [{removed}]\n")


@pytest.fixture
def ctx(tmp_path: Path, config: SparkrunConfig, manager: RegistryManager, events: list[Event]) -> ResolveContext:
    """A look-up in an empty folder."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    return ResolveContext(config, cwd, manager, emit=events.append)


@pytest.fixture
def mirror(git: GitRecorder, new_repo: Callable[[str], Repo]) -> Callable[[str], Repo]:
    """Makes repositories that git finds at ``https://github.com/<name>``."""
    return lambda name: new_repo(f"github/{name}")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection of this process fails the test."""

    def refuse(*_: object) -> None:
        raise AssertionError("a network connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def manifest(*names: str, **keys: str) -> str:
    """A manifest of registries, each with ``keys``; recipes lie in ``recipes``."""
    lines = ["registries:"]
    for name in names:
        lines += [f"- name: {name}", *(f"  {key}: {value}" for key, value in {"recipes": "recipes", **keys}.items())]
    return "\n".join(lines) + "\n"


def save_registries(config: SparkrunConfig, text: str) -> Path:
    """Write ``registries.yaml``."""
    path = config.paths.registries_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
