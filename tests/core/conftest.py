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
    """A repository that others fetch from, at ``https://github.com/<name>`` by the setting of the ``git`` fixture."""

    def __init__(self, github: Path, name: str) -> None:
        self.path = github / name
        self.url = f"https://github.com/{name}"
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / ".git").exists():
            return
        self._git("init", "--quiet", "--initial-branch=main", "--template=")
        with (self.path / ".git/config").open("a") as stream:
            stream.write("[uploadpack]\n\tallowFilter = true\n")

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
        return (self.path / ".git/refs/heads/main").read_text(encoding="ascii").strip()

    def _git(self, *words: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.path), **_IDENTITY}
        subprocess.run([GIT, *words], cwd=self.path, env=env, check=True, capture_output=True)


class GitRecorder:
    """A ``git`` before the real one on PATH. It notes its subcommands and can be told to fail or to hang in one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        os.mkfifo(folder / "started")
        os.mkfifo(folder / "never")
        script = folder / "git"
        script.write_text(
            f"""#!/bin/sh
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
    """Makes repositories by name, with or without an owner before it."""
    return lambda name: Repo(tmp_path / "github", name if "/" in name else f"test/{name}")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GitHub with one repository, and the home of a user who has added it: made once, copied by each test."""
    root = tmp_path_factory.mktemp("template")
    made = Repo(root / "github", "test/myrepo")
    made.commit({".sparkrun/registry.yaml": manifest("myreg"), "recipes/good.yaml": RECIPE, "README.md": "x", "other/big.bin": "x"})
    env = {"HOME": str(root / "home"), "PATH": os.environ["PATH"], **fake_github(root / "github")}
    config = SparkrunConfig.load(env)
    _without_defaults(config)
    RegistryManager(config).add(made.url)
    return root


@pytest.fixture
def repo(template: Path, tmp_path: Path, new_repo: Callable[[str], Repo]) -> Repo:
    """A repository with a manifest of one registry, ``myreg``, and a recipe ``good``."""
    shutil.copytree(template / "github", tmp_path / "github", dirs_exist_ok=True)
    return new_repo("myrepo")


@pytest.fixture
def reg(template: Path, config: SparkrunConfig, manager: RegistryManager, repo: Repo) -> Repo:
    """``repo``, added as ``myreg`` and fetched."""
    shutil.copytree(template / "home/.cache/sparkrun", config.paths.cache_dir, symlinks=True, dirs_exist_ok=True)
    shutil.copy(template / "home/.config/sparkrun/registries.yaml", config.paths.registries_file)
    return repo


@pytest.fixture
def git(tmp_path: Path, env: dict[str, str]) -> GitRecorder:
    """The git that ``manager`` finds on PATH. It can reach this machine's files only; GitHub is the folder ``github``."""
    recorder = GitRecorder(tmp_path / "bin")
    env["PATH"] = f"{recorder.folder}:{env['PATH']}"
    env |= fake_github(tmp_path / "github")
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
    _without_defaults(config)


@pytest.fixture
def ctx(tmp_path: Path, config: SparkrunConfig, manager: RegistryManager, events: list[Event]) -> ResolveContext:
    """A look-up in an empty folder."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    return ResolveContext(config, cwd, manager, emit=events.append)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection of this process fails the test."""
    forbid_connections(monkeypatch)


def forbid_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection of this process, and every look-up of a name, fail."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a network connection was made")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
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


def _without_defaults(config: SparkrunConfig) -> None:
    removed = ", ".join(entry.name for entry in FALLBACK_DEFAULT_REGISTRIES)
    save_registries(config, f"config_version: 1\nregistries: []\nsuppressed_plugin_registries: [{removed}]\n")


def fake_github(folder: Path) -> dict[str, str]:
    """The environment in which git takes ``folder`` for GitHub and reaches nothing else."""
    key = f"url.file://{folder}/.insteadOf"
    return {"GIT_ALLOW_PROTOCOL": "file", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": "https://github.com/"}
